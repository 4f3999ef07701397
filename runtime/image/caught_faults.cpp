#include "runtime/image/caught_faults.h"

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/arch/decoder.h"
#include "runtime/image/landing_pads.h"

namespace mdl::image {
namespace {

constexpr uint64_t kMostOfPlace = 256;  // bytes: those without a call are shorter, for the most part

bool is_call(const Instruction& one) {
  return one.flow == Flow::call || one.flow == Flow::call_indirect || one.flow == Flow::system_call;
}

// It has an instruction that may fault, and no call.
bool is_fault_caught(const Range& place, const Memory& memory) {
  if (place.end <= place.start || place.end - place.start > kMostOfPlace) return false;
  std::array<std::byte, kMostOfPlace> room;
  const auto bytes = std::span(room).first(place.end - place.start);
  if (!memory.read(place.start, bytes)) return false;
  if (arch::begins_with_call(bytes)) return false;  // nearly all
  Instruction one;
  Detail detail;
  bool any = false;
  for (size_t at = 0; at < bytes.size(); at += one.size) {
    if (!arch::decode_instruction(bytes.subspan(at), place.start + at, one, detail)) return false;
    if (is_call(one)) return false;
    any |= arch::may_fault(one, detail);
  }
  return any;
}

}  // namespace

bool catches_faults(const FrameTable& frames, const Memory& memory, const Budget& budget) {
  std::vector<LandingPad> pads;
  return std::ranges::any_of(frames.entries(), [&](const Fde& frame) {
    pads.clear();
    read_landing_pads(frames, frame, memory, pads, budget);
    return std::ranges::any_of(pads,
                               [&](const LandingPad& pad) { return is_fault_caught(pad.calls, memory); });
  });
}

}  // namespace mdl::image
