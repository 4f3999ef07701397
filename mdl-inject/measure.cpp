#include "mdl-inject/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/phases.h"
#include "base/say.h"
#include "base/terminal.h"
#include "mdl-inject/audit.h"
#include "mdl-inject/commands.h"
#include "mdl-inject/compile.h"
#include "mdl-inject/consent.h"
#include "mdl-inject/defaults.h"
#include "mdl-inject/drill_queries.h"
#include "mdl-inject/follow.h"
#include "mdl-inject/guest.h"
#include "mdl-inject/join.h"
#include "mdl-inject/resources.h"
#include "mdl-inject/top.h"
#include "runtime/kernel/broker.h"
#include "runtime/kernel/start.h"
#include "runtime/output/formats.h"
#include "runtime/output/rows.h"
#include "runtime/session/report.h"
#include "runtime/session/session.h"

namespace mdl::inject {

namespace {

int print_rehearsals(const Options& options, const std::vector<Joining>& joining) {
  int out = 0;
  output::Rows rows(options.format);
  for (const Joining& one : joining) {
    if (options.several && !rows.has_objects()) say("{}:\n", named(one.pid));
    out = std::max(out, one.process->print_rehearsal(rows));
  }
  say_text(stdout, rows.end());
  return out;
}

Result<int> attach(const Options& options, const plan::Plan& plan, output::Feed& feed, Audit& audit,
                   std::optional<process::Launch>& launched, std::optional<Early> early,
                   ChangeSources changes, std::optional<Choice>& choice) {
  auto joining = look_at_all(options, plan, launched, std::move(early), audit);
  if (!joining) return joining.error();
  if (options.dry_run) return print_rehearsals(options, *joining);
  const Watch watch = Watch::open();  // from here on an interrupt ends the measurement in order
  std::vector<pid_t> pids;
  for (const Joining& one : *joining) pids.push_back(one.pid);
  audit.is_only_about(pids);
  if (auto ok = audit.say("attach", "begins"); !ok) return ok.error();
  auto processes = insert_all(options, plan, feed, std::move(*joining), audit);
  if (!processes) return processes.error();
  pids.clear();
  for (const auto& one : *processes) pids.push_back(one->measurement().pid());
  audit.is_only_about(pids);
  (void)audit.say("attach", "done");
  changes.log = [&](const std::string& line, const std::string& outcome) {
    return audit.say("change", fmt::format("{}: {}", line, outcome));
  };
  if (changes.guests) changes.guests->log_to(changes.log);
  auto source = source_of_newcomers(options, plan, feed, audit, choice);
  auto status =
      Session(options, plan, watch, feed, std::move(*processes), changes, std::move(source)).run(launched);
  if (status)
    (void)audit.say(options.detach ? "detach" : "removal",
                    *status == 0 ? "done" : fmt::format("exit status {}", *status));
  return status;
}

// For what takes moments where it does not hang.
constexpr std::chrono::seconds kPatience{30};

// Output files are made by the broker, since nobody else may open one any more.
Result<void> separate(const Options& options, bool own_command, output::Sink& sink, Audit& audit,
                      kernel::Newcomers newcomers, std::optional<int> listener) {
  if (!options.separate) return {};
  kernel::Trust trust = trust_in(options, &audit);
  trust.command = kernel::command_words(options.run);
  trust.folder = options.folder;
  trust.any_command = own_command;
  trust.patience = kPatience + options.max_pause;
  trust.newcomers = std::move(newcomers);
  if (listener) trust.of_worker = {*listener};
  trust.publish = [&sink](std::string_view text) { return sink.publish(text); };
  if (auto ok = kernel::separate(std::move(trust)); !ok) return ok;
  audit.write_through(kernel::log);
  sink.publish_through(kernel::publish);
  return {};
}

// A program that is started for this has the terminal, too, and commands may come from it.
bool is_drawn_in_place(const Options& options) {
  return options.output.empty() && (options.format.empty() || options.format == "table") && !options.start &&
         options.commands.empty() && !options.dry_run && !options.is_listing && can_draw();
}

// A line that keys choose stands for functions of one process, whose requests change.
bool may_drill(const Options& options) {
  return is_drawn_in_place(options) && isatty(STDIN_FILENO) == 1 && !options.typed.empty() &&
         !options.follow_fork && !options.await && !options.names_several();
}

// A guest is not known to have typed anything, nor where its plan lies: only a signature tells.
Guests::Admit admission_of_guests(const Policy& policy) {
  return [&policy](const plan::Plan& plan, const std::string& name, GuestConsents& consents) -> Result<void> {
    Options options;
    options.plan = name;
    options.allow_calls = consents.allow_calls, options.allow_reads = consents.allow_reads;
    options.budget = consents.budget;
    if (auto ok = apply_policy(policy, plan, options); !ok) return ok;
    consents = {options.allow_calls, options.allow_reads, options.budget};
    return {};
  };
}

// A program that was started for this and not let go yet ends with us (kernel/start.h).
void end_before_anything(int) {
  constexpr std::string_view kText = "mdl-inject: interrupted before anything was changed\n";
  [[maybe_unused]] ssize_t put = ::write(STDERR_FILENO, kText.data(), kText.size());
  _exit(static_cast<int>(Status::failed));
}

}  // namespace

int measure(const Options& asked, const Policy& policy) {
  // Until the watch takes them over, nothing is in the process yet.
  for (int signal : ending_signals()) std::signal(signal, end_before_anything);
  Options options = asked;
  if (options.busiest) ask_for_busiest(options);
  auto host = find_host(options);
  if (!host && may_drill(options)) ask_for_drills(options);
  phases::begin("compile");
  auto file = open_plan_file(options);
  if (!file) return fail(file.error());
  auto audit = Audit::open(policy.audit_required && !options.dry_run, options.separate);
  if (!audit) return fail(audit.error());
  auto sink = options.output.empty() || !options.dry_run ? output::Sink::open(options.output)
                                                         : output::Sink::open("");
  if (!sink) return fail(sink.error());
  std::optional<Commands> commands;
  if (!options.commands.empty() && !options.dry_run) {
    auto opened = Commands::open(options.commands);
    if (!opened) return fail(opened.error());
    commands.emplace(std::move(*opened));
  }
  if (!options.start && !options.follow && options.targets.empty()) options.targets = {Target{options.pid}};
  std::optional<Guests> guests;
  const auto listener = host ? std::nullopt : listen_for_guests(options);
  if (listener)
    guests.emplace(*listener, geteuid(), admission_of_guests(policy));
  else if (!host)
    host = find_host(options);  // another one may have begun meanwhile
  options.shares = guests.has_value();
  phases::begin("separate");
  // By a process that is there from before the privileges are given up.
  options.look.in_place = is_drawn_in_place(options);
  std::optional<Keys> keys = options.look.in_place ? Keys::open() : std::nullopt;
  options.look.keys = keys ? &*keys : nullptr;
  Drills drills;
  options.drills = keys && !host && !options.drill_queries.empty();
  if (options.drills) options.look.drill = [&drills](output::Drill drill) { drills.ask(std::move(drill)); };
  std::optional<Choice> choice;
  if (options.follow) choice.emplace(options);
  if (auto ok = separate(options, may_start_own_command(*file, policy, options), *sink, *audit,
                         choice ? admission(*choice, policy, *audit) : kernel::Newcomers{}, listener);
      !ok)
    return fail(ok.error());

  // From here on without privileges.
  const bool may_look_early = file->compiler && !options.start && !options.busiest && !host;
  std::optional<Early> early =
      may_look_early && options.targets.size() == 1 ? look_early(options.targets.front().pid) : std::nullopt;
  phases::begin("plan");
  auto plan = parse_plan(*file, options);
  if (!plan) return fail(plan.error());
  const auto refuse = [&](const Error& why) {
    (void)audit->say("attach", why.text);
    return fail(why);
  };
  const auto describe = [&] {
    std::vector<std::string> requests = options.queries;
    requests.insert(requests.end(), options.metrics.begin(), options.metrics.end());
    audit->is_about(options.pids(), plan->checksum, plan->signer ? format::name(*plan->signer) : "",
                    requests);
  };
  describe();
  if (auto ok = admit(*plan, *file, policy, options); !ok) return refuse(ok.error());
  if (!options.start)
    if (auto ok = break_lock(options); !ok) return refuse(ok.error());
  auto format = output::format_named(options.format, sink->is_terminal());
  if (!format) return fail(format.error());
  output::Feed feed;
  sink->call_meanwhile([&feed] { feed.meanwhile(); });
  options.look.colour = sink->is_terminal() && !std::getenv("NO_COLOR");
  options.look.process = options.names_several() ? 0 : options.pid;
  output::Look look = options.look;
  if (options.busiest && options.drills) look.top = 0;  // what was asked for by keys comes to them
  feed.add(options.is_listing ? make_listing(*sink, options.format) : format->make(*sink, look));
  std::optional<process::Launch> launched;
  if (auto ok = apply_defaults(plan->manifest, options); !ok) return fail(ok.error());
  if (options.start) {
    auto started = process::Launch::start(options.run, options.folder);
    if (!started) return fail(started.error());
    launched.emplace(std::move(*started));
    options.pid = launched->pid();
    options.targets = {Target{options.pid}};
    describe();
  }
  if (host) {
    auto status = measure_as_guest(std::move(*host), options, *file, *plan, feed, *audit);
    if (!status) return refuse(status.error());
    if (*status) {
      if (auto ok = sink->close(); !ok) return fail(ok.error());
      return **status;
    }
  }
  if (options.busiest) {
    if (auto ok = choose_busiest(options, *plan, *audit); !ok) return refuse(ok.error());
    describe();
  }
  auto status = attach(
      options, *plan, feed, *audit, launched, std::move(early),
      {commands ? &*commands : nullptr, options.drills ? &drills : nullptr, guests ? &*guests : nullptr},
      choice);
  if (options.timing) phases::print(stderr);
  if (!status) return refuse(status.error());
  if (auto ok = sink->close(); !ok) return fail(ok.error());
  return *status;
}

}  // namespace mdl::inject
