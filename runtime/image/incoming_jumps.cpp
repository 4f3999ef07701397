#include "runtime/image/incoming_jumps.h"

#include <algorithm>
#include <cstring>

#include "runtime/image/code.h"
#include "runtime/image/frames.h"

namespace mdl::image {
namespace {

constexpr uint64_t kReach = 130;             // of a short jump, with its own two bytes
constexpr uint64_t kMaxNeighbour = 1 << 16;  // a longer one is decoded from this far before its end

// Walks ranges in order of address beside a scan that goes upwards.
class CurrentFrame {
 public:
  explicit CurrentFrame(const std::vector<Range>& frames) : frames_(frames) {}
  const Range* at(uint64_t address) {
    while (next_ < frames_.size() && frames_[next_].end <= address) ++next_;
    return next_ < frames_.size() && frames_[next_].start <= address ? &frames_[next_] : nullptr;
  }

 private:
  const std::vector<Range>& frames_;
  size_t next_ = 0;
};

bool starts_frame(const std::vector<Range>& frames, uint64_t address) {
  auto found = std::lower_bound(frames.begin(), frames.end(), address,
                                [](const Range& one, uint64_t value) { return one.start < value; });
  return found != frames.end() && found->start == address;
}

bool in_text(const Object& object, uint64_t address) {
  return std::any_of(object.text.begin(), object.text.end(),
                     [&](const Range& range) { return range.contains(address); });
}

// Where the code that ends at `end` (padding aside) starts: the frame or function that covers
// the bytes before it.
uint64_t start_of_neighbour(const Object& object, uint64_t end) {
  uint64_t start = end - std::min(end, kReach);
  for (uint64_t back : {uint64_t{1}, uint64_t{16}, kReach}) {
    if (back > end) break;
    const Fde* entry = object.frame_table ? object.frame_table->find(end - back) : nullptr;
    const Function* function = function_at(object, end - back);
    if (entry) start = std::min(start, entry->start);
    if (function) start = std::min(start, function->address);
  }
  return std::max(start, end - std::min(end, kMaxNeighbour));
}

// True when two bytes among `bytes` could be a short jump into the range. Most neighbours have
// none, and need not be decoded.
bool may_jump_into(std::span<const std::byte> bytes, uint64_t start, const Range& into) {
  for (size_t i = 0; i + 2 <= bytes.size(); ++i) {
    // jcc rel8 is 70..7f, loop and jrcxz e0..e3, jmp rel8 eb (SDM volume 2).
    auto opcode = static_cast<unsigned>(bytes[i]);
    if ((opcode & 0xf0) != 0x70 && (opcode & 0xfc) != 0xe0 && opcode != 0xeb) continue;
    uint64_t target = start + i + 2 + static_cast<uint64_t>(int64_t{static_cast<int8_t>(bytes[i + 1])});
    if (into.contains(target)) return true;
  }
  return false;
}

void add_short_jumps(std::span<const std::byte> bytes, uint64_t start, const Range& into,
                     std::vector<IncomingJump>& jumps) {
  std::span<const std::byte> rest = bytes;
  while (!rest.empty()) {
    uint64_t address = start + (bytes.size() - rest.size());
    size_t decoded = 0;
    for (const Instruction& one : decode(rest, address)) {
      decoded += one.size;
      if (one.short_form && into.contains(one.target)) jumps.push_back({one.target, one.address});
    }
    rest = rest.subspan(std::min(rest.size(), decoded + 1));  // past what is no instruction
  }
}

}  // namespace

void FarJumps::scan(const Object& object, const Memory& memory) {
  for (const Range& text : object.text) {
    std::vector<std::byte> bytes(text.end - text.start);
    if (!memory.read(text.start, bytes)) continue;
    CurrentFrame frame(object.frames);
    for (size_t i = 0; i + 6 <= bytes.size(); ++i) {
      // call rel32 is e8, jmp rel32 is e9, jcc rel32 is 0f 80..8f (SDM volume 2, CALL, Jcc and JMP).
      bool is_call = bytes[i] == std::byte{0xe8};
      bool is_jump = bytes[i] == std::byte{0xe9};
      bool is_branch = bytes[i] == std::byte{0x0f} && (bytes[i + 1] & std::byte{0xf0}) == std::byte{0x80};
      if (!is_call && !is_jump && !is_branch) continue;
      size_t size = is_branch ? 6 : 5;
      int32_t displacement;
      std::memcpy(&displacement, bytes.data() + i + size - 4, 4);
      uint64_t target = text.start + i + size + static_cast<uint64_t>(int64_t{displacement});
      if (!in_text(object, target)) continue;
      const Range* source = frame.at(text.start + i);
      if (source && source->contains(target)) continue;
      const bool is_usual = is_call && starts_frame(object.frames, target);
      jumps_.push_back({target, is_usual ? 0 : text.start + i});
    }
  }
  std::sort(jumps_.begin(), jumps_.end());
  jumps_.erase(std::unique(jumps_.begin(), jumps_.end()), jumps_.end());
}

std::span<const IncomingJump> FarJumps::within(const Object& object, const Range& range,
                                               const Memory& memory) {
  std::call_once(scanned_, [&] { scan(object, memory); });
  return {std::lower_bound(jumps_.begin(), jumps_.end(), IncomingJump{range.start, 0}),
          std::lower_bound(jumps_.begin(), jumps_.end(), IncomingJump{range.end, 0})};
}

std::vector<IncomingJump> near_jumps_into(const Object& object, const Range& range, const Memory& memory) {
  std::vector<IncomingJump> jumps = near_jumps_within(object, range, memory);
  std::erase_if(jumps, [&](const IncomingJump& jump) { return jump.target == range.start; });
  return jumps;
}

std::vector<IncomingJump> near_jumps_within(const Object& object, const Range& range, const Memory& memory) {
  std::vector<IncomingJump> jumps;
  std::vector<std::byte> bytes(std::min(range.start, kReach));
  uint64_t before = range.start - bytes.size();
  if (memory.read(before, bytes) && may_jump_into(bytes, before, range)) {
    before = start_of_neighbour(object, range.start);
    bytes.resize(range.start - before);
    if (memory.read(before, bytes)) add_short_jumps(bytes, before, range, jumps);
  }
  bytes.resize(kReach + 15);
  while (!bytes.empty() && !memory.read(range.end, bytes)) bytes.resize(bytes.size() / 2);
  if (may_jump_into(bytes, range.end, range)) add_short_jumps(bytes, range.end, range, jumps);
  return jumps;
}

}  // namespace mdl::image
