#include "runtime/inject/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>

#include "runtime/inject/budget.h"
#include "runtime/inject/commands.h"
#include "runtime/inject/confinement.h"
#include "runtime/inject/defaults.h"
#include "runtime/inject/key_rows.h"
#include "runtime/inject/libraries.h"
#include "runtime/inject/origin.h"
#include "runtime/inject/report.h"
#include "runtime/inject/session_values.h"
#include "runtime/inject/thread_starts.h"
#include "runtime/inject/watch.h"
#include "runtime/output/writer.h"
#include "runtime/patch/coverage.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/remove.h"
#include "runtime/patch/thread_identity.h"
#include "runtime/process/launch.h"
#include "runtime/process/lock.h"
#include "runtime/process/target.h"
#include "runtime/values/sampler.h"

namespace mdl::inject {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kExitPoll = 1ms;             // how often the target is asked whether it stands at its exit
constexpr auto kRemovalDeadline = 15000ms;  // for threads inside trampolines to leave, or to become stoppable

// One measurement of one process. A run is a list of these (architecture, decision 11).
class Measurement {
 public:
  Measurement(const Options& options, const patch::Inserted& inserted, const process::TargetMemory& memory,
              const Watch& watch, output::Writer& writer, Libraries& libraries)
      : libraries_(libraries),
        options_(options),
        journal_(inserted.journal),
        memory_(memory),
        watch_(watch),
        writer_(writer),
        clocks_(inserted.journal.target),
        sampler_(block_layout(inserted.journal), values::now()),
        keys_(inserted.journal, block_layout(inserted.journal)) {}

  // Samples until something ends it, then takes everything out, whatever happens here.
  // A program that was started for it is let go when everything is ready for its end.
  Result<int> run(const patch::Inserted& inserted, const patch::Coverage& coverage,
                  std::optional<process::Launch>& launched) {
    try {
      print_inserted(stderr, inserted, coverage);
      return sample_until_end(launched);
    } catch (const std::exception& problem) {
      return abandon({problem.what()});
    }
  }

 private:
  Result<int> sample_until_end(std::optional<process::Launch>& launched) {
    if (auto ok = writer_.begin(); !ok) return abandon(ok.error());
    set_exit_word(2, 1);  // a process that ends may wait for us
    if (launched) launched->go();
    Clock::time_point started = Clock::now(), next = started;
    auto interval =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.interval));
    std::optional<Clock::time_point> end;
    if (options_.duration)
      end = started +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*options_.duration));
    for (;;) {
      Clock::time_point now = Clock::now();
      if (end && now >= *end) return take_out();
      if (now >= next) {
        next += interval * (1 + (now - next) / interval);
        auto sample = take_sample();
        if (!sample) return lost(sample.error());
        if (auto ok = write(*sample, false); !ok) return abandon(ok.error());
      }
      Clock::time_point until = std::min(next, now + kExitPoll);
      switch (watch_.wait_until(end ? std::min(until, *end) : until)) {
        case Watch::Event::due:
          break;
        case Watch::Event::interrupted:
          return take_out();
        case Watch::Event::ended:
          return ended(sampler_.repeat(values::now()));
      }
      drain();
      libraries_.look();
      if (at_exit())
        if (auto status = rendezvous()) return *status;
    }
  }

  // One sample; ended threads' values that it has taken over need not be kept in the target any more.
  Result<values::Sample> take_sample() {
    auto out = sampler_.sample(memory_, clocks_, values::now());
    if (!out) return out;
    keys_.read(memory_);
    // What was read is ours only if the journal is still there afterwards: whoever unmaps does it while
    // everything stands still.
    if (!patch::is_in_place(journal_, memory_)) return Error{"the journal is not in its place"};
    free_taken();
    return out;
  }
  // Between samples, so that the ring of ended threads does not fill up.
  void drain() {
    if (sampler_.collector().drain(memory_)) free_taken();
  }
  void free_taken() {
    std::vector<uint64_t> taken = sampler_.collector().taken();
    if (!taken.empty()) write_data(sampler_.collector().taken_address(), taken);
  }
  // Another mdl-inject may have taken the session out, and the target may have got the address for itself
  // since: nothing is written but under the lock that a removal takes, and only while the journal is there.
  void write_data(uint64_t address, std::span<const uint64_t> words) {
    auto lock = process::TransactionLock::take(options_.pid, 0ms);
    if (lock && patch::is_in_place(journal_, memory_)) memory_.write(address, std::as_bytes(words));
  }

  uint64_t exit_word(uint64_t index) const { return journal_.data.start + patch::kHeaderExit + index * 8; }
  void set_exit_word(uint64_t index, uint64_t value) { write_data(exit_word(index), std::span(&value, 1)); }
  bool at_exit() const {
    uint64_t word = 0;
    return memory_.read(exit_word(0), std::as_writable_bytes(std::span(&word, 1))) && word == 1;
  }

  // The process stands at its exit: read the last values, let it go on, see it end.
  std::optional<Result<int>> rendezvous() {
    auto last = take_sample();
    set_exit_word(1, 1);
    if (!last) return std::nullopt;
    if (watch_.wait_until(Clock::now() + 1s) == Watch::Event::ended) return ended(*last);
    set_exit_word(0, 0);  // it did not end after all
    set_exit_word(1, 0);
    return std::nullopt;
  }

  Result<void> write(const values::Sample& sample, bool final) {
    std::vector<output::Row> rows;
    for (size_t i = 0; i < journal_.requests.size(); i++) {
      const patch::JournalRequest& request = journal_.requests[i];
      if (request.children) continue;  // its children have the lines
      auto add = [&](const std::string& focus, const values::Value& value) {
        rows.push_back({sample.at.wall_ns, sample.elapsed_s, options_.pid, request.metric, request.name,
                        focus, value.total, value.delta, value.rate, request.units, journal_.refused_of(i),
                        sample.complete, sample.anomalies, family(request)});
      };
      if (request.keyed) {
        add(request.focus, sample.values[i]);
        const output::Row like = std::move(rows.back());
        rows.pop_back();
        keys_.append(i, like, sample.counts[i], sample.elapsed_s, rows);
        continue;
      }
      if (request.thread != focus::kEachThread) add(request.focus, sample.values[i]);
      for (const auto& [thread, value] : sample.each[i]) add(focus::of_thread(request.focus, thread), value);
    }
    if (auto ok = writer_.sample(rows, final); !ok) return ok;
    if (!final) return {};
    if (sample.overflows)
      fmt::print(stderr,
                 "warning: more threads than slots: {} hits shared one block and may have lost counts\n",
                 sample.overflows);
    if (sample.unrecorded)
      fmt::print(stderr, "warning: {} threads ended so fast that only the sums of their values are known\n",
                 sample.unrecorded);
    if (keys_.more())
      fmt::print(
          stderr,
          "warning: threads had more than 8 active keys {} times; what they counted under the others is "
          "missing\n",
          keys_.more());
    return writer_.end();
  }

  // Lines of one request with `*` belong together.
  static uint32_t family(const patch::JournalRequest& request) {
    return request.of == focus::BoundRequest::kNone ? 0 : request.of + 1;
  }

  Result<int> ended(const values::Sample& last) {
    Result<void> written = write(last, true);
    std::optional<int> signal = watch_.killed_by();
    if (signal && *signal) {
      fmt::print(stderr, "mdl-inject: process {} was killed by signal {} ({})\n", options_.pid, *signal,
                 sigdescr_np(*signal));
      return static_cast<int>(Status::target_killed);
    }
    fmt::print(stderr, "mdl-inject: process {} has ended{}\n", options_.pid,
               last.complete ? "" : ": its last values could not be read");
    if (!written) return written.error();
    return 0;
  }

  // The data cannot be read any more: the process executes another program or ends, somebody removed us, or
  // the process has written over it.
  Result<int> lost(const Error& why) {
    if (watch_.wait_until(Clock::now() + 200ms) == Watch::Event::ended)
      return ended(sampler_.repeat(values::now()));
    std::byte probe{};
    const bool same_program = std::any_of(journal_.windows.begin(), journal_.windows.end(),
                                          [&](const patch::PatchedWindow& window) {
                                            return memory_.read(window.address, std::span(&probe, 1));
                                          });
    patch::Removal removal(options_.pid, memory_);
    Result<void> out = same_program ? removal.restore(&journal_, kRemovalDeadline) : Result<void>{};
    if (out) out = same_program ? removal.finish() : out;
    Result<void> written = write(sampler_.repeat(values::now()), true);
    if (!out) return still_there(out.error());
    if (same_program && !removal.is_gone()) return damaged(why);
    fmt::print(stderr, "mdl-inject: process {} no longer holds the instrumentation: {}\n", options_.pid,
               same_program ? "another mdl-inject has removed it" : "it executes another program");
    if (!written) return written.error();
    return 0;
  }

  Error damaged(const Error& why) const {
    return {
        fmt::format("process {} has damaged what was measured in it ({}); the instrumentation is taken out, "
                    "and the values "
                    "are those of the last good sample",
                    options_.pid, why.text)};
  }

  Error still_there(const Error& why) const {
    return {fmt::format("{}: process {} is still instrumented: take it out later with mdl-inject --remove {}",
                        why.text, options_.pid, options_.pid),
            Status::left_inert};
  }

  Result<int> take_out() {
    if (options_.detach) {
      set_exit_word(2, 0);
      auto sample = take_sample();
      if (!sample) return lost(sample.error());
      if (auto ok = write(*sample, true); !ok) return ok.error();
      fmt::print(
          stderr,
          "left in process {0}: see mdl-inject --status {0}, take it out with mdl-inject --remove {0}\n",
          options_.pid);
      return 0;
    }
    patch::Removal removal(options_.pid, memory_);
    if (auto ok = removal.restore(&journal_, kRemovalDeadline); !ok) {
      if (watch_.wait_until(Clock::now() + 200ms) == Watch::Event::ended)
        return ended(sampler_.repeat(values::now()));
      return left(ok.error());
    }
    if (removal.is_gone()) return lost({"it was removed"});
    auto sample = take_sample();  // nobody counts any more: these are exact
    Result<void> finished = removal.finish();
    if (!sample && watch_.wait_until(Clock::now() + 200ms) == Watch::Event::ended)
      return ended(sampler_.repeat(values::now()));
    Result<void> written = write(sample ? *sample : sampler_.repeat(values::now()), true);
    if (!finished) return finished.error();
    if (!written) return written.error();
    if (!sample) return damaged(sample.error());
    return 0;
  }

  // It could not be taken out: the values up to now, and what to do.
  Result<int> left(const Error& why) {
    auto sample = take_sample();
    if (auto ok = write(sample ? *sample : sampler_.repeat(values::now()), true); !ok) return ok.error();
    return still_there(why);
  }

  // Output failed: the target comes first.
  Result<int> abandon(const Error& why) {
    patch::Removal removal(options_.pid, memory_);
    Result<void> out = removal.restore(&journal_, kRemovalDeadline);
    if (out) out = removal.finish();
    if (out) return why;
    return Error{fmt::format("{}; {}; take it out with mdl-inject --remove {}", why.text, out.error().text,
                             options_.pid),
                 Status::left_inert};
  }

  Libraries& libraries_;
  const Options& options_;
  const patch::Journal& journal_;
  const process::TargetMemory& memory_;
  const Watch& watch_;
  output::Writer& writer_;
  values::TargetClocks clocks_;
  values::Sampler sampler_;
  KeyRows keys_;
};

// A request is hollow when its value, or a flag that it waits for, is written nowhere, though it should be.
std::vector<bool> hollow_requests(const plan::Plan& plan, const focus::Binding& binding,
                                  const patch::Coverage& coverage) {
  std::vector<bool> written(binding.cells.size());
  std::vector<std::vector<focus::CellId>> guards(binding.requests.size());
  for (const patch::FunctionPlan& f : coverage.functions) {
    std::set<uint32_t> taken;
    for (const patch::Window& window : f.sites.windows)
      for (const patch::Site& site : window.sites) taken.insert(site.point);
    for (uint32_t point : taken) {
      for (const focus::BoundSnippet& snippet : f.points[point].snippets) {
        const auto& uses = plan.stencils[snippet.stencil].info.cells;
        for (size_t i = 0; i < uses.size(); i++)
          written[snippet.cells[i]] = written[snippet.cells[i]] || uses[i].writes;
        for (const focus::Track& track : snippet.tracks) written[track.span] = true;
        for (uint32_t request : snippet.requests)
          guards[request].insert(guards[request].end(), snippet.guards.begin(), snippet.guards.end());
      }
    }
  }
  std::vector<bool> out;
  for (size_t i = 0; i < binding.requests.size(); i++) {
    bool hollow = !binding.requests[i].idle && !written[binding.requests[i].value];
    for (focus::CellId guard : guards[i]) hollow = hollow || (!binding.requests[i].idle && !written[guard]);
    if (binding.requests[i].of != focus::BoundRequest::kNone) hollow = hollow || out[binding.requests[i].of];
    out.push_back(hollow);
  }
  return out;
}

Result<void> check_coverage(const plan::Plan& plan, const focus::Binding& binding,
                            const patch::Coverage& coverage, const Options& options) {
  std::vector<bool> hollow = hollow_requests(plan, binding, coverage);
  size_t count = static_cast<size_t>(std::count(hollow.begin(), hollow.end(), true));
  std::string example = coverage.refused.empty()
                            ? ": the functions have no such points (one that never returns has no returns)"
                            : fmt::format(": {} in {}: {}", coverage.refused[0].function->name,
                                          coverage.refused[0].object->name, coverage.refused[0].reason);
  if (count == hollow.size() && !options.await)
    return Error{fmt::format(
        "nothing that was asked for can be measured{} (mdl-inject --dry-run lists every refused point)",
        example)};
  if (options.strict && !coverage.refused.empty())
    return Error{fmt::format("{} points are refused{} (--strict; mdl-inject --dry-run lists them)",
                             coverage.refused.size(), example)};
  for (size_t i = 0; i < hollow.size() && count <= 20 && !options.await; i++)
    if (hollow[i])
      fmt::print(stderr, "warning: {}@{} cannot be measured: {}\n", binding.requests[i].metric,
                 binding.requests[i].focus,
                 coverage.refused_of[i] != 0
                     ? "its points are refused"
                     : "the functions have no such points (one that never returns has no returns)");
  return {};
}

// What the code in the target needs to know of threads and clocks.
Result<patch::InsertInput> identify(const plan::Plan& plan, const focus::Binding& binding,
                                    patch::Coverage& coverage, const image::Image& image,
                                    const process::TargetMemory& memory, const arch::ClockPair& since,
                                    bool asks_id) {
  patch::InsertInput input{plan, binding, coverage, image};
  if (std::any_of(binding.cells.begin(), binding.cells.end(),
                  [](const focus::CellSlot& cell) { return cell.kind == format::CellKind::wall_timer; })) {
    auto rate = arch::ticks_per_second(since);
    if (!rate) return rate.error();
    input.ticks_per_second = *rate;
  }
  if (asks_id && !patch::needs_identity(plan, binding) && !patch::arms_calls(coverage)) return input;
  auto place = patch::find_thread_place(image.pid, memory);
  if (!place) return place.error();
  input.thread_at = *place;
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
volatile pid_t not_let_go = 0;

Result<int> attach(const Options& options, const plan::Plan& plan, output::Writer& writer,
                   std::optional<process::Launch>& launched) {
  const arch::ClockPair since = arch::read_clocks();
  auto target = process::check_target(options.pid);
  if (!target) return target.error();
  auto allowed = read_allowed(options.pid, target->name);
  if (!allowed) return allowed.error();
  auto image = image::read_image(options.pid);
  if (!image) return image.error();
  if (auto ok = patch::refuse_occupied(options.pid, image->mappings,
                                       image::LiveMemory(image::live_thread(options.pid)));
      !ok)
    return ok.error();  // its code is not what it was
  if (image->objects.front().is_go && image->objects.size() == 1)
    return Error{
        fmt::format("process {} ({}) is a Go program: its stacks move, its functions begin again when theirs "
                    "has grown, and its "
                    "threads have no thread pointer of C's kind: it cannot be instrumented. Of a Go program "
                    "that is linked "
                    "with C libraries, these can be",
                    options.pid, target->name)};
  image::LiveMemory code_memory(image::live_thread(options.pid));
  image::Codes codes(*image, code_memory);
  focus::BindOptions wanted{options.metrics, options.foci, options.flavor, options.allow_calls,
                            options.await};
  wanted.ps_per_cycle = arch::picoseconds_per_cycle();
  wanted.denied = allowed->denied;
  if (focus::uses_start(plan.manifest)) wanted.starts = thread_starts(*image);
  auto binding = focus::bind(plan, *image, wanted, &codes);
  if (!binding) return binding.error();
  if (options.explain) print_binding(stderr, plan, *binding);

  auto memory = process::TargetMemory::open(options.pid);
  if (!memory) return memory.error();
  patch::Coverage coverage = patch::plan_coverage(plan, *binding, *image, *memory, codes);
  if (options.dry_run) {
    print_coverage(stdout, *binding, coverage);
    print_cost(stdout, plan, *binding, wanted.ps_per_cycle);
    return options.strict && !coverage.refused.empty() ? static_cast<int>(Status::failed) : 0;
  }
  if (auto ok = check_coverage(plan, *binding, coverage, options); !ok) return ok.error();
  if (auto ok = check_budget(plan, *binding, wanted.ps_per_cycle, options.budget); !ok) return ok.error();

  auto watch = Watch::open(options.pid);  // from here on an interrupt ends the measurement in order
  if (!watch) return watch.error();
  auto input = identify(plan, *binding, coverage, *image, *memory, since, allowed->asks_id);
  if (!input) return input.error();
  input->max_keys = options.max_keys;
  auto inserted = patch::insert(*input, *memory);
  if (!inserted) return inserted.error();
  not_let_go = 0;
  Libraries libraries(*input, wanted, *memory, inserted->journal);
  return Measurement(options, *inserted, *memory, *watch, writer, libraries)
      .run(*inserted, coverage, launched);
}

void end_before_anything(int) {
  if (not_let_go) kill(not_let_go, SIGKILL);
  constexpr std::string_view kText = "mdl-inject: interrupted before anything was changed\n";
  [[maybe_unused]] ssize_t put = ::write(STDERR_FILENO, kText.data(), kText.size());
  _exit(static_cast<int>(Status::failed));
}

}  // namespace

int measure(const Options& asked) {
  // Until the watch takes them over, nothing is in the process yet.
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, end_before_anything);
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
    not_let_go = options.pid;
  }
  const bool was_there = !process::live_threads(options.pid).empty();
  auto status = attach(options, *plan, *writer, launched);
  // Whatever failed failed because of that.
  if (!status && was_there && process::live_threads(options.pid).empty())
    return fail({fmt::format("process {} has ended before it could be measured", options.pid)});
  if (!status) return fail(status.error());
  if (auto ok = sink->close(); !ok) return fail(ok.error());
  return *status;
}

}  // namespace mdl::inject
