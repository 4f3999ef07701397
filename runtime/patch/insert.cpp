#include "runtime/patch/insert.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "runtime/image/unwind.h"
#include "runtime/patch/edit.h"
#include "runtime/patch/island.h"
#include "runtime/patch/remove.h"
#include "runtime/patch/stack_scan.h"
#include "runtime/patch/stage.h"
#include "runtime/patch/thread_blocks.h"
#include "runtime/process/lock.h"
#include "runtime/process/remote.h"
#include "runtime/process/target.h"
#include "runtime/values/spans.h"

namespace mdl::patch {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kStopDeadline = 2000ms;

// What is kept free around our mappings, per attempt. The kernel maps the next thread's stack beside the
// lowest mapping, so in a program that starts threads all the time a near gap is soon taken.
constexpr uint64_t kAparts[] = {kApart,
                                kApart,
                                uint64_t{16} << 20,
                                uint64_t{64} << 20,
                                uint64_t{256} << 20,
                                uint64_t{512} << 20,
                                uint64_t{512} << 20,
                                kApart};

constexpr int kWaits = 25;  // times that windows with an address on some stack are waited for

// The commit: from the first stop to the last thread let go.
class Commit {
 public:
  Commit(const InsertInput& input, const process::TargetMemory& memory, Stage& stage, Inserted& out)
      : input_(input), memory_(memory), stage_(stage), out_(out), unwinder_(input.image) {}

  Result<void> run() {
    for (int wait = 0;; wait++) {
      Clock::time_point begun = Clock::now();
      process::Threads threads(input_.image.pid);
      if (auto ok = threads.stop_all(kStopDeadline); !ok) return ok;
      auto done = attempt(threads, wait < kWaits);
      threads.release_all();
      out_.paused += Clock::now() - begun;
      if (!done) return done.error();
      if (*done) return {};
      timespec nap{0, 2'000'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  using Regs = std::map<pid_t, arch::ThreadRegisters>;

  // True when everything is committed; false when a busy window is to be waited for.
  Result<bool> attempt(process::Threads& threads, bool may_wait) {
    Regs regs;
    for (pid_t tid : threads.stopped()) {
      auto r = threads.registers(tid);
      if (!r) return r.error();
      if (auto ok = check_thread(tid, *r); !ok) return ok.error();
      regs[tid] = *r;
    }
    if (auto ok = check_bytes(); !ok) return ok.error();
    std::set<const FunctionPlan*> busy = busy_functions(regs);
    if (!busy.empty() && may_wait) return false;
    for (const FunctionPlan* function : busy) give_up(*function);
    if (auto ok = move_threads(threads, regs); !ok) return ok.error();
    if (auto ok = set_active(regs); !ok) return ok.error();
    if (auto ok = write_windows(); !ok) return ok.error();
    out_.threads = regs.size();
    return true;
  }

  // The lookup reads the word that the thread pointer points to: it must be there and hold itself.
  Result<void> check_thread(pid_t tid, const arch::ThreadRegisters& regs) {
    uint64_t pointer = arch::thread_pointer(regs), word = 0;
    if (pointer != 0 && memory_.read(pointer, std::as_writable_bytes(std::span(&word, 1))) && word == pointer)
      return {};
    return Error{fmt::format(
        "thread {} of process {} has no thread pointer of the usual kind (it is starting up, or its "
        "run-time system keeps its own): it cannot be instrumented safely",
        tid, input_.image.pid)};
  }

  std::vector<Edit> edits() const {
    std::vector<Edit> out;
    for (const StagedWindow& window : stage_.windows)
      out.push_back({window.window->start, window.original, window.patched});
    return out;
  }

  Result<void> check_bytes() {
    Edited found = apply_edits(edits(), memory_, true);
    if (found.changed.size() == stage_.windows.size()) return {};
    const StagedWindow& window = stage_.windows[found.foreign.empty() ? 0 : found.foreign[0]];
    return Error{fmt::format("the code at {:#x} ({}) changed while the insertion was prepared: try again",
                             window.window->start, window.function->function->name)};
  }

  StagedWindow* window_around(uint64_t address) {  // the window whose inside, less its first byte, holds it
    auto it = std::upper_bound(stage_.windows.begin(), stage_.windows.end(), address,
                               [](uint64_t a, const StagedWindow& w) { return a <= w.window->start; });
    if (it == stage_.windows.begin()) return nullptr;
    --it;
    return address > it->window->start && address < it->window->end ? &*it : nullptr;
  }

  // Functions with a window into which an address on some stack points: a handler
  // interrupted it and will return there. A thread's pc can be moved, such an address cannot.
  std::set<const FunctionPlan*> busy_functions(const Regs& regs) {
    std::set<const FunctionPlan*> out;
    auto mappings = image::read_maps(input_.image.pid);
    if (!mappings) return out;
    for (const auto& [tid, r] : regs) {
      for (uint64_t word : return_places(r, *mappings, memory_, unwinder_))
        if (const StagedWindow* window = window_around(word)) out.insert(window->function);
      if (const StagedWindow* window = window_around(arch::pc(r)); window && !moved_to(*window, arch::pc(r)))
        out.insert(window->function);
    }
    return out;
  }

  static const uint64_t* moved_to(const StagedWindow& window, uint64_t pc) {
    for (const auto& [from, to] : window.trampoline.moved)
      if (from == pc) return &to;
    return nullptr;
  }

  void give_up(const FunctionPlan& function) {
    std::set<uint32_t> requests;
    for (const FunctionPlan::Point& point : function.points)
      for (const focus::BoundSnippet& snippet : point.snippets)
        requests.insert(snippet.requests.begin(), snippet.requests.end());
    for (const Window& window : function.sites.windows)
      for (const Site& site : window.sites) {
        input_.coverage.refused.push_back(
            {function.object, function.function, site, "an interrupted thread stayed inside it", {}});
        for (uint32_t request : requests) input_.coverage.refused_of[request]++;
      }
    std::erase_if(stage_.windows, [&](const StagedWindow& w) { return w.function == &function; });
  }

  // Before a window is written, threads inside it are sent to the trampoline's copy: it does
  // the same whether the window is written or not.
  Result<void> move_threads(process::Threads& threads, Regs& regs) {
    for (auto& [tid, r] : regs) {
      const StagedWindow* window = window_around(arch::pc(r));
      if (!window) continue;
      arch::ThreadRegisters moved = r;
      arch::set_pc(moved, *moved_to(*window, arch::pc(r)));
      if (auto ok = threads.set_registers(tid, moved); !ok) return ok;
    }
    return {};
  }

  struct Inside {  // a range of code whose active frames raise a flag
    image::Range range;
    const FunctionPlan* function;
    uint64_t entry;  // of code: a frame that has not passed it has not entered
    focus::CellId flag;
    bool counts;   // the flag counts frames (+= 1); otherwise it is just set
    bool of_call;  // the range is a call: the frame is the one that it made
  };

  // The snippet that raises the flag, null when it is not inserted.
  const focus::BoundSnippet* raiser(const FunctionPlan::Point& point, focus::CellId flag) const {
    for (const focus::BoundSnippet& snippet : point.snippets)
      if (raises_or_lowers(input_.plan, snippet, flag, true)) return &snippet;
    return nullptr;
  }

  std::vector<Inside> raised_ranges() {
    std::vector<Inside> out;
    std::map<const image::Function*, const FunctionPlan*> plans;
    for (const StagedWindow& window : stage_.windows) plans[window.function->function] = window.function;
    for (const focus::Balance& balance : input_.binding.balances) {
      format::CellKind kind = input_.binding.cells[balance.flag].kind;
      if (kind != format::CellKind::flag && !format::is_timer(kind)) continue;  // which key is not known
      auto it = plans.find(balance.function);
      if (it == plans.end()) continue;
      const FunctionPlan& f = *it->second;
      for (const FunctionPlan::Point& point : f.points) {
        const format::PointKind wanted =
            balance.of_calls ? format::PointKind::call_before : format::PointKind::entry;
        const focus::BoundSnippet* snippet =
            point.wanted.kind == wanted ? raiser(point, balance.flag) : nullptr;
        if (!snippet) continue;
        bool counts = write_of(input_.plan, *snippet, balance.flag)->reads;
        if (balance.of_calls)
          out.push_back({{point.wanted.place, point.wanted.place + call_size(f, point.wanted.place)},
                         &f,
                         0,
                         balance.flag,
                         counts,
                         true});
        else
          for (const image::Range& range : f.code.ranges)
            out.push_back({range, &f, entry_of(f), balance.flag, counts, false});
      }
    }
    return out;
  }

  static uint64_t entry_of(const FunctionPlan& f) {
    for (const Window& window : f.sites.windows)
      for (const Site& site : window.sites)
        if (site.kind == format::PointKind::entry) return site.address;
    return f.function->address;
  }
  static uint64_t call_size(const FunctionPlan& f, uint64_t call) {
    for (const image::Instruction& in : f.code.instructions)
      if (in.address == call) return in.size;
    return 0;
  }

  // Frames that are active now count as entered (architecture, decision 5).
  Result<void> set_active(const Regs& regs) {
    std::vector<Inside> inside = raised_ranges();
    const auto& requests = input_.binding.requests;
    bool each = std::any_of(requests.begin(), requests.end(), [](const focus::BoundRequest& request) {
      return request.thread != focus::kAllThreads;  // then every thread is known from the start
    });
    std::set<uint64_t> armed = armed_returns();
    if (inside.empty() && armed.empty() && !each) return {};
    ThreadBlocks blocks(stage_, memory_);
    if (auto ok = blocks.read(); !ok) return ok;
    for (const auto& [tid, r] : regs) {
      std::vector<uint64_t> calls;
      std::map<focus::CellId, Active> cells = active(r, inside, armed, tid, calls);
      if (cells.empty() && calls.empty() && !each) continue;
      auto block = blocks.claim(tid, arch::thread_pointer(r));
      if (!block) return block.error();
      for (const auto& [cell, frames] : cells)
        if (auto ok = blocks.raise(*block, tid, cell, input_.binding.cells[cell], frames); !ok) return ok;
      if (auto ok = open_spans(*block, cells); !ok) return ok;
      if (!arm(*block, calls)) return Error{"cannot write the session's data"};
    }
    return {};
  }

  // The spans of flags that are up from the start: all bases are zero.
  Result<void> open_spans(uint64_t block, const std::map<focus::CellId, Active>& flags) {
    const uint64_t opened = values::open_span(0, 0);
    for (const focus::Track& track : input_.binding.tracks)
      if (flags.contains(track.flag) &&
          !memory_.write(block + stage_.layout.cells[track.span], std::as_bytes(std::span(&opened, 1))))
        return Error{"cannot write the session's data"};
    return {};
  }

  // Where armed calls come back to.
  std::set<uint64_t> armed_returns() const {
    std::set<uint64_t> out;
    for (const StagedWindow& window : stage_.windows)
      for (const Site& site : window.window->sites)
        if (site.arming == arch::Arming::arm) out.insert(site.returns_to);
    return out;
  }

  // Calls in flight, innermost first, by where their return addresses lie, are armed as if they had been
  // seen.
  bool arm(uint64_t block, std::vector<uint64_t>& calls) {
    if (calls.empty()) return true;
    constexpr size_t kMost = arch::kArmedBytes / sizeof(uint64_t);
    if (calls.size() > kMost) calls.resize(kMost);
    std::reverse(calls.begin(), calls.end());
    uint64_t depth = calls.size() * sizeof(uint64_t);
    uint64_t slot = (block - stage_.data.start - stage_.layout.blocks()) / stage_.layout.stride;
    return memory_.write(stage_.armed.start + slot * arch::kArmedBytes, std::as_bytes(std::span(calls))) &&
           memory_.write(block + arch::kArmedDepth, std::as_bytes(std::span(&depth, 1)));
  }

  std::map<focus::CellId, Active> active(const arch::ThreadRegisters& regs, const std::vector<Inside>& inside,
                                         const std::set<uint64_t>& armed, pid_t tid,
                                         std::vector<uint64_t>& calls) {
    std::map<focus::CellId, Active> out;
    image::Stack stack = unwinder_.walk(arch::unwind_registers(regs), memory_);
    if (!stack.complete)
      out_.warnings.push_back(
          fmt::format("the stack of thread {} could not be walked to its end ({}): constraining functions "
                      "beyond that are not seen as active",
                      tid, stack.doubt));
    for (size_t i = 0; i < stack.frames.size(); i++) {
      const image::Frame& frame = stack.frames[i];
      uint64_t where = frame.is_call ? frame.pc - 1 : frame.pc;
      if (frame.is_call && i > 0 && armed.contains(frame.pc))
        calls.push_back(stack.frames[i - 1].cfa - sizeof(uint64_t));
      for (const Inside& range : inside) {
        if (!range.range.contains(where)) continue;
        if (range.of_call && (!frame.is_call || i == 0)) continue;  // it has not called yet
        if (!range.of_call && !frame.is_call && where >= range.function->function->address &&
            where <= range.entry)
          continue;
        Active& flag = out[range.flag];
        flag.count = range.counts ? flag.count + 1 : 1;
        // Frames come innermost first; there its return address lies.
        flag.outermost = (range.of_call ? stack.frames[i - 1] : frame).cfa - sizeof(uint64_t);
        out_.frames++;
      }
    }
    return out;
  }

  Result<void> write_windows() {
    std::vector<Edit> all = edits();
    if (apply_edits(all, memory_).changed.size() == all.size()) {
      for (const StagedWindow& window : stage_.windows)
        out_.points += window.function->sites_of(*window.window);
      return {};
    }
    for (Edit& edit : all) std::swap(edit.from, edit.to);
    bool undone = !apply_edits(all, memory_).failed;
    return Error{fmt::format("cannot write the code of process {}: {}", input_.image.pid,
                             undone ? "nothing was changed"
                                    : "some of it is patched and works; take it out with --remove"),
                 undone ? Status::failed : Status::left_inert};
  }

  const InsertInput& input_;
  const process::TargetMemory& memory_;
  Stage& stage_;
  Inserted& out_;
  image::Unwinder unwinder_;
};

// The insertion failed: what was staged is taken out as a session is. Threads may have been moved
// into trampolines already, and windows written.
Error take_back(pid_t pid, const process::TargetMemory& memory, const Journal& journal, Error why) {
  Removal removal(pid, memory);
  Result<void> out = removal.restore(&journal, 10s);
  if (out) out = removal.finish();
  if (!out) why = {why.text + "; " + out.error().text, Status::left_inert};
  return why;
}

}  // namespace

Result<void> refuse_occupied(pid_t pid, const std::vector<image::Mapping>& mappings,
                             const image::Memory& memory) {
  Session session = find_session(mappings, memory);
  if (session.mappings.empty()) return {};
  bool alive = session.journal && process::is_running(session.journal->owner, session.journal->owner_start);
  if (alive)
    return Error{
        fmt::format("process {0} is being instrumented by mdl-inject {1}: end that one first, or see "
                    "mdl-inject --status {0}",
                    pid, session.journal->owner)};
  return Error{fmt::format(
      "process {0} holds the instrumentation of an mdl-inject that has ended: look at it with mdl-inject "
      "--status {0}, take it out with mdl-inject --remove {0}",
      pid)};
}

Result<Inserted> insert(const InsertInput& input, const process::TargetMemory& memory) {
  Clock::time_point begun = Clock::now();
  pid_t pid = input.image.pid;
  auto lock = process::TransactionLock::take(pid, 10s);
  if (!lock) return lock.error();
  for (size_t attempt = 0;; attempt++) {
    auto mappings = image::read_maps(pid);
    if (!mappings) return mappings.error();
    if (auto ok = refuse_occupied(pid, *mappings, memory); !ok) return ok.error();
    auto stage = build_stage(input, *mappings, kAparts[attempt]);
    if (!stage) return stage.error();
    bool taken = false;
    if (auto ok = map_stage(input, memory, *stage, taken); !ok) {
      if (taken && attempt + 1 < std::size(kAparts)) continue;
      return ok.error();
    }
    Inserted out;
    Result<void> done = write_stage(memory, *stage);
    if (done) done = Commit(input, memory, *stage, out).run();
    if (!done) {
      { auto ended = std::move(*lock); }  // the removal takes it again
      return take_back(pid, memory, stage->journal, done.error());
    }
    out.journal = std::move(stage->journal);
    for (size_t i = 0; i < out.journal.requests.size(); i++)
      out.journal.requests[i].refused = input.coverage.refused_of[i];
    out.took = Clock::now() - begun;
    return out;
  }
}

}  // namespace mdl::patch
