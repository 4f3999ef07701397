#include "mdl-inject/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "mdl-inject/audit.h"
#include "mdl-inject/commands.h"
#include "mdl-inject/compile.h"
#include "mdl-inject/consent.h"
#include "mdl-inject/defaults.h"
#include "runtime/kernel/broker.h"
#include "runtime/kernel/start.h"
#include "runtime/output/formats.h"
#include "runtime/process/target.h"
#include "runtime/session/attached_process.h"
#include "runtime/session/session.h"

namespace mdl::inject {

namespace {

// Before the insertion an error may have a reason that explains it better.
Error blamed(const Error& why, pid_t pid, bool was_there, const process::TargetMemory* memory) {
  if (was_there && process::ends_now(pid))
    return {fmt::format("process {} has ended before it could be measured", pid)};
  return memory && !memory->is_of(pid) ? process::another_program(pid) : why;
}

Result<int> attach(const Options& options, const plan::Plan& plan, output::Feed& feed, Audit& audit,
                   std::optional<process::Launch>& launched, Commands* commands) {
  const bool was_there = !process::has_ended(options.pid);
  auto target = process::check_target(options.pid);
  if (!target) return blamed(target.error(), options.pid, was_there, nullptr);
  // First of all: what is read from here on is of this program, or nothing is done to it (target_memory.h).
  Result<process::TargetMemory> memory =
      launched ? launched->take_memory() : process::TargetMemory::open(options.pid);
  if (!memory) return blamed(memory.error(), options.pid, was_there, nullptr);
  const auto failed = [&](const Error& why) { return blamed(why, options.pid, was_there, &*memory); };

  auto process = AttachedProcess::look(options, plan, options.pid, target->name, *memory);
  if (!process) return failed(process.error());
  if (options.explain) (*process)->explain();
  if (options.dry_run) return (*process)->print_rehearsal();
  if (auto ok = (*process)->check(); !ok) return failed(ok.error());
  const Watch watch = Watch::open();  // from here on an interrupt ends the measurement in order
  if (auto ok = audit.say("attach", "begins"); !ok) return ok.error();
  if (auto ok = (*process)->insert(*memory, feed, 0); !ok) return failed(ok.error());
  (void)audit.say("attach", "done");
  const auto log = [&](const std::string& line, const std::string& outcome) {
    return audit.say("change", fmt::format("{}: {}", line, outcome));
  };
  auto status = Session(options, plan, watch, feed, std::move(*process), commands, log).run(launched);
  if (status)
    (void)audit.say(options.detach ? "detach" : "removal",
                    *status == 0 ? "done" : fmt::format("exit status {}", *status));
  return status;
}

// For what takes moments where it does not hang.
constexpr std::chrono::seconds kPatience{30};

// Output files are made by the broker, since nobody else may open one any more.
Result<void> separate(const Options& options, bool own_command, output::Sink& sink) {
  if (!options.separate) return {};
  kernel::Trust trust{.named = options.pid,
                      .command = kernel::command_words(options.run),
                      .folder = options.folder,
                      .any_command = own_command,
                      .patience = kPatience + options.max_pause};
  trust.publish = [&sink](std::string_view text) { return sink.publish(text); };
  if (auto ok = kernel::separate(std::move(trust)); !ok) return ok;
  sink.publish_through(kernel::publish);
  return {};
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
  if (!options.start)
    if (auto ok = break_lock(options); !ok) return fail(ok.error());
  if (auto ok = separate(options, may_start_own_command(*file, policy, options), *sink); !ok)
    return fail(ok.error());

  // From here on without privileges.
  auto plan = parse_plan(*file, options);
  if (!plan) return fail(plan.error());
  const auto refuse = [&](const Error& why) {
    (void)audit->say("attach", why.text);
    return fail(why);
  };
  const auto describe = [&] {
    std::vector<std::string> requests = options.queries;
    requests.insert(requests.end(), options.metrics.begin(), options.metrics.end());
    audit->is_about(options.pid, plan->checksum, plan->signer ? format::name(*plan->signer) : "", requests);
  };
  describe();
  if (auto ok = admit(*plan, *file, policy, options); !ok) return refuse(ok.error());
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
    describe();
  }
  auto status = attach(options, *plan, feed, *audit, launched, commands ? &*commands : nullptr);
  if (!status) return refuse(status.error());
  if (auto ok = sink->close(); !ok) return fail(ok.error());
  return *status;
}

}  // namespace mdl::inject
