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

// For what takes moments where it does not hang.
constexpr std::chrono::seconds kPatience{30};

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

template <typename T>
Result<void> keep(Result<T> made, std::optional<T>& into) {
  if (!made) return made.error();
  into.emplace(std::move(*made));
  return {};
}

// What a measurement is made of, each step from those before it.
class Measuring {
 public:
  Measuring(const Options& asked, const Policy& policy) : options_(asked), policy_(policy) {}

  // To the exit status.
  Result<int> run() {
    if (auto ok = open_files(); !ok) return ok.error();
    open_company();
    if (auto ok = give_up_privileges(); !ok) return ok.error();
    look_early_at_process();
    if (auto ok = read_plan(); !ok) return ok.error();
    if (auto ok = choose_output(); !ok) return ok.error();
    if (auto ok = start_program(); !ok) return ok.error();
    auto status = measure_beside_another();
    if (status && !*status) status = measure_alone();
    if (!status) return refused(status.error());
    if (auto ok = sink_->close(); !ok) return ok.error();
    return **status;
  }

 private:
  // What only somebody with the user's privileges may open, and the compiler, which runs meanwhile.
  Result<void> open_files() {
    if (options_.busiest) ask_for_busiest(options_);
    host_ = find_host(options_);
    if (!host_ && may_drill(options_)) ask_for_drills(options_);
    phases::begin("compile");
    if (auto ok = keep(open_plan_file(options_), file_); !ok) return ok;
    if (auto ok = keep(Audit::open(policy_.audit_required && !options_.dry_run, options_.separate), audit_);
        !ok)
      return ok;
    if (auto ok = keep(output::Sink::open(options_.dry_run ? "" : options_.output), sink_); !ok) return ok;
    if (options_.commands.empty() || options_.dry_run) return {};
    return keep(Commands::open(options_.commands), commands_);
  }

  // Who may ask for changes while it runs: other mdl-inject and keys.
  void open_company() {
    if (!options_.start && !options_.follow && options_.targets.empty())
      options_.targets = {Target{options_.pid}};
    if (!host_) listener_ = listen_for_guests(options_);
    if (listener_)
      guests_.emplace(*listener_, geteuid(), admission_of_guests(policy_));
    else if (!host_)
      host_ = find_host(options_);  // another one may have begun meanwhile
    options_.shares = guests_.has_value();
    phases::begin("separate");
    // By a process that is there from before the privileges are given up.
    options_.look.in_place = is_drawn_in_place(options_);
    if (options_.look.in_place)
      if (auto keys = Keys::open()) keys_.emplace(std::move(*keys));
    options_.look.keys = keys_ ? &*keys_ : nullptr;
    options_.drills = keys_ && !host_ && !options_.drill_queries.empty();
    if (options_.drills) options_.look.drill = [this](output::Drill drill) { drills_.ask(std::move(drill)); };
    if (options_.follow) choice_.emplace(options_);
  }

  // Output files are made by the broker, since nobody else may open one any more.
  Result<void> give_up_privileges() {
    if (!options_.separate) return {};
    kernel::Trust trust = trust_in(options_, &*audit_);
    trust.command = kernel::command_words(options_.run);
    trust.folder = options_.folder;
    trust.any_command = may_start_own_command(*file_, policy_, options_);
    trust.patience = kPatience + options_.max_pause;
    if (choice_) trust.newcomers = admission(*choice_, policy_, *audit_);
    if (listener_) trust.of_worker = {*listener_};
    trust.publish = [this](std::string_view text) { return sink_->publish(text); };
    if (auto ok = kernel::separate(std::move(trust)); !ok) return ok;
    audit_->write_through(kernel::log);
    sink_->publish_through(kernel::publish);
    return {};
  }

  // While the compiler runs.
  void look_early_at_process() {
    if (file_->compiler && !options_.start && !options_.busiest && !host_ && options_.targets.size() == 1)
      if (auto early = look_early(options_.targets.front().pid)) early_.emplace(std::move(*early));
  }

  Result<void> read_plan() {
    phases::begin("plan");
    if (auto ok = keep(parse_plan(*file_, options_), plan_); !ok) return ok;
    describe();
    if (auto ok = admit(*plan_, *file_, policy_, options_); !ok) return refused(ok.error());
    if (!options_.start)
      if (auto ok = break_lock(options_); !ok) return refused(ok.error());
    return {};
  }

  Result<void> choose_output() {
    auto format = output::format_named(options_.format, sink_->is_terminal());
    if (!format) return format.error();
    sink_->call_meanwhile([this] { feed_.meanwhile(); });
    options_.look.colour = sink_->is_terminal() && !std::getenv("NO_COLOR");
    options_.look.process = options_.names_several() ? 0 : options_.pid;
    output::Look look = options_.look;
    if (options_.busiest && options_.drills) look.top = 0;  // what was asked for by keys comes to them
    feed_.add(options_.is_listing ? make_listing(*sink_, options_.format) : format->make(*sink_, look));
    return apply_defaults(plan_->manifest, options_);
  }

  Result<void> start_program() {
    if (!options_.start) return {};
    if (auto ok = keep(process::Launch::start(options_.run, options_.folder), launched_); !ok) return ok;
    options_.pid = launched_->pid();
    options_.targets = {Target{options_.pid}};
    describe();
    return {};
  }

  // Nothing where no other mdl-inject measures the process.
  Result<std::optional<int>> measure_beside_another() {
    if (!host_) return std::optional<int>();
    return measure_as_guest(std::move(*host_), options_, *file_, *plan_, feed_, *audit_);
  }

  Result<std::optional<int>> measure_alone() {
    if (options_.busiest) {
      if (auto ok = choose_busiest(options_, *plan_, *audit_); !ok) return ok.error();
      describe();
    }
    auto status = attach();
    if (options_.timing) phases::print(stderr);
    if (!status) return status.error();
    return std::optional(*status);
  }

  Result<int> attach() {
    auto joining = look_at_all(options_, *plan_, launched_, std::move(early_), *audit_);
    if (!joining) return joining.error();
    if (options_.dry_run) return print_rehearsals(options_, *joining);
    const Watch watch = Watch::open();  // from here on an interrupt ends the measurement in order
    std::vector<pid_t> pids;
    for (const Joining& one : *joining) pids.push_back(one.pid);
    audit_->is_only_about(pids);
    if (auto ok = audit_->say("attach", "begins"); !ok) return ok.error();
    auto processes = insert_all(options_, *plan_, feed_, std::move(*joining), *audit_);
    if (!processes) return processes.error();
    pids.clear();
    for (const auto& one : *processes) pids.push_back(one->measurement().pid());
    audit_->is_only_about(pids);
    (void)audit_->say("attach", "done");
    return run_session(watch, std::move(*processes));
  }

  Result<int> run_session(const Watch& watch, std::vector<std::unique_ptr<AttachedProcess>> processes) {
    const ChangeSources changes{.commands = commands_ ? &*commands_ : nullptr,
                                .drills = options_.drills ? &drills_ : nullptr,
                                .guests = guests_ ? &*guests_ : nullptr,
                                .log = [this](const std::string& line, const std::string& outcome) {
                                  return audit_->say("change", fmt::format("{}: {}", line, outcome));
                                }};
    if (guests_) guests_->log_to(changes.log);
    auto source = source_of_newcomers(options_, *plan_, feed_, *audit_, choice_);
    auto status = Session(options_, *plan_, watch, feed_, std::move(processes), changes, std::move(source))
                      .run(launched_);
    if (status)
      (void)audit_->say(options_.detach ? "detach" : "removal",
                        *status == 0 ? "done" : fmt::format("exit status {}", *status));
    return status;
  }

  // What the audit's lines are about.
  void describe() {
    std::vector<std::string> requests = options_.queries;
    requests.insert(requests.end(), options_.metrics.begin(), options_.metrics.end());
    audit_->is_about(options_.pids(), plan_->checksum, plan_->signer ? format::name(*plan_->signer) : "",
                     requests);
  }

  Error refused(const Error& why) {
    (void)audit_->say("attach", why.text);
    return why;
  }

  Options options_;
  const Policy& policy_;
  std::optional<Host> host_;
  std::optional<PlanFile> file_;
  std::optional<Audit> audit_;
  std::optional<output::Sink> sink_;
  std::optional<Commands> commands_;
  std::optional<int> listener_;
  std::optional<Guests> guests_;
  std::optional<Keys> keys_;
  Drills drills_;
  std::optional<Choice> choice_;
  std::optional<Early> early_;
  std::optional<plan::Plan> plan_;
  output::Feed feed_;
  std::optional<process::Launch> launched_;
};

}  // namespace

int measure(const Options& options, const Policy& policy) {
  // Until the watch takes them over, nothing is in the process yet.
  for (int signal : ending_signals()) std::signal(signal, end_before_anything);
  Measuring measuring(options, policy);
  auto status = measuring.run();
  return status ? *status : fail(status.error());
}

}  // namespace mdl::inject
