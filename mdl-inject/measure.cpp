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
#include "mdl-inject/clean.h"
#include "mdl-inject/commands.h"
#include "mdl-inject/compile.h"
#include "mdl-inject/consent.h"
#include "mdl-inject/defaults.h"
#include "mdl-inject/top.h"
#include "runtime/image/image.h"
#include "runtime/kernel/broker.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/kernel/start.h"
#include "runtime/output/formats.h"
#include "runtime/process/target.h"
#include "runtime/session/attached_process.h"
#include "runtime/session/report.h"
#include "runtime/session/session.h"
#include "runtime/session/users.h"

namespace mdl::inject {

namespace {

// Before the insertion an error may have a reason that explains it better.
Error blamed(const Error& why, pid_t pid, bool was_there, const process::TargetMemory* memory) {
  if (was_there && process::ends_now(pid))
    return {fmt::format("process {} has ended before it could be measured", pid)};
  return memory && !memory->is_of(pid) ? process::another_program(pid) : why;
}

// A process on its way into the session.
struct Joining {
  pid_t pid = 0;
  bool was_there = false;
  process::TargetMemory memory;
  std::unique_ptr<AttachedProcess> process;

  Error blamed(const Error& why) const { return inject::blamed(why, pid, was_there, &memory); }
};

std::string named(pid_t pid) {
  return fmt::format("process {} ({})", pid, process::read_status(pid).name);
}

// What goes before the insertion into it; of what is in it by now, only what is left behind is changed.
Result<Joining> look_at(const Options& options, const plan::Plan& plan, const Target& target,
                        std::optional<process::Launch>& launched, Audit& audit) {
  phases::begin("process");
  const pid_t pid = target.pid;
  const bool was_there = !process::has_ended(pid);
  auto status = process::check_target(pid);
  if (!status) return blamed(status.error(), pid, was_there, nullptr);
  // First of all: what is read from here on is of this program, or nothing is done to it (target_memory.h).
  Result<process::TargetMemory> memory =
      launched ? launched->take_memory() : process::TargetMemory::open(pid);
  if (!memory) return blamed(memory.error(), pid, was_there, nullptr);
  if (target.start != 0 && process::start_time(pid) != target.start)
    return Error{fmt::format("process {} has ended, and another one has its id", pid)};
  if (!launched && !options.dry_run)
    if (auto ok = clean(options, pid, *memory, audit); !ok)
      return blamed(ok.error(), pid, was_there, &*memory);
  auto process = AttachedProcess::look(options, plan, pid, status->name, *memory);
  if (!process) return blamed(process.error(), pid, was_there, &*memory);
  return Joining{pid, was_there, std::move(*memory), std::move(*process)};
}

// What to do where one of several cannot be measured: nothing of it, with an error, or all but it.
Result<void> without(const Options& options, const Target& target, const Error& why) {
  if (!options.several) return why;
  const bool is_gone = target.how != Target::How::named && !process::is_running(target.pid, target.start);
  if (!is_gone && (!options.skip_refused || why.status == Status::left_inert))
    return Error{
        fmt::format(
            "none of the {} processes is measured, because of {}: {}; --skip-refused measures the others",
            options.targets.size(), named(target.pid), why.text),
        why.status};
  say(stderr, "{}process {} is not measured: {}\n", is_gone ? "" : "warning: ", target.pid,
      is_gone ? "it has ended" : why.text);
  return {};
}

// By turns, before anything is put into any of them.
Result<std::vector<Joining>> look_at_all(const Options& options, const plan::Plan& plan,
                                         std::optional<process::Launch>& launched, Audit& audit) {
  std::vector<Joining> out;
  for (const Target& target : options.targets) {
    auto one = look_at(options, plan, target, launched, audit);
    const auto checked = [&]() -> Result<void> {
      if (!one) return one.error();
      if (options.explain && options.several) say(stderr, "{}:\n", named(target.pid));
      if (options.explain) one->process->explain();
      if (options.dry_run) return {};
      auto ok = one->process->check();
      return ok ? ok : one->blamed(ok.error());
    }();
    if (checked)
      out.push_back(std::move(*one));
    else if (auto ok = without(options, target, checked.error()); !ok)
      return ok.error();
  }
  if (out.empty()) return Error{"none of the processes can be measured"};
  return out;
}

// All of them, or none: what was put in is taken out again.
Result<std::vector<std::unique_ptr<AttachedProcess>>> insert_all(const Options& options, output::Feed& feed,
                                                                 std::vector<Joining> joining) {
  std::vector<std::unique_ptr<AttachedProcess>> out;
  for (Joining& one : joining) {
    auto inserted = one.process->insert(one.memory, feed, 0);
    if (inserted) {
      out.push_back(std::move(one.process));
      // One that has been measured for a while may stand at its end, and waits for us.
      for (const auto& before : out) (void)before->measurement().read_end();
      continue;
    }
    const Target& target = *std::ranges::find(options.targets, one.pid, &Target::pid);
    auto ok = without(options, target, one.blamed(inserted.error()));
    if (ok) continue;
    for (const auto& before : out) {
      Measurement& measurement = before->measurement();
      if (measurement.result()) continue;
      measurement.abandon(ok.error());
      if (const Error& left = measurement.result()->error(); left.status == Status::left_inert) ok = left;
    }
    return ok.error();
  }
  if (out.empty()) return Error{"none of the processes could be measured"};
  return out;
}

int print_rehearsals(const Options& options, const std::vector<Joining>& joining) {
  int out = 0;
  for (const Joining& one : joining) {
    if (options.several) say("{}:\n", named(one.pid));
    out = std::max(out, one.process->print_rehearsal());
  }
  return out;
}

Result<int> attach(const Options& options, const plan::Plan& plan, output::Feed& feed, Audit& audit,
                   std::optional<process::Launch>& launched, Commands* commands) {
  auto joining = look_at_all(options, plan, launched, audit);
  if (!joining) return joining.error();
  if (options.dry_run) return print_rehearsals(options, *joining);
  const Watch watch = Watch::open();  // from here on an interrupt ends the measurement in order
  std::vector<pid_t> pids;
  for (const Joining& one : *joining) pids.push_back(one.pid);
  audit.is_only_about(pids);
  if (auto ok = audit.say("attach", "begins"); !ok) return ok.error();
  auto processes = insert_all(options, feed, std::move(*joining));
  if (!processes) return processes.error();
  pids.clear();
  for (const auto& one : *processes) pids.push_back(one->measurement().pid());
  audit.is_only_about(pids);
  (void)audit.say("attach", "done");
  const auto log = [&](const std::string& line, const std::string& outcome) {
    return audit.say("change", fmt::format("{}: {}", line, outcome));
  };
  auto status = Session(options, plan, watch, feed, std::move(*processes), commands, log).run(launched);
  if (status)
    (void)audit.say(options.detach ? "detach" : "removal",
                    *status == 0 ? "done" : fmt::format("exit status {}", *status));
  return status;
}

// For what takes moments where it does not hang.
constexpr std::chrono::seconds kPatience{30};

// Output files are made by the broker, since nobody else may open one any more.
Result<void> separate(const Options& options, bool own_command, output::Sink& sink, Audit& audit) {
  if (!options.separate) return {};
  kernel::Trust trust = trust_in(options, &audit);
  trust.command = kernel::command_words(options.run);
  trust.folder = options.folder;
  trust.any_command = own_command;
  trust.patience = kPatience + options.max_pause;
  trust.publish = [&sink](std::string_view text) { return sink.publish(text); };
  if (auto ok = kernel::separate(std::move(trust)); !ok) return ok;
  audit.write_through(kernel::log);
  sink.publish_through(kernel::publish);
  return {};
}

// A program that is started for this has the terminal, too, and commands may come from it.
bool is_drawn_in_place(const Options& options) {
  return options.output.empty() && (options.format.empty() || options.format == "table") && !options.start &&
         !options.changes() && !options.dry_run && can_draw();
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
  phases::begin("compile");
  auto file = read_plan_file(options);
  if (!file) return fail(file.error());
  auto audit = Audit::open(policy.audit_required && !options.dry_run, options.separate);
  if (!audit) return fail(audit.error());
  auto sink = options.output.empty() || !options.dry_run ? output::Sink::open(options.output)
                                                         : output::Sink::open("");
  if (!sink) return fail(sink.error());
  std::optional<Commands> commands;
  if (options.changes() && !options.dry_run) {
    auto opened = Commands::open(options.commands);
    if (!opened) return fail(opened.error());
    commands.emplace(std::move(*opened));
  }
  if (!options.start && options.targets.empty()) options.targets = {Target{options.pid}};
  phases::begin("separate");
  // By a process that is there from before the privileges are given up.
  options.look.in_place = is_drawn_in_place(options);
  std::optional<Keys> keys = options.look.in_place ? Keys::open() : std::nullopt;
  options.look.keys = keys ? &*keys : nullptr;
  if (auto ok = separate(options, may_start_own_command(*file, policy, options), *sink, *audit); !ok)
    return fail(ok.error());

  // From here on without privileges.
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
  feed.add(format->make(*sink, options.look));
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
  if (options.busiest) {
    if (auto ok = choose_busiest(options, *plan, *audit); !ok) return refuse(ok.error());
    describe();
  }
  auto status = attach(options, *plan, feed, *audit, launched, commands ? &*commands : nullptr);
  if (options.timing) phases::print(stderr);
  if (!status) return refuse(status.error());
  if (auto ok = sink->close(); !ok) return fail(ok.error());
  return *status;
}

}  // namespace mdl::inject
