#include "runtime/inject/measure.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "runtime/arch/clock.h"
#include "runtime/inject/budget.h"
#include "runtime/inject/check.h"
#include "runtime/inject/commands.h"
#include "runtime/inject/confinement.h"
#include "runtime/inject/defaults.h"
#include "runtime/inject/libraries.h"
#include "runtime/inject/origin.h"
#include "runtime/inject/report.h"
#include "runtime/inject/session.h"
#include "runtime/inject/thread_starts.h"
#include "runtime/output/writer.h"
#include "runtime/patch/coverage.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/stage_audit.h"
#include "runtime/patch/thread_identity.h"
#include "runtime/process/lock.h"
#include "runtime/process/target.h"

namespace mdl::inject {

using namespace std::chrono_literals;
namespace {

// Where there are timers and the counter can be trusted, they leave out what hits take.
void keep_hit_time(patch::InsertInput& input, const arch::ClockPair& since) {
  const auto is_time = [](const focus::CellSlot& cell) {
    return cell.kind == format::CellKind::wall_timer || cell.kind == format::CellKind::process_timer;
  };
  if (std::ranges::none_of(input.binding.cells, is_time)) return;
  if (std::ranges::any_of(input.plan.stencils, &plan::Stencil::reads_otherwise)) {
    fmt::print(stderr,
               "warning: the plan reads the clock in a way of its own: its times include what the "
               "instrumentation takes, as with --raw-times\n");
    return;
  }
  if (input.ticks_per_second == 0)
    if (auto rate = arch::ticks_per_second(since)) input.ticks_per_second = *rate;
  if (input.ticks_per_second == 0) return;
  input.hit_time = arch::measure_hit_time(input.ticks_per_second, arch::picoseconds_per_cycle());
}

// What the code in the target needs to know of threads and clocks.
Result<patch::InsertInput> identify(const plan::Plan& plan, const focus::Binding& binding,
                                    patch::Coverage& coverage, const image::Image& image,
                                    const process::TargetMemory& memory, const arch::ClockPair& since,
                                    bool asks_id, bool follow, bool raw_times) {
  patch::InsertInput input{plan, binding, coverage, image};
  input.follow = follow;
  if (std::any_of(binding.cells.begin(), binding.cells.end(),
                  [](const focus::CellSlot& cell) { return cell.kind == format::CellKind::wall_timer; })) {
    auto rate = arch::ticks_per_second(since);
    if (!rate) return rate.error();
    input.ticks_per_second = *rate;
  }
  if (!raw_times) keep_hit_time(input, since);
  if (asks_id && !follow && !patch::needs_identity(plan, binding) && !patch::arms_calls(coverage))
    return input;
  auto place = patch::find_thread_place(image.pid, memory);
  if (!place) return place.error();
  input.thread_at = *place;
  if (*place == 0 && follow)
    return Error{
        fmt::format("the C library of process {} does not keep thread ids where they are known to be: its "
                    "children cannot be told from it (--follow-fork)",
                    image.pid)};
  if (*place == 0 && !asks_id)
    return Error{
        fmt::format("process {} may not make gettid (seccomp), and its C library does not keep thread ids "
                    "where they are known to be: its threads cannot be told apart",
                    image.pid)};
  if (*place == 0)
    fmt::print(
        stderr,
        "warning: the C library of process {} does not keep thread ids where they are known to be: a thread "
        "that ends inside a constraint or with a running timer may leave it to a later one\n",
        image.pid);
  return input;
}

// A program that was started, until it is let go: who interrupts us then wants it to end, too.
volatile int not_let_go = -1;  // Launch::handle()

// What a process holds, while nobody changes it: code in which somebody else inserts, or from which he
// removes, is not the program's own.
struct Looked {
  process::TransactionLock lock;
  image::Image image;
};
Result<Looked> look_at(pid_t pid) {
  const pid_t live = image::live_thread(pid);
  const image::LiveMemory memory(live);
  // Who measures there needs the lock, too: nobody who will be refused takes it.
  auto mappings = image::read_maps(live);
  if (!mappings) return mappings.error();
  if (auto ok = patch::refuse_occupied(pid, *mappings, memory); !ok) return ok.error();
  auto lock = process::TransactionLock::share(pid, 10s);
  if (!lock) return lock.error();
  auto image = image::read_image(pid);
  if (!image) return image.error();
  if (auto ok = patch::refuse_occupied(pid, image->mappings, memory); !ok) return ok.error();
  return Looked{std::move(*lock), std::move(*image)};
}

// `measured`: whether it came to that; then it has taken `memory`.
Result<int> attach_to(const Options& options, const plan::Plan& plan, output::Writer& writer,
                      std::optional<process::Launch>& launched, const process::ProcessStatus& target,
                      process::TargetMemory& memory, bool& measured) {
  const arch::ClockPair since = arch::read_clocks();
  auto allowed = read_allowed(options.pid, memory, target.name, options.follow_fork);
  if (!allowed) return allowed.error();
  auto looked = look_at(options.pid);
  if (!looked) return looked.error();
  std::optional<process::TransactionLock> quiet(std::move(looked->lock));
  const std::optional<image::Image> image(std::move(looked->image));
  // A position-independent one has the dynamic linker beside it.
  const auto cannot_be = [](const image::Object& object) { return object.is_go || object.is_loader; };
  if (image->objects.front().is_go && std::all_of(image->objects.begin(), image->objects.end(), cannot_be))
    return Error{
        fmt::format("process {} ({}) is a Go program: its stacks move, its functions begin again when theirs "
                    "has grown, and its "
                    "threads have no thread pointer of C's kind: it cannot be instrumented. Of a Go program "
                    "that is linked "
                    "with C libraries, these can be",
                    options.pid, target.name)};
  image::LiveMemory code_memory(image::live_thread(options.pid));
  std::optional<image::Codes> codes(std::in_place, *image, code_memory);
  focus::BindOptions wanted{options.metrics, options.foci, options.flavor, options.allow_calls,
                            options.await};
  wanted.ps_per_cycle = arch::picoseconds_per_cycle();
  wanted.denied = allowed->denied;
  if (focus::uses_start(plan.manifest)) wanted.starts = thread_starts(*image, memory);
  auto binding = focus::bind(plan, *image, wanted, &*codes);
  if (!binding) return binding.error();

  patch::Coverage coverage =
      patch::plan_coverage(plan, *binding, *image, memory, *codes, nullptr, options.follow_fork);
  codes.reset();  // a copy of all the code that was looked at
  if (options.dry_run) {
    auto refused = patch::rehearse({plan, *binding, coverage, *image}, memory);
    if (!refused) return refused.error();
    if (*refused) fmt::print(stderr, "warning: {}\n", patch::audit_warning(*refused));
  }
  quiet.reset();  // before anything is written: who reads it may take his time
  if (options.explain) print_binding(stderr, plan, *binding);
  if (options.explain && !options.dry_run) print_early_ends(stderr, coverage);
  if (options.dry_run) {
    print_coverage(stdout, *binding, coverage);
    print_cost(stdout, plan, *binding, wanted.ps_per_cycle);
    return options.strict && !coverage.refused.empty() ? static_cast<int>(Status::failed) : 0;
  }
  if (auto ok = check_coverage(plan, *binding, coverage, options); !ok) return ok.error();
  for (const image::Object& object : image->objects)
    if (object.is_go)
      fmt::print(stderr, "warning: {} is Go code, which is not instrumented: nothing of it is counted\n",
                 object.name);
  if (auto ok = check_budget(plan, *binding, wanted.ps_per_cycle, options.budget); !ok) return ok.error();

  const Watch watch = Watch::open();  // from here on an interrupt ends the measurement in order
  auto process = Process::open(options.pid);
  if (!process) return process.error();
  auto input = identify(plan, *binding, coverage, *image, memory, since, allowed->asks_id,
                        options.follow_fork, options.raw_times);
  if (!input) return input.error();
  input->max_keys = options.max_keys;
  auto inserted = patch::insert(*input, memory);
  if (!inserted) return inserted.error();
  not_let_go = -1;
  measured = true;
  auto first = std::make_unique<Measurement>(options, std::move(*process), std::move(inserted->journal),
                                             std::move(memory), writer, 0);
  Libraries libraries(*input, wanted, first->memory(), first->journal());
  auto status =
      Session(options, watch, writer, std::move(first), libraries).run(*inserted, coverage, launched);
  if (status && *status == 0 && options.await && say_never_came(*binding, libraries.reach()))
    return static_cast<int>(Status::failed);
  return status;
}

Result<int> attach(const Options& options, const plan::Plan& plan, output::Writer& writer,
                   std::optional<process::Launch>& launched, bool& measured) {
  auto target = process::check_target(options.pid);
  if (!target) return target.error();
  // First of all: what is read from here on is of this program, or nothing is done to it (target_memory.h).
  auto memory = process::TargetMemory::open(options.pid);
  if (!memory) return memory.error();
  auto out = attach_to(options, plan, writer, launched, *target, *memory, measured);
  // Whatever failed failed because of that.
  if (!out && !measured && !memory->is_of(options.pid)) return process::another_program(options.pid);
  return out;
}

void end_before_anything(int) {
  if (not_let_go >= 0) syscall(SYS_pidfd_send_signal, not_let_go, SIGKILL, nullptr, 0);
  constexpr std::string_view kText = "mdl-inject: interrupted before anything was changed\n";
  [[maybe_unused]] ssize_t put = ::write(STDERR_FILENO, kText.data(), kText.size());
  _exit(static_cast<int>(Status::failed));
}

}  // namespace

int measure(const Options& asked) {
  // Until the watch takes them over, nothing is in the process yet.
  for (int signal : ending_signals()) std::signal(signal, end_before_anything);
  Options options = asked;
  auto plan = plan::read_plan_file(options.plan);
  if (!plan) return fail(plan.error());
  if (auto ok = check_origin(*plan, options.plan, options.trusted); !ok) return fail(ok.error());
  auto sink = options.output.empty() || !options.dry_run ? output::Sink::open(options.output)
                                                         : output::Sink::open("");
  if (!sink) return fail(sink.error());
  auto format = output::format_named(options.format, sink->is_terminal());
  if (!format) return fail(format.error());
  auto writer = output::make_writer(*format, *sink, sink->is_terminal() && !std::getenv("NO_COLOR"));
  std::optional<process::Launch> launched;
  if (auto ok = apply_defaults(plan->manifest, options); !ok) return fail(ok.error());
  if (options.start) {
    auto started = process::Launch::start(options.run);
    if (!started) return fail(started.error());
    launched.emplace(std::move(*started));
    options.pid = launched->pid();
    not_let_go = launched->handle();
  }
  const bool was_there = !process::has_ended(options.pid);
  bool measured = false;
  auto status = attach(options, *plan, *writer, launched, measured);
  // Whatever failed failed because of that.
  if (!status && !measured && was_there && process::has_ended(options.pid))
    return fail({fmt::format("process {} has ended before it could be measured", options.pid)});
  if (!status) return fail(status.error());
  if (auto ok = sink->close(); !ok) return fail(ok.error());
  return *status;
}

}  // namespace mdl::inject
