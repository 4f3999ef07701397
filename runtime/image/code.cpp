// read_code: finds what belongs to a function, a fixed point over direct jumps, landing pads and jump tables;
// summary.h says what it does.
#include "runtime/image/code.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "runtime/arch/description.h"
#include "runtime/image/function_code.h"
#include "runtime/image/landing_pads.h"
#include "runtime/image/summary.h"

namespace mdl::image {
namespace {

constexpr size_t kMaxRanges = 64;  // a function has one cold part, two at most

bool is_direct_jump(const Instruction& one) {
  return one.flow == Flow::jump || one.flow == Flow::branch;
}

// Ranges of the function that the image knows. A "f.cold.N" that is called is no part: LLVM's
// hot-cold splitting makes functions of cold code.
void add_known_ranges(FunctionCode& code) {
  const Function& function = code.function;
  if (!code.add_range({function.address, function.address + function.size})) return;
  auto is_called = [&](const Range& part) {
    return std::any_of(code.decoded.begin(), code.decoded.end(), [&](const Decoded& one) {
      return one.instruction.flow == Flow::call && one.instruction.target == part.start;
    });
  };
  for (const Range& part : function.parts)
    if (code.ranges.size() <= kMaxRanges && code.spend(code.decoded.size() / code.kPerStep) &&
        !is_called(part) && !code.add_range(part))
      code.set_doubt(fmt::format("its part at {:#x} cannot be read", part.start));
}

std::vector<Range> parts_behind_jumps(FunctionCode& code) {
  std::vector<Range> parts;
  for (const Decoded& one : code.decoded) {
    if (!is_direct_jump(one.instruction) || code.contains(one.instruction.target)) continue;
    Destination destination = classify_destination(code, one.instruction.target);
    if (destination.kind == Destination::Kind::part) parts.push_back(destination.part);
    if (destination.kind == Destination::Kind::unknown && !leads_to_end(code, one.instruction))
      doubt_jump(code, one.instruction);
  }
  return parts;
}

// Landing pads of the ranges so far; those outside add the range that holds them. One that nothing names is a function
// for all that where it is called, or its address taken (unnamed.h): with -fno-reorder-functions GCC 12 writes pads of
// cold code that count from elsewhere.
std::vector<Range> parts_behind_pads(FunctionCode& code, std::vector<LandingPad>& pads) {
  std::vector<Range> parts;
  pads.clear();
  const FrameTable* table = code.object.frame_table.get();
  if (!table) return parts;
  for (const Range& range : code.ranges)
    for (const Fde* entry = table->find(range.start); entry && entry->start < range.end;
         entry = table->find(entry->end))
      if (!read_landing_pads(*table, *entry, code.memory, pads, *code.object.budget))
        code.set_doubt(fmt::format("the exception table of its frame at {:#x} cannot be read", entry->start));
  for (const auto& [calls, pad] : pads) {
    if (code.contains(pad)) continue;
    const Fde* entry = table->find(pad);
    if (entry && !any_function_starting_at(code.object, entry->start))
      parts.push_back({entry->start, entry->end});
    else
      code.set_doubt(fmt::format("its landing pad at {:#x} is not in a part of it", pad));
  }
  return parts;
}

Found complete_ranges(FunctionCode& code) {
  Found found;
  while (true) {
    std::vector<Range> parts = parts_behind_jumps(code);
    if (parts.empty()) parts = parts_behind_pads(code, found.pads);
    if (parts.empty()) {
      found.tables = find_jump_tables(code);
      parts = parts_behind_tables(code);
    }
    size_t before = code.ranges.size();
    for (const Range& part : parts) {
      if (code.contains(part.start)) continue;
      if (!code.add_range(part)) code.set_doubt(fmt::format("its part at {:#x} cannot be read", part.start));
    }
    if (code.ranges.size() == before) return found;
    if (code.ranges.size() > kMaxRanges) {
      code.set_doubt(fmt::format("it is in more than {} pieces", kMaxRanges));
      return found;
    }
  }
}

// Where memory has a breakpoint instruction and the file has none: a debugger's or a uprobe. The bytes read
// behind it are not those that run, and whoever put it there will put back what was there. 0: nowhere.
uint64_t find_breakpoint(const FunctionCode& code) {
  const std::span breakpoint = arch::kMachine.breakpoint;
  for (const Decoded& one : code.decoded) {
    const uint64_t address = one.instruction.address;
    if (one.instruction.size != breakpoint.size() || !std::ranges::equal(one.instruction.bytes, breakpoint))
      continue;
    for (const Mapping& mapping : code.image.mappings) {
      std::vector<uint8_t> bytes(breakpoint.begin(), breakpoint.end());
      if (mapping.inode != 0 && mapping.start <= address && address < mapping.end &&
          read_mapped(code.image.pid, mapping, address, std::as_writable_bytes(std::span(bytes))) &&
          !std::ranges::equal(bytes, breakpoint))
        return address;
    }
  }
  return 0;
}

// A sequence ends with the instruction that makes it count. Executed elsewhere, in a trampoline, that one is
// no part of it: a thread that was interrupted before it goes on with what is not so any more.
bool is_restartable(const FunctionCode& code) {
  return std::ranges::any_of(code.object.restartable, [&](const Range& sequence) {
    return std::ranges::any_of(code.ranges, [&](const Range& range) {
      return sequence.start < range.end && range.start < sequence.end;
    });
  });
}

}  // namespace

std::vector<uint8_t> bytes_at(const Code& code, uint64_t address, size_t size) {
  std::vector<uint8_t> out;
  auto in = std::upper_bound(code.instructions.begin(), code.instructions.end(), address,
                             [](uint64_t a, const Instruction& one) { return a < one.address; });
  if (in == code.instructions.begin()) return out;
  for (--in; in != code.instructions.end() && out.size() < size; ++in) {
    if (in->address > address + out.size()) break;  // a gap
    for (size_t i = 0; i < in->bytes.size() && out.size() < size; i++)
      if (in->address + i == address + out.size()) out.push_back(in->bytes[i]);
  }
  return out;
}

bool Code::is_target(uint64_t address) const {
  return std::binary_search(targets.begin(), targets.end(), address);
}

bool Code::is_entry(uint64_t address) const {
  return std::binary_search(entries.begin(), entries.end(), address);
}

Result<Code> read_code(const Image& image, const Object& object, const Function& function,
                       const Memory& memory) {
  if (object.is_shared)
    return Error{
        fmt::format("the process shares the code of {} with its file (MAP_SHARED): a change of it would be "
                    "one of the file",
                    object.name)};
  FunctionCode code(image, object, function, memory);
  add_known_ranges(code);
  if (code.ranges.empty())
    return Error{
        fmt::format("the code of {} at {:#x} (size {}) in {} cannot be read: its size is not known, it may "
                    "be executed but "
                    "not read, or the object was unloaded",
                    function.name, function.address, function.size, object.name)};
  Found found = complete_ranges(code);
  if (is_restartable(code))
    return Error{"it holds a restartable sequence (rseq), whose instructions must stay where they are"};
  if (uint64_t address = find_breakpoint(code))
    return Error{fmt::format(
        "its code has a breakpoint at {:#x}, of a debugger or a uprobe (bpftrace, perf): take that "
        "out first",
        address)};
  Code made = summarize(code, found);
  if (code.watched)
    return Error{
        fmt::format("other code, at {:#x}, takes the address {:#x} in the midst of it: perhaps to see "
                    "whether a signal has come there, "
                    "and its instructions must stay where they are",
                    code.watched->source, code.watched->target)};
  made.catches_faults = std::ranges::any_of(image.objects, &Object::catches_faults);
  return made;
}

}  // namespace mdl::image
