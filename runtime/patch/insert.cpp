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
#include "runtime/values/clocks.h"
#include "runtime/values/spans.h"

namespace mdl::patch {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kStopDeadline = 2000ms;

constexpr int kWaits = 25;  // times that windows with an address on some stack are waited for

// The commit: from the first stop to the last thread let go.
class Commit {
 public:
  Commit(const InsertInput& input, const process::TargetMemory& memory, Stage& stage, Inserted& out)
      : input_(input), memory_(memory), stage_(stage), out_(out), unwinder_(input.image) {}

  Result<void> run() {
    for (int wait = 0;; wait++) {
      process::Threads threads(input_.image.pid);
      if (auto ok = threads.stop_all(kStopDeadline); !ok) return ok;
      auto done = attempt(threads, wait < kWaits);
      threads.release_all();
      out_.paused += Clock::now() - threads.stopped_since();
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

  Error go_thread(pid_t tid) const {
    return {fmt::format(
        "process {} is a Go program whose threads keep their thread pointer in another way than C "
        "(thread {}): it cannot be instrumented",
        input_.image.pid, tid)};
  }

  // The lookup reads the word that the thread pointer points to: it must be there and hold itself.
  Result<void> check_thread(pid_t tid, const arch::ThreadRegisters& regs) {
    uint64_t pointer = arch::thread_pointer(regs), word = 0;
    if (pointer != 0 && memory_.read(pointer, std::as_writable_bytes(std::span(&word, 1))) && word == pointer)
      return {};
    if (input_.image.objects.front().is_go) return go_thread(tid);
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
  std::vector<Edit> relay_edits() const {
    std::vector<Edit> out;
    for (const StagedWindow& window : stage_.windows)
      if (window.window->tactic == Tactic::short_)
        out.push_back({window.relay.address, window.relay.original, window.relay.patched});
    std::sort(out.begin(), out.end(), [](const Edit& a, const Edit& b) { return a.address < b.address; });
    return out;
  }

  // Neither have the bytes changed nor what is mapped there.
  Result<void> check_bytes() {
    auto mappings = image::read_maps(input_.image.pid);
    if (!mappings) return mappings.error();
    for (const PatchedFile& file : stage_.journal.files)
      if (!is_still_there(stage_.journal.files, *mappings, file.at.start))
        return Error{fmt::format(
            "a library at {:#x} was unloaded while the insertion was prepared: try again", file.at.start)};
    for (const std::vector<Edit>& all : {edits(), relay_edits()}) {
      Edited found = apply_edits(all, memory_, true);
      if (found.changed.size() == all.size()) continue;
      const uint64_t where = all[found.foreign.empty() ? 0 : found.foreign[0]].address;
      const image::Object* object = image::object_at(input_.image, where);
      const image::Function* function = object ? image::function_at(*object, where) : nullptr;
      return Error{fmt::format("the code at {:#x} ({}) changed while the insertion was prepared: try again",
                               where, function ? function->name : "no function")};
    }
    return {};
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
    const std::map<uint64_t, const FunctionPlan*> passed = passed_returns();
    for (const auto& [tid, r] : regs) {
      std::vector<uint64_t> places = return_places(r, *mappings, memory_, unwinder_);
      for (uint64_t word : places)
        if (const StagedWindow* window = window_around(word)) out.insert(window->function);
      places.push_back(arch::pc(r));
      for (uint64_t word : places)
        if (auto at = passed.find(word); at != passed.end()) out.insert(at->second);
      if (const StagedWindow* window = window_around(arch::pc(r)); window && !moved_to(*window, arch::pc(r)))
        out.insert(window->function);
    }
    return out;
  }

  // Returns whose code stands on the ways there: who is about to execute one has passed the code by.
  std::map<uint64_t, const FunctionPlan*> passed_returns() const {
    std::map<uint64_t, const FunctionPlan*> out;
    for (const StagedWindow& window : stage_.windows)
      for (const Site& site : window.window->sites)
        if (site.instead_of) out[site.instead_of] = window.function;
    return out;
  }

  static const uint64_t* moved_to(const StagedWindow& window, uint64_t pc) {
    for (const auto& [from, to] : window.trampoline.moved)
      if (from == pc) return &to;
    return nullptr;
  }

  // Its windows are not staged any more, and not the session's. (The journal in the process names them still;
  // that they hold what they held is found there.)
  void give_up(const FunctionPlan& function) {
    std::erase_if(stage_.journal.windows, [&](const PatchedWindow& patched) {
      return std::any_of(stage_.windows.begin(), stage_.windows.end(), [&](const StagedWindow& w) {
        return w.function == &function && w.window->start == patched.address;
      });
    });
    std::erase_if(stage_.windows, [&](const StagedWindow& w) { return w.function == &function; });
    for (FunctionPlan& f : input_.coverage.functions)
      if (&f == &function) patch::give_up(input_.coverage, f, "an interrupted thread stayed inside it");
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
    bool counts;                        // the flag counts frames (+= 1); otherwise it is just set
    bool of_call;                       // the range is a call: the frame is the one that it made
    bool timer;                         // the flag is one, and
    std::vector<focus::CellId> guards;  // starts only while these are up,
    std::vector<image::Range> pauses;   // and stands during these calls
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
                         true,
                         format::is_timer(kind),
                         snippet->guards,
                         {}});
        else
          for (const image::Range& range : f.code.ranges)
            out.push_back({range, &f, entry_of(f), balance.flag, counts, false, format::is_timer(kind),
                           snippet->guards, pausing_calls(f, balance.flag)});
      }
    }
    return out;
  }

  // Calls of a function before which its timer is stopped: a frame that is in one has it standing.
  std::vector<image::Range> pausing_calls(const FunctionPlan& f, focus::CellId timer) const {
    std::vector<image::Range> out;
    if (!format::is_timer(input_.binding.cells[timer].kind)) return out;
    for (const FunctionPlan::Point& point : f.points)
      for (const focus::BoundSnippet& snippet : point.snippets) {
        const format::CellUse* use = write_of(input_.plan, snippet, timer);
        const uint64_t place = point.wanted.place;
        if (point.wanted.kind == format::PointKind::call_before && use && !use->starts)
          out.push_back({place, place + call_size(f, place)});
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
      if (auto ok = open_spans(*block, tid, cells); !ok) return ok;
      if (!arm(*block, calls)) return Error{"cannot write the session's data"};
    }
    return {};
  }

  // The spans of flags that are up from now on.
  Result<void> open_spans(uint64_t block, pid_t tid, const std::map<focus::CellId, Active>& flags) {
    for (const focus::Track& track : input_.binding.tracks) {
      if (!flags.contains(track.flag)) continue;
      const uint64_t at = block + stage_.layout.cells[track.span];
      uint64_t span = 0, base = 0;
      if (!memory_.read(at, std::as_writable_bytes(std::span(&span, 1))) ||
          !memory_.read(block + stage_.layout.cells[track.base], std::as_writable_bytes(std::span(&base, 1))))
        return Error{"cannot read the session's data"};
      if (values::is_open(span)) continue;
      const focus::CellSlot& slot = input_.binding.cells[track.base];
      if (format::is_timer(slot.kind) && static_cast<int64_t>(base) < 0) {  // it runs: with its clock
        auto now = values::clock_now({slot.kind, slot.event}, input_.image.pid, tid);
        if (!now) return now.error();
        base += *now;
      }
      span = values::open_span(span, base);
      if (!memory_.write(at, std::as_bytes(std::span(&span, 1))))
        return Error{"cannot write the session's data"};
    }
    return {};
  }

  // Where armed calls come back to.
  std::set<uint64_t> armed_returns() const {
    std::set<uint64_t> out;
    if (stage_.extends) return out;  // calls in flight of a library that has just come do not count
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
    for (size_t i = 1; i < stack.frames.size(); i++)
      if (stack.frames[i].is_call && armed.contains(stack.frames[i].pc))
        calls.push_back(stack.frames[i - 1].cfa - sizeof(uint64_t));
    // As they were entered: the outermost frame first, and in each the flags before the timers, which they
    // guard.
    for (size_t i = stack.frames.size(); i-- > 0;)
      for (const bool timers : {false, true})
        for (const Inside& range : inside)
          if (range.timer == timers && is_inside(stack, i, range)) enter(stack, i, range, out);
    return out;
  }

  // Whether the frame has run what raises the flag.
  static bool is_inside(const image::Stack& stack, size_t i, const Inside& range) {
    const image::Frame& frame = stack.frames[i];
    const uint64_t where = frame.is_call ? frame.pc - 1 : frame.pc;
    if (!range.range.contains(where)) return false;
    if (range.of_call) return frame.is_call && i > 0;  // else it has not called yet
    if (frame.is_call && std::any_of(range.pauses.begin(), range.pauses.end(),
                                     [&](const image::Range& call) { return call.contains(where); }))
      return false;
    return frame.is_call || where < range.function->function->address || where > range.entry;
  }

  void enter(const image::Stack& stack, size_t i, const Inside& range,
             std::map<focus::CellId, Active>& cells) {
    if (!std::all_of(range.guards.begin(), range.guards.end(),
                     [&](focus::CellId guard) { return cells.contains(guard); }))
      return;
    Active& flag = cells[range.flag];
    // There its return address lies.
    if (flag.count == 0)
      flag.outermost = (range.of_call ? stack.frames[i - 1] : stack.frames[i]).cfa - sizeof(uint64_t);
    flag.count = range.counts ? flag.count + 1 : 1;
    out_.frames++;
  }

  Result<void> write_windows() {
    // Relays first: nothing jumps there yet.
    std::vector<Edit> relays = relay_edits(), all = edits();
    if (apply_edits(relays, memory_).changed.size() == relays.size() &&
        apply_edits(all, memory_).changed.size() == all.size()) {
      for (const StagedWindow& window : stage_.windows)
        out_.points += window.function->sites_of(*window.window);
      return {};
    }
    bool undone = true;
    for (std::vector<Edit>* edits : {&all, &relays}) {
      for (Edit& edit : *edits) std::swap(edit.from, edit.to);
      undone = undone && !apply_edits(*edits, memory_).failed;
    }
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

Result<void> commit(const InsertInput& input, const process::TargetMemory& memory, Stage& stage,
                    Inserted& out) {
  return Commit(input, memory, stage, out).run();
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
    if (done) done = commit(input, memory, *stage, out);
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
