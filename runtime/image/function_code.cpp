#include "runtime/image/function_code.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/arch/decoder.h"
#include "runtime/arch/description.h"

namespace mdl::image {
namespace {

constexpr uint64_t kMaxFunction = 16 << 20;  // node's largest is below 1 MiB
constexpr size_t kKept = 1 << 14;            // instructions that are asked for at once
constexpr size_t kUsualSize = 4;             // bytes of an instruction, a little less than most code has

}  // namespace

bool FunctionCode::add_range(Range range) {
  for (const Range& known : ranges) {
    if (known.start <= range.start && range.start < known.end) range.start = known.end;
    if (range.start < known.start && known.start < range.end) range.end = known.start;
  }
  if (range.start >= range.end) return true;
  if (range.end - range.start > kMaxFunction) return false;
  std::vector<std::byte> bytes(range.end - range.start);
  if (!object.budget->spend(bytes.size()) || !memory.read(range.start, bytes)) return false;
  std::vector<Decoded> found;
  found.reserve(bytes.size() / kUsualSize);
  for (size_t at = 0; at < bytes.size();) {
    Decoded one;
    if (!arch::decode_instruction(std::span(bytes).subspan(at), range.start + at, one.instruction,
                                  one.detail)) {
      complete = false;
      set_doubt(fmt::format("its bytes at {:#x} are not an instruction: data, or code of another kind",
                            range.start + at));
      break;
    }
    at += one.instruction.size;
    found.push_back(std::move(one));
    if (found.size() % kKept == 0 && !object.budget->keep(kKept)) return false;
  }
  if (!object.budget->keep(found.size() % kKept) || !spend(decoded.size() / kPerStep)) return false;
  auto place = std::lower_bound(
      decoded.begin(), decoded.end(), range.start,
      [](const Decoded& one, uint64_t address) { return one.instruction.address < address; });
  if (decoded.empty())
    decoded = std::move(found);
  else
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
  return object.frame_table && image::frame_is_open(*object.frame_table, pc, *object.budget);
}

bool FunctionCode::frame_is_closed(uint64_t pc) const {
  return object.frame_table && image::frame_is_closed(*object.frame_table, pc, *object.budget);
}

const Function* any_function_starting_at(const Object& object, uint64_t address) {
  auto found =
      std::lower_bound(object.functions.begin(), object.functions.end(), address,
                       [](const Function& function, uint64_t value) { return function.address < value; });
  return found != object.functions.end() && found->address == address ? &*found : nullptr;
}

const Function* function_starting_at(const Object& object, uint64_t address) {
  const Function* found = any_function_starting_at(object, address);
  return found && !found->unnamed ? found : nullptr;
}

bool goes_to_pushed_address(const FunctionCode& code, size_t index) {
  for (; index > 0; --index) {
    const Decoded& before = code.decoded[index - 1];
    const Instruction& one = before.instruction;
    if (before.end() != code.decoded[index].instruction.address || one.flow != Flow::next ||
        one.bytes.empty())
      return false;
    if (arch::stores_on_top(one)) return true;
    if (one.touches & register_bit(arch::kMachine.stack_pointer)) return false;
  }
  return false;
}

}  // namespace mdl::image
