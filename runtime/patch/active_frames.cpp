#include "runtime/patch/active_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <unordered_map>

#include "runtime/arch/description.h"
#include "runtime/arch/windows.h"
#include "runtime/image/for_people.h"
#include "runtime/image/function_code.h"
#include "runtime/patch/tail_callers.h"
#include "runtime/resident/thread_blocks.h"
#include "runtime/values/spans.h"

namespace mdl::patch {
struct RaisedRange {  // whose active frames raise a flag
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

namespace {

uint64_t entry_of(const FunctionPlan& f) {
  for (const Window& window : f.sites.windows)
    for (const Site& site : window.sites)
      if (site.kind == format::PointKind::entry) return site.address;
  return f.function->address;
}
uint64_t call_size(const FunctionPlan& f, uint64_t call) {
  for (const image::Instruction& in : f.code->instructions)
    if (in.address == call) return in.size;
  return 0;
}

// Calls of a function before which its timer is stopped: a frame that is in one has it standing.
std::vector<image::Range> pausing_calls(const InsertInput& input, const FunctionPlan& f,
                                        focus::CellId timer) {
  std::vector<image::Range> out;
  if (!format::is_timer(input.binding.cells[timer].kind)) return out;
  for (const FunctionPlan::Point& point : f.points)
    for (const focus::BoundSnippet& snippet : point.snippets) {
      const format::CellUse* use = write_of(input.plan, snippet, timer);
      const uint64_t place = point.wanted.place;
      if (point.wanted.kind == format::PointKind::call_before && use && !use->starts)
        out.push_back({place, place + call_size(f, place)});
    }
  return out;
}

// The snippet that raises the flag, null when it is not inserted.
const focus::BoundSnippet* raiser(const InsertInput& input, const FunctionPlan::Point& point,
                                  focus::CellId flag) {
  for (const focus::BoundSnippet& snippet : point.snippets)
    if (raises_or_lowers(input.plan, snippet, flag, true)) return &snippet;
  return nullptr;
}

std::vector<RaisedRange> raised_ranges(const InsertInput& input, const Stage& stage) {
  std::vector<RaisedRange> out;
  std::map<const image::Function*, const FunctionPlan*> plans;
  for (const StagedWindow& window : stage.windows) plans[window.function->function] = window.function;
  for (const focus::Balance& balance : input.binding.balances) {
    const format::CellKind kind = input.binding.cells[balance.flag].kind;
    if (!format::is_raised(kind)) continue;  // which key is not known
    auto it = plans.find(balance.function);
    if (it == plans.end()) continue;
    const FunctionPlan& f = *it->second;
    for (const FunctionPlan::Point& point : f.points) {
      const format::PointKind wanted =
          balance.of_calls ? format::PointKind::call_before : format::PointKind::entry;
      const focus::BoundSnippet* snippet =
          point.wanted.kind == wanted ? raiser(input, point, balance.flag) : nullptr;
      if (!snippet) continue;
      std::vector<image::Range> ranges = f.code->ranges;
      if (balance.of_calls)
        ranges = {{point.wanted.place, point.wanted.place + call_size(f, point.wanted.place)}};
      for (const image::Range& range : ranges)
        out.push_back({.range = range,
                       .function = &f,
                       .entry = balance.of_calls ? 0 : entry_of(f),
                       .flag = balance.flag,
                       .counts = write_of(input.plan, *snippet, balance.flag)->reads,
                       .of_call = balance.of_calls,
                       .timer = format::is_timer(kind),
                       .guards = snippet->guards,
                       .pauses = balance.of_calls ? std::vector<image::Range>()
                                                  : pausing_calls(input, f, balance.flag)});
    }
  }
  return out;
}

// Where armed calls come back to.
std::set<uint64_t> armed_returns(const InsertInput& input, const Stage& stage) {
  std::set<uint64_t> out;
  // Calls in flight of a library that has just come do not count.
  if (stage.extends && !input.fresh) return out;
  for (const StagedWindow& window : stage.windows)
    for (const Site& site : window.window->sites)
      if (site.arming == arch::Arming::arm) out.insert(site.returns_to);
  return out;
}

}  // namespace

class ActiveFrames::Raised {
 public:
  Raised(const InsertInput& input, const Stage& stage, bool begins)
      : armed(armed_returns(input, stage)),
        tail_callers(begins ? std::span(input.coverage.functions) : std::span<FunctionPlan>()),
        all_(begins ? raised_ranges(input, stage) : std::vector<RaisedRange>()) {
    // Ranges of calls lie in those of functions: what holds an address is known from one boundary to the next.
    std::map<uint64_t, std::vector<size_t>> starts, ends;
    for (size_t i = 0; i < all_.size(); i++) {
      starts[all_[i].range.start].push_back(i), ends[all_[i].range.start];
      ends[all_[i].range.end].push_back(i), starts[all_[i].range.end];
    }
    std::set<size_t> open;
    for (const auto& [at, begun] : starts) {
      for (size_t i : ends.at(at)) open.erase(i);
      for (size_t i : begun)
        if (all_[i].range.start < all_[i].range.end) open.insert(i);
      around_[at].assign(open.begin(), open.end());
    }
  }

  bool empty() const { return all_.empty(); }
  // Those that hold an address, as they were found; `use` gets each.
  template <typename Use>
  void around(uint64_t address, Use use) const {
    auto segment = around_.upper_bound(address);
    if (segment == around_.begin()) return;
    for (size_t i : std::prev(segment)->second) use(all_[i]);
  }

  const std::set<uint64_t> armed;
  const TailCallers tail_callers;

 private:
  std::vector<RaisedRange> all_;
  std::map<uint64_t, std::vector<size_t>> around_;  // by the boundary before them
};

namespace {

class ActiveThreads {
 public:
  ActiveThreads(const InsertInput& input, const process::TargetMemory& memory, process::PausedMemory& now,
                const Stage& stage, const image::Unwinder& unwinder, const ActiveFrames::Raised& raised,
                Inserted& out)
      : input_(input),
        memory_(memory),
        now_(now),
        stage_(stage),
        unwinder_(unwinder),
        raised_(raised),
        has_armed_(input.fresh && stage.armed.end),
        out_(out) {}

  Result<bool> count(const Regs& regs) {
    const auto& requests = input_.binding.requests;
    bool each = std::any_of(requests.begin(), requests.end(), [](const focus::BoundRequest& request) {
      return request.thread != focus::kAllThreads;  // then every thread is known from the start
    });
    if (raised_.empty() && raised_.armed.empty() && !each && !has_armed_) return !now_.is_over();
    resident::ThreadBlocks blocks(
        {stage_.layout, stage_.data.start, stage_.journal.target, stage_.journal.ticks_per_second}, memory_);
    if (auto ok = blocks.read(); !ok) return ok.error();
    threads_ = regs.size();
    // All are walked before anything is written.
    std::map<pid_t, Found> found;
    for (const auto& [tid, r] : regs) {
      now_.begin(tid);
      Found& one = found[tid];
      one.cells = active(r, tid, one.calls);
      one.rearms = !one.calls.empty();
      const auto known = has_armed_ ? blocks.find(arch::thread_pointer(r)) : std::nullopt;
      if (known && !merge_armed(*known, one) && !now_.is_over())
        return Error{"cannot read the session's data"};
      if (now_.is_over()) return false;
    }
    if (!doubts_.empty()) out_.warnings.push_back(doubts_text());
    if (!left_.empty()) out_.warnings.push_back(left_text());
    for (const auto& [tid, r] : regs) {
      auto& [cells, calls, rearms] = found[tid];
      if (cells.empty() && !rearms && !each) continue;
      auto block = blocks.claim(tid, arch::thread_pointer(r));
      if (!block) return block.error();
      for (const auto& [cell, frames] : cells) {
        if (!begins(cell)) continue;
        if (auto ok = blocks.raise(*block, tid, cell, input_.binding.cells[cell], frames); !ok)
          return ok.error();
      }
      if (auto ok = open_spans(blocks, *block, tid, cells); !ok) return ok.error();
      if (rearms && !arm(*block, calls)) return Error{"cannot write the session's data"};
    }
    return true;
  }

 private:
  struct Found {  // of one thread
    std::map<focus::CellId, resident::Active> cells;
    std::vector<uint64_t> calls;  // to be armed, by where their return addresses lie, the outermost first
    bool rearms = false;          // others are armed now
  };

  // What threads have in other cells is right already.
  bool begins(focus::CellId cell) const { return !input_.fresh || (*input_.fresh)[cell]; }

  // The spans of flags that are up from now on.
  Result<void> open_spans(resident::ThreadBlocks& blocks, uint64_t block, pid_t tid,
                          const std::map<focus::CellId, resident::Active>& flags) {
    for (const focus::TrackedCells& track : input_.binding.tracks) {
      if (!flags.contains(track.flag) || !begins(track.span)) continue;
      const uint64_t at = block + stage_.layout.cells[track.span];
      uint64_t span = 0, base = 0;
      if (!memory_.read(at, std::as_writable_bytes(std::span(&span, 1))) ||
          !memory_.read(block + stage_.layout.cells[track.base], std::as_writable_bytes(std::span(&base, 1))))
        return Error{"cannot read the session's data"};
      if (values::is_open(span)) continue;
      const focus::CellSlot& slot = input_.binding.cells[track.base];
      if (format::is_timer(slot.kind) && static_cast<int64_t>(base) < 0) {  // it runs: with its clock
        auto now = blocks.clock(block, tid, slot);
        if (!now) return now.error();
        base += *now;
      }
      span = values::open_span(span, base);
      if (!memory_.write(at, std::as_bytes(std::span(&span, 1))))
        return Error{"cannot write the session's data"};
    }
    return {};
  }

  // Calls in flight are armed as if they had been seen.
  bool arm(uint64_t block, std::vector<uint64_t>& calls) {
    constexpr size_t kMost = arch::kArmedBytes / sizeof(uint64_t);
    if (calls.size() > kMost) calls.erase(calls.begin(), calls.end() - kMost);
    const uint64_t depth = calls.size() * sizeof(uint64_t);
    return memory_.write(area(block), std::as_bytes(std::span(calls))) &&
           memory_.write(block + kBlockArmed, std::as_bytes(std::span(&depth, 1)));
  }
  uint64_t area(uint64_t block) const {
    const uint64_t slot = (block - stage_.data.start - stage_.layout.blocks()) / stage_.layout.stride;
    return stage_.armed.start + slot * arch::kArmedBytes;
  }

  // Of a change: those that are armed stay so, also on stacks that the walk has not seen (coroutines), where code
  // waits for them now. What an entry is about, the return address says that lies there. The others go: a later call
  // at the same place would be taken for them.
  bool merge_armed(uint64_t block, Found& found) {
    uint64_t depth = 0;
    if (!now_.read(block + kBlockArmed, std::as_writable_bytes(std::span(&depth, 1)))) return false;
    std::vector<uint64_t> known(std::min(depth, arch::kArmedBytes) / sizeof(uint64_t));
    if (!now_.read(area(block), std::as_writable_bytes(std::span(known)))) return false;
    std::unordered_map<uint64_t, size_t> seen;
    for (size_t i = 0; i < found.calls.size(); i++) seen.emplace(found.calls[i], i);
    std::vector<uint64_t> merged;
    size_t next = 0;  // of those that the walk has seen
    const auto take_until = [&](size_t end) {
      for (; next < end; next++) merged.push_back(found.calls[next]);
    };
    for (const uint64_t place : known) {
      if (const auto at = seen.find(place); at != seen.end()) {
        take_until(at->second + 1);
        continue;
      }
      uint64_t returns_to = 0;
      if (now_.read(place, std::as_writable_bytes(std::span(&returns_to, 1))) &&
          raised_.armed.contains(returns_to))
        merged.push_back(place);
    }
    take_until(found.calls.size());
    found.rearms = merged != known;
    found.calls = std::move(merged);
    return true;
  }

  std::map<focus::CellId, resident::Active> active(const arch::ThreadRegisters& regs, pid_t tid,
                                                   std::vector<uint64_t>& calls) {
    std::map<focus::CellId, resident::Active> out;
    image::Stack stack = unwinder_.walk(arch::unwind_registers(regs), now_);
    if (!stack.complete) doubts_.push_back({tid, stack.doubt});
    for (size_t i = 1; i < stack.frames.size(); i++)
      if (stack.frames[i].is_call && raised_.armed.contains(stack.frames[i].pc))
        calls.push_back(image::place_of(stack.frames[i - 1]));
    std::ranges::reverse(calls);
    for (size_t i = 0; i + 1 < stack.frames.size(); i++) note_tail_call(stack.frames[i], stack.frames[i + 1]);
    // As they were entered: the outermost frame first, and in each the flags before the timers, which they
    // guard.
    for (size_t i = stack.frames.size(); i-- > 0;)
      for (const bool timers : {false, true})
        raised_.around(place_in(stack.frames[i]), [&](const RaisedRange& range) {
          if (range.timer == timers && is_inside(stack, i, range)) enter(stack, i, range, out);
        });
    return out;
  }

  // One text for all threads: those of a virtual machine are many, and their reasons alike.
  std::string doubts_text() const {
    const auto& [tid, doubt] = doubts_.front();
    const std::string which =
        doubts_.size() == 1
            ? fmt::format("the stack of thread {} could not be walked to its end ({})", tid, doubt)
            : fmt::format("the stacks of {} of {} threads could not be walked to their ends (thread {}: {})",
                          doubts_.size(), threads_, tid, doubt);
    return which +
           ": calls that had begun beyond that before the attach are left out of times, and of what is "
           "counted within a function";
  }

  // A frame whose call was one of another function has come by a tail call; called through a pointer, it may have.
  void note_tail_call(const image::Frame& frame, const image::Frame& caller) {
    const FunctionPlan* target = raised_.tail_callers.target_at(place_in(frame));
    std::vector<std::byte> call(arch::kMachine.jump_size);
    const uint64_t at = caller.pc - call.size();
    if (!target || !caller.is_call || !now_.read(at, call)) return;
    std::optional<uint64_t> called = arch::branch_target(at, call);
    if (const uint64_t slot = called ? image::linkage_slot(now_, *called) : 0)
      if (!now_.read(slot, std::as_writable_bytes(std::span(&*called, 1)))) called.reset();
    const FunctionPlan* left = raised_.tail_callers.caller_of(target, called);
    if (left) left_.insert({left, target});
  }

  std::string left_text() const {
    const auto text = [](const FunctionPlan& f) {
      return image::for_people(fmt::format("/Code/{}/{}", f.object->name, f.function->name));
    };
    const auto& [from, to] = *left_.begin();
    return fmt::format(
        "{} ends with a jump to {}, where a thread was at the attach{}: a call that had come there before "
        "is left out of times, and of what is counted within it",
        text(*from), text(*to),
        left_.size() == 1 ? "" : fmt::format(" ({} more are like that)", left_.size() - 1));
  }

  // An address of what the frame executes: a call may be the last instruction of its function.
  static uint64_t place_in(const image::Frame& frame) { return frame.is_call ? frame.pc - 1 : frame.pc; }

  // Whether the frame has run what raises the flag.
  static bool is_inside(const image::Stack& stack, size_t i, const RaisedRange& range) {
    const image::Frame& frame = stack.frames[i];
    const uint64_t where = place_in(frame);
    if (range.of_call) return frame.is_call && i > 0;  // else it has not called yet
    if (frame.is_call && std::any_of(range.pauses.begin(), range.pauses.end(),
                                     [&](const image::Range& call) { return call.contains(where); }))
      return false;
    return frame.is_call || where < range.function->function->address || where > range.entry;
  }

  void enter(const image::Stack& stack, size_t i, const RaisedRange& range,
             std::map<focus::CellId, resident::Active>& cells) {
    if (!std::all_of(range.guards.begin(), range.guards.end(),
                     [&](focus::CellId guard) { return cells.contains(guard); }))
      return;
    resident::Active& flag = cells[range.flag];
    if (flag.count == 0)
      flag.outermost = image::place_of(range.of_call ? stack.frames[i - 1] : stack.frames[i]);
    flag.count = range.counts ? flag.count + 1 : 1;
    out_.frames++;
  }

  const InsertInput& input_;
  const process::TargetMemory& memory_;
  process::PausedMemory& now_;
  const Stage& stage_;
  const image::Unwinder& unwinder_;
  const ActiveFrames::Raised& raised_;
  const bool has_armed_;  // a change, and calls may have been armed before
  Inserted& out_;
  size_t threads_ = 0;
  std::set<std::pair<const FunctionPlan*, const FunctionPlan*>> left_;  // and what they have ended in
  std::vector<std::pair<pid_t, std::string>> doubts_;  // stacks that were not walked to their ends, and why
};

// Whether any flag, timer or span is new.
bool something_begins(const InsertInput& input) {
  const auto begins = [&](focus::CellId cell) { return !input.fresh || (*input.fresh)[cell]; };
  return std::ranges::any_of(input.binding.balances,
                             [&](const focus::Balance& balance) { return begins(balance.flag); }) ||
         std::ranges::any_of(input.binding.tracks,
                             [&](const focus::TrackedCells& track) { return begins(track.span); });
}

}  // namespace

ActiveFrames::ActiveFrames(const InsertInput& input, const process::TargetMemory& memory, const Stage& stage,
                           const image::Unwinder& unwinder)
    : input_(input), memory_(memory), stage_(stage), unwinder_(unwinder) {
  look_again();
}

ActiveFrames::~ActiveFrames() = default;

void ActiveFrames::look_again() {
  raised_ = std::make_unique<Raised>(input_, stage_, something_begins(input_));
}

Result<bool> ActiveFrames::count(const Regs& regs, process::PausedMemory& now, Inserted& out) const {
  return ActiveThreads(input_, memory_, now, stage_, unwinder_, *raised_, out).count(regs);
}

}  // namespace mdl::patch
