#include "runtime/image/function_code.h"

#include <fmt/format.h>

#include <algorithm>

namespace mdl::image {
namespace {

constexpr uint64_t kMaxFunction = 16 << 20;  // node's largest is below 1 MiB

constexpr Registers kStackRegister = 1u << 4;  // rsp

// The opcode behind prefixes, and where it stands. Intel SDM volume 2, section 2.1.1: 66 operand size; 2.2.1:
// 40 to 4f REX.
size_t opcode_at(const InstructionBytes& bytes) {
  size_t at = 0;
  while (at + 1 < bytes.size() && (bytes[at] == 0x66 || (bytes[at] & 0xf0) == 0x40)) ++at;
  return at;
}

// push of a register (50 to 57), an immediate (68, 6a) or memory (ff /6): SDM volume 2, PUSH.
bool is_push(const InstructionBytes& bytes) {
  const size_t at = opcode_at(bytes);
  const uint8_t opcode = bytes[at];
  if ((opcode & 0xf8) == 0x50 || opcode == 0x68 || opcode == 0x6a) return true;
  return opcode == 0xff && at + 1 < bytes.size() && ((bytes[at + 1] >> 3) & 7) == 6;
}

// mov of a register or an immediate to (%rsp): 89 or c7 with ModRM mod 0, rm 4 and SIB 24 (SDM volume 2, MOV,
// table 2-3).
bool stores_to_top(const InstructionBytes& bytes) {
  const size_t at = opcode_at(bytes);
  return at + 2 < bytes.size() && (bytes[at] == 0x89 || bytes[at] == 0xc7) &&
         (bytes[at + 1] & 0xc7) == 0x04 && bytes[at + 2] == 0x24;
}

}  // namespace

bool FunctionCode::add_range(Range range) {
  for (const Range& known : ranges) {
    if (known.start <= range.start && range.start < known.end) range.start = known.end;
    if (range.start < known.start && known.start < range.end) range.end = known.start;
  }
  if (range.start >= range.end) return true;
  if (range.end - range.start > kMaxFunction) return false;
  std::vector<std::byte> bytes(range.end - range.start);
  if (!memory.read(range.start, bytes)) return false;
  std::vector<Decoded> found;
  for (size_t at = 0; at < bytes.size();) {
    Decoded one;
    if (!x86_64::decode_instruction(std::span(bytes).subspan(at), range.start + at, one.instruction,
                                    one.detail)) {
      complete = false;
      set_doubt(fmt::format("its bytes at {:#x} are not an instruction: data, or code of another kind",
                            range.start + at));
      break;
    }
    at += one.instruction.size;
    found.push_back(std::move(one));
  }
  auto place = std::lower_bound(
      decoded.begin(), decoded.end(), range.start,
      [](const Decoded& one, uint64_t address) { return one.instruction.address < address; });
  decoded.insert(place, std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  ranges.push_back(range);
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  return true;
}

bool FunctionCode::contains(uint64_t address) const {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return range.contains(address); });
}

const std::vector<uint64_t>& FunctionCode::direct_targets() const {
  if (targets_of_ == decoded.size()) return direct_targets_;
  direct_targets_.clear();
  for (const Decoded& one : decoded)
    if (one.instruction.flow == Flow::jump || one.instruction.flow == Flow::branch)
      direct_targets_.push_back(one.instruction.target);
  std::sort(direct_targets_.begin(), direct_targets_.end());
  targets_of_ = decoded.size();
  return direct_targets_;
}

const Decoded* FunctionCode::covering(uint64_t address) const {
  auto after =
      std::upper_bound(decoded.begin(), decoded.end(), address,
                       [](uint64_t value, const Decoded& one) { return value < one.instruction.address; });
  if (after == decoded.begin()) return nullptr;
  const Decoded& one = *--after;
  return address < one.end() ? &one : nullptr;
}

const Decoded* FunctionCode::at(uint64_t address) const {
  const Decoded* one = covering(address);
  return one && one->instruction.address == address ? one : nullptr;
}

bool FunctionCode::frame_is_open(uint64_t pc) const {
  return object.frame_table && image::frame_is_open(*object.frame_table, pc);
}

bool FunctionCode::frame_is_closed(uint64_t pc) const {
  return object.frame_table && image::frame_is_closed(*object.frame_table, pc);
}

const Function* function_starting_at(const Object& object, uint64_t address) {
  auto found =
      std::lower_bound(object.functions.begin(), object.functions.end(), address,
                       [](const Function& function, uint64_t value) { return function.address < value; });
  return found != object.functions.end() && found->address == address && !found->unnamed ? &*found : nullptr;
}

bool goes_to_pushed_address(const FunctionCode& code, size_t index) {
  for (; index > 0; --index) {
    const Decoded& before = code.decoded[index - 1];
    const Instruction& one = before.instruction;
    if (before.end() != code.decoded[index].instruction.address || one.flow != Flow::next ||
        one.bytes.empty())
      return false;
    if (is_push(one.bytes) || stores_to_top(one.bytes)) return true;
    if (one.touches & kStackRegister) return false;
  }
  return false;
}

}  // namespace mdl::image
