#include "runtime/image/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "runtime/arch/decoder.h"
#include "runtime/arch/description.h"
#include "runtime/image/incoming_jumps.h"

namespace mdl::image {
namespace {

bool starts_function(const FunctionCode& code, uint64_t address) {
  if (function_starting_at(code.object, address)) return true;
  const FrameTable* table = code.object.frame_table.get();
  const Fde* entry = table ? table->find(address) : nullptr;
  return entry && entry->start == address;
}

bool starts_something(const FunctionCode& code, uint64_t address) {
  return code.contains(address) || starts_function(code, address);
}

// The instruction that has a byte at an address, decoded from where call frame information says that code begins:
// jumps are looked for by their bytes, which may be those of other instructions. Nothing where it is not known.
std::optional<Instruction> instruction_around(const FunctionCode& code, uint64_t address) {
  const FrameTable* table = code.object.frame_table.get();
  constexpr uint64_t kMax = 16 << 20;
  Range range;
  if (const Fde* entry = table ? table->find(address) : nullptr)
    range = {entry->start, entry->end};
  else if (const Function* function = function_at(code.object, address))  // assembly without frames
    range = {function->address, function->address + function->size};
  if (!range.contains(address) || range.end - range.start > kMax) return std::nullopt;
  std::vector<std::byte> bytes(range.end - range.start);
  if (!code.spend(address - range.start) || !code.memory.read(range.start, bytes)) return std::nullopt;
  Decoded one;
  for (uint64_t at = range.start; at <= address; at = one.end())
    if (!arch::decode_instruction(std::span(bytes).subspan(at - range.start), at, one.instruction,
                                  one.detail))
      return std::nullopt;
  return one.instruction;
}

// Padding behind a range: as far as nops go, but not into what is known to start there, and
// where nothing is, only to the next 16-byte boundary.
std::vector<Instruction> read_padding(const FunctionCode& code, const Range& range) {
  constexpr uint64_t kMax = 64;
  std::vector<std::byte> bytes(kMax);
  while (!bytes.empty() && !code.memory.read(range.end, bytes)) bytes.resize(bytes.size() / 2);
  std::vector<Instruction> padding;
  uint64_t end = range.end;
  Decoded one;
  while (
      arch::decode_instruction(std::span(bytes).subspan(end - range.end), end, one.instruction, one.detail) &&
      one.instruction.is_padding && !starts_something(code, end)) {
    padding.push_back(one.instruction);
    end = one.end();
  }
  bool bounded = function_starting_at(code.object, end) != nullptr ||
                 (code.object.frame_table && code.object.frame_table->find(end) != nullptr);
  if (!bounded)
    std::erase_if(padding, [&](const Instruction& one) {
      return one.address + one.size > ((range.end + 15) & ~uint64_t{15});
    });
  return padding;
}

class Summary {
 public:
  Summary(FunctionCode& code, const Found& found) : code_(code), found_(found) {}

  Code make() {
    for (const JumpTable& table : found_.tables) add(table.targets);
    for (const LandingPad& pad : found_.pads) result_.targets.push_back(pad.pad);
    result_.pads = found_.pads;
    for (const Range& range : code_.ranges) {
      if (code_.object.far_jumps) enter(code_.object.far_jumps->into(code_.object, range, code_.memory));
      enter(near_jumps_into(code_.object, range, code_.memory));
    }
    for (size_t i = 0; i < code_.decoded.size(); ++i) look_at(i);
    for (size_t index : jumps_to_end_) look_at_jump_to_end(index);
    doubt_indirect_exits();
    if (code_.frame_is_open(code_.function.address))
      code_.set_doubt("others jump to it while their frames are there");
    add(follow_);
    check_bounds();
    add_entries();
    take_instructions();
    for (std::vector<uint64_t>* list :
         {&result_.targets, &result_.entered, &result_.arrivals, &result_.may_arrive, &result_.entries}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    result_.ranges = code_.ranges;
    result_.complete = code_.complete;
    result_.doubt = code_.doubt;
    return std::move(result_);
  }

 private:
  void add(const std::vector<uint64_t>& targets) {
    result_.targets.insert(result_.targets.end(), targets.begin(), targets.end());
  }
  void enter(std::span<const IncomingJump> jumps);
  bool is_watched(const IncomingJump& address) const {
    if (code_.contains(address.source) || starts_function(code_, address.target)) return false;
    const std::optional<Instruction> source = instruction_around(code_, address.source);
    return !source || source->address == address.source;
  }
  void add_what_follows(size_t index);
  void look_at(size_t index);
  bool is_jump_thunk(uint64_t address) const {
    const std::string_view begins = arch::kMachine.jump_thunk;
    const Function* thunk = begins.empty() ? nullptr : function_starting_at(code_.object, address);
    return thunk && thunk->name.starts_with(begins);
  }
  void look_at_jump(const Instruction& one);
  bool leaves_frame_open(const Instruction& jump) const;
  bool may_run(size_t index) const;
  void look_at_jump_to_end(size_t index);
  void look_at_call(size_t index);
  void look_at_indirect_jump(size_t index);
  void doubt_indirect_exits();
  void check_bounds();
  void add_entries();
  void take_instructions();

  FunctionCode& code_;
  const Found& found_;
  Code result_;
  std::vector<uint64_t> follow_;      // targets for no other reason than what is before them
  std::vector<size_t> jumps_to_end_;  // leads_to_end: exits if they may run
};

// Code of another function may lead here, and what it reaches is executed for that one, too: behind a jump
// while that one's frame is open, or may be, and behind a call past the entry, a return here is none of a frame
// that began here.
void Summary::enter(std::span<const IncomingJump> jumps) {
  for (const IncomingJump& jump : jumps) {
    if (jump.is_formed && is_watched(jump)) code_.watched = jump;
    if (jump.is_formed) continue;
    result_.targets.push_back(jump.target);
    result_.entered.push_back(jump.target);
    if (code_.contains(jump.source) || !code_.at(jump.target)) continue;
    const std::optional<Instruction> source =
        jump.source != 0 ? instruction_around(code_, jump.source) : std::nullopt;
    if (!source) result_.may_arrive.push_back(jump.target);
    if (!source || source->target != jump.target) continue;
    result_.arrivals.push_back(jump.target);
    const Flow flow = source->flow;
    if (flow == Flow::call || !code_.frame_is_closed(jump.target))
      code_.set_doubt(fmt::format("the {} at {:#x} of other code leads into it",
                                  flow == Flow::call ? "call" : "jump", jump.source));
  }
}

// The first instruction behind that is not padding: nobody jumps to padding but by a
// direct jump or a table, and those are targets by themselves.
void Summary::add_what_follows(size_t index) {
  for (++index; index < code_.decoded.size(); ++index) {
    if (code_.decoded[index].instruction.address != code_.decoded[index - 1].end()) return;
    if (code_.decoded[index].instruction.is_padding) continue;
    follow_.push_back(code_.decoded[index].instruction.address);
    return;
  }
}

// Whether a jump is more than what the compiler left behind a call that does not come back. In code that
// jumps who knows where it may be. Called when all targets are known.
bool Summary::may_run(size_t index) const {
  uint64_t address = code_.decoded[index].instruction.address;
  code_.spend((result_.no_return.size() + result_.targets.size()) / code_.kPerStep);
  if (code_.is_over() || index == 0 || code_.decoded[index - 1].end() != address || result_.unresolved_jump)
    return true;
  auto has = [](const std::vector<uint64_t>& list, uint64_t one) {
    return std::find(list.begin(), list.end(), one) != list.end();
  };
  return !has(result_.no_return, code_.decoded[index - 1].instruction.address) ||
         has(result_.targets, address);
}

// It leads to what starts at the end, or to padding that runs on into what starts behind it: an exit there.
// Whether it can run or not, that padding is code which no window may take (take_instructions): that a call
// does not come back is not trusted that far.
void Summary::look_at_jump_to_end(size_t index) {
  const Instruction& jump = code_.decoded[index].instruction;
  if (may_run(index)) {
    std::vector<Instruction> padding = read_padding(code_, {jump.target, jump.target});
    uint64_t next = padding.empty() ? jump.target : padding.back().address + padding.back().size;
    if (code_.contains(next) || classify_destination(code_, next).kind != Destination::Kind::exit)
      doubt_jump(code_, jump);
    look_at_jump(jump);
  }
  result_.targets.push_back(jump.target);
}

// Whether the function's frame is there at a jump to other code, which takes it down: a common end that has a name of
// its own (gcc -mcall-ms2sysv-xlogues, assembly). Call frame information alone does not say so, since some of it has
// nothing of epilogues: nothing between the last call and the jump may move the stack pointer either.
bool Summary::leaves_frame_open(const Instruction& jump) const {
  const Decoded* one = code_.frame_is_open(jump.address) ? code_.at(jump.address) : nullptr;
  for (; one && one != code_.decoded.data(); --one) {
    const Decoded& before = one[-1];
    if (before.end() != one->instruction.address) return false;
    if (before.instruction.flow == Flow::call || before.instruction.flow == Flow::call_indirect) return true;
    if (before.instruction.flow != Flow::next ||
        (before.instruction.touches & register_bit(arch::kMachine.stack_pointer)))
      return false;
  }
  return false;
}

void Summary::look_at_jump(const Instruction& one) {
  if (!code_.contains(one.target)) {
    if (is_jump_thunk(one.target)) {
      result_.unresolved_jump = true;
      code_.set_doubt(fmt::format("where its jump at {:#x} leads is hidden in a retpoline", one.address));
    }
    if (classify_destination(code_, one.target).kind == Destination::Kind::never) return;
    if (leaves_frame_open(one))
      code_.set_doubt(fmt::format("its jump at {:#x} leaves it while its frame is there", one.address));
    result_.exits.push_back(
        {one.address, one.flow == Flow::jump ? ExitKind::tail_jump : ExitKind::tail_branch});
    return;
  }
  result_.targets.push_back(one.target);
  const Decoded* around = code_.covering(one.target);
  if (!around || around->instruction.address == one.target) return;
  // Into an instruction: a prefix is skipped so (old locks on x86). It is sound when both ways meet at the
  // instruction's end.
  std::span bytes(around->instruction.bytes);
  Decoded inner;
  if (!arch::decode_instruction(std::as_bytes(bytes.subspan(one.target - around->instruction.address)),
                                one.target, inner.instruction, inner.detail) ||
      inner.end() != around->end())
    code_.set_doubt(fmt::format("its jump at {:#x} leads into an instruction", one.address));
}

void Summary::look_at_call(size_t index) {
  const Decoded& call = code_.decoded[index];
  uint64_t target = call.instruction.target;
  if (call.instruction.flow == Flow::call && target != code_.function.address && code_.contains(target)) {
    result_.targets.push_back(target);
    code_.set_doubt(fmt::format("its call at {:#x} leads into itself", call.instruction.address));
  }
  bool is_last =
      index + 1 == code_.decoded.size() || code_.decoded[index + 1].instruction.address != call.end();
  Comes comes = comes_back(code_, call);
  if (comes == Comes::twice) result_.returns_twice.push_back(call.instruction.address);
  if (is_last || comes == Comes::never)
    result_.no_return.push_back(call.instruction.address);
  else if (!code_.decoded[index + 1].instruction.is_padding)
    return;
  add_what_follows(index);
}

void Summary::look_at_indirect_jump(size_t index) {
  const Instruction& one = code_.decoded[index].instruction;
  switch (classify_indirect_jump(code_, found_.tables, index)) {
    case IndirectJump::inside:
      result_.switches.push_back(targets_of_switch(code_, found_.tables, index));
      break;
    case IndirectJump::exit:
      result_.exits.push_back({one.address, ExitKind::tail_jump_indirect});
      break;
    case IndirectJump::unresolved:
      result_.unresolved_jump = true;
      code_.set_doubt(fmt::format("where its jump at {:#x} leads is not known", one.address));
      break;
  }
}

// Code to which nothing leads is what an indirect jump leads to, by a table that nobody found (its address is
// put together from pieces, or comes from memory): then a jump that looked like a way out may be none. One
// through a slot of the linkage table (-fno-plt, Rust) has one destination, which can be seen.
void Summary::doubt_indirect_exits() {
  auto through_slot = [&](uint64_t address) {
    const Decoded* jump = code_.at(address);
    if (!jump || !jump->detail.has_memory || jump->detail.memory.base != kPcRegister) return false;
    uint64_t target = 0;
    return code_.memory.read(jump->end() + static_cast<uint64_t>(jump->detail.memory.displacement),
                             std::as_writable_bytes(std::span(&target, 1))) &&
           !code_.contains(target);
  };
  const auto indirect = std::find_if(result_.exits.begin(), result_.exits.end(), [&](const Exit& one) {
    return one.kind == ExitKind::tail_jump_indirect && !through_slot(one.address);
  });
  if (indirect == result_.exits.end()) return;
  const std::set<uint64_t> reached(result_.targets.begin(), result_.targets.end());
  const auto alone = std::find_if(follow_.begin(), follow_.end(), [&](uint64_t one) {
    return one != code_.function.address && !reached.count(one);
  });
  if (alone == follow_.end()) return;
  result_.unresolved_jump = true;
  code_.set_doubt(fmt::format("its jump at {:#x} may lead to {:#x}, to which nothing else does",
                              indirect->address, *alone));
}

void Summary::look_at(size_t index) {
  const Instruction& one = code_.decoded[index].instruction;
  // Where the machine has landing instructions (-fcf-protection), every place that an indirect jump may reach
  // starts so.
  if (one.is_landing && one.address != code_.function.address) result_.targets.push_back(one.address);
  switch (one.flow) {
    case Flow::jump:
      if (leads_to_end(code_, one) && !is_jump_thunk(one.target))
        jumps_to_end_.push_back(index);
      else
        look_at_jump(one);
      add_what_follows(index);
      break;
    case Flow::branch:
      look_at_jump(one);
      break;
    case Flow::call:
    case Flow::call_indirect:
      look_at_call(index);
      break;
    case Flow::jump_indirect:
      look_at_indirect_jump(index);
      add_what_follows(index);
      break;
    case Flow::return_:
      if (goes_to_pushed_address(code_, index)) {
        result_.unresolved_jump = true;
        code_.set_doubt(fmt::format(
            "its return at {:#x} goes to an address that it has put on the stack itself", one.address));
      }
      result_.exits.push_back({one.address, ExitKind::return_});
      add_what_follows(index);
      break;
    case Flow::stop:
      add_what_follows(index);
      break;
    case Flow::next:
      // __morestack calls it once more, past its entry: it returns there, and then from here.
      if (arch::asks_for_stack(one))
        code_.set_doubt("it may go on on another stack (-fsplit-stack), and return twice then");
      break;
    case Flow::system_call:
      break;
  }
}

// The functions that start in a range.
std::span<const Function> functions_in(const Object& object, const Range& range) {
  auto at = [&](uint64_t address) {
    return std::lower_bound(object.functions.begin(), object.functions.end(), address,
                            [](const Function& one, uint64_t value) { return one.address < value; });
  };
  return {at(range.start), at(range.end)};
}

// Control that leaves or enters otherwise than by what was looked at.
void Summary::check_bounds() {
  for (const Range& range : code_.ranges) {
    // Padding behind the last one may be the function's own, by its size, and runs as well.
    const Decoded* last = nullptr;
    for (const Decoded& one : code_.decoded)
      if (range.contains(one.instruction.address) && !one.instruction.is_padding) last = &one;
    if (last && (last->instruction.flow == Flow::next || last->instruction.flow == Flow::branch) &&
        !code_.contains(range.end) && !arch::faults(last->instruction))
      code_.set_doubt(fmt::format("it runs on behind its end at {:#x}", range.end));
    for (const Function& inner : functions_in(code_.object, {range.start + 1, range.end}))
      code_.set_doubt(fmt::format("{} starts inside of it", inner.name));
  }
}

// A cold part may lie right before the function's entry, with padding between them that belongs to the part.
void Summary::add_entries() {
  const FrameTable* table = code_.object.frame_table.get();
  for (const Range& range : code_.ranges) {
    result_.entries.push_back(range.start);
    for (const Function& other : functions_in(code_.object, range)) result_.entries.push_back(other.address);
    for (const Fde* entry = table ? table->find(range.start) : nullptr; entry && entry->start < range.end;
         entry = table->find(entry->end))
      result_.entries.push_back(entry->start);
  }
}

void Summary::take_instructions() {
  std::vector<Instruction> padding;
  for (const Range& range : code_.ranges) {
    if (std::find(result_.targets.begin(), result_.targets.end(), range.end) != result_.targets.end())
      continue;
    std::vector<Instruction> behind = read_padding(code_, range);
    padding.insert(padding.end(), behind.begin(), behind.end());
  }
  result_.instructions.reserve(code_.decoded.size() + padding.size());
  for (Decoded& one : code_.decoded) result_.instructions.push_back(std::move(one.instruction));
  const auto middle = result_.instructions.insert(result_.instructions.end(), padding.begin(), padding.end());
  std::inplace_merge(result_.instructions.begin(), middle, result_.instructions.end(),
                     [](const Instruction& a, const Instruction& b) { return a.address < b.address; });
  std::sort(result_.exits.begin(), result_.exits.end(),
            [](const Exit& a, const Exit& b) { return a.address < b.address; });
}

}  // namespace

bool leads_to_end(const FunctionCode& code, const Instruction& one) {
  return one.flow == Flow::jump && !code.contains(one.target) &&
         std::any_of(code.ranges.begin(), code.ranges.end(),
                     [&](const Range& range) { return range.end == one.target; });
}

void doubt_jump(FunctionCode& code, const Instruction& jump) {
  const char* where = function_starting_at(code.object, jump.target) ? "where its frame is there still"
                      : function_at(code.object, jump.target)        ? "into the middle of another function"
                                                              : "which is in no function that is known";
  code.set_doubt(fmt::format("its jump at {:#x} leads to {:#x}, {}", jump.address, jump.target, where));
}

Code summarize(FunctionCode& code, const Found& found) {
  return Summary(code, found).make();
}

}  // namespace mdl::image
