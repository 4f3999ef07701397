#include "runtime/image/incoming_jumps.h"

#include <algorithm>

#include "runtime/arch/code_search.h"
#include "runtime/arch/description.h"
#include "runtime/image/code.h"
#include "runtime/image/frames.h"

namespace mdl::image {
namespace {

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
  const uint64_t reach = arch::kMachine.short_reach;
  uint64_t start = end - std::min(end, reach);
  for (uint64_t back : {uint64_t{1}, uint64_t{16}, reach}) {
    if (back > end) break;
    const Fde* entry = object.frame_table ? object.frame_table->find(end - back) : nullptr;
    const Function* function = function_at(object, end - back);
    if (entry) start = std::min(start, entry->start);
    if (function) start = std::min(start, function->address);
  }
  return std::max(start, end - std::min(end, kMaxNeighbour));
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

FarJumps::Texts FarJumps::texts_of(const Object& object, const Memory& memory) {
  constexpr uint64_t kLarge = 8 << 20;  // bytes
  const std::lock_guard lock(reading_);
  if (texts_) return texts_;
  uint64_t size = 0;
  std::vector<Text> texts;
  for (const Range& range : object.text) {
    Text text{range, std::vector<std::byte>(range.end - range.start)};
    size += text.bytes.size();
    if (memory.read(range.start, text.bytes)) texts.push_back(std::move(text));
  }
  Texts out = std::make_shared<const std::vector<Text>>(std::move(texts));
  if (size < kLarge) texts_ = out;
  return out;
}

// The far ones that lead into `within`, and to what is meant there, sorted.
std::vector<IncomingJump> FarJumps::find(const Object& object, const Texts& texts, const Range& within,
                                         llvm::function_ref<bool(uint64_t)> is_meant) {
  std::vector<IncomingJump> jumps;
  for (const Text& text : *texts) {
    CurrentFrame frame(object.frames);
    arch::find_far_branches(text.bytes, text.range.start, within, [&](const arch::FarBranch& one) {
      if (!is_meant(one.target) || !in_text(object, one.target)) return;
      const Range* source = frame.at(one.source);
      if (source && source->contains(one.target)) return;
      const bool is_function = starts_frame(object.frames, one.target);
      if (one.is_formed && is_function) return;  // functions' addresses are many, too
      jumps.push_back({one.target, one.is_call && is_function ? 0 : one.source, one.is_formed});
    });
  }
  std::sort(jumps.begin(), jumps.end());
  jumps.erase(std::unique(jumps.begin(), jumps.end()), jumps.end());
  return jumps;
}

void FarJumps::expect(std::vector<Range> ranges) {
  if (!expected_.empty()) return;
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  for (const Range& one : ranges)
    if (!expected_.empty() && one.start <= expected_.back().end)
      expected_.back().end = std::max(expected_.back().end, one.end);
    else
      expected_.push_back(one);
}

const Range* FarJumps::expected(uint64_t address) const {
  const auto after = std::upper_bound(expected_.begin(), expected_.end(), address,
                                      [](uint64_t value, const Range& one) { return value < one.start; });
  return after != expected_.begin() && std::prev(after)->contains(address) ? &*std::prev(after) : nullptr;
}

namespace {

// Of these, which are sorted.
std::vector<IncomingJump> part_within(const std::vector<IncomingJump>& jumps, const Range& range) {
  return {std::lower_bound(jumps.begin(), jumps.end(), IncomingJump{range.start, 0}),
          std::lower_bound(jumps.begin(), jumps.end(), IncomingJump{range.end, 0})};
}

}  // namespace

std::vector<IncomingJump> FarJumps::within(const Object& object, const Range& range, const Memory& memory) {
  constexpr unsigned kFew = 8;  // to list them all takes as long
  constexpr auto kAny = [](uint64_t) { return true; };
  if (const Range* whole = expected(range.start); whole && range.end <= whole->end) {
    std::call_once(found_, [&] {
      into_expected_ = find(object, texts_of(object, memory), {expected_.front().start, expected_.back().end},
                            [this](uint64_t target) { return expected(target) != nullptr; });
    });
    return part_within(into_expected_, range);
  }
  if (asked_.fetch_add(1, std::memory_order_relaxed) < kFew)
    return find(object, texts_of(object, memory), range, kAny);
  std::call_once(listed_, [&] {
    Range all{UINT64_MAX, 0};
    for (const Range& text : object.text)
      all = {std::min(all.start, text.start), std::max(all.end, text.end)};
    jumps_ = find(object, texts_of(object, memory), all, kAny);
    const std::lock_guard lock(reading_);
    texts_.reset();
  });
  return part_within(jumps_, range);
}

std::vector<IncomingJump> near_jumps_into(const Object& object, const Range& range, const Memory& memory) {
  std::vector<IncomingJump> jumps = near_jumps_within(object, range, memory);
  std::erase_if(jumps, [&](const IncomingJump& jump) { return jump.target == range.start; });
  return jumps;
}

std::vector<IncomingJump> near_jumps_within(const Object& object, const Range& range, const Memory& memory) {
  std::vector<IncomingJump> jumps;
  const uint64_t reach = arch::kMachine.short_reach;
  if (reach == 0) return jumps;
  std::vector<std::byte> bytes(std::min(range.start, reach));
  uint64_t before = range.start - bytes.size();
  if (memory.read(before, bytes) && arch::may_branch_into(bytes, before, range)) {
    before = start_of_neighbour(object, range.start);
    bytes.resize(range.start - before);
    if (object.budget->spend(bytes.size()) && memory.read(before, bytes))
      add_short_jumps(bytes, before, range, jumps);
  }
  bytes.resize(reach + InstructionBytes::kMost);
  while (!bytes.empty() && !memory.read(range.end, bytes)) bytes.resize(bytes.size() / 2);
  if (arch::may_branch_into(bytes, range.end, range)) add_short_jumps(bytes, range.end, range, jumps);
  return jumps;
}

}  // namespace mdl::image
