#include "runtime/audit/listing.h"

#include <algorithm>

#include "runtime/image/frames.h"

namespace mdl::audit {
namespace {

constexpr uint64_t kMostBytes = 16 << 20;  // of one piece

// The last of what is sorted by its beginning that begins at or before an address; null when there is none.
template <typename List, typename Start>
auto last_before(const List& list, uint64_t address, Start start) -> decltype(&*list.begin()) {
  auto after = std::upper_bound(list.begin(), list.end(), address,
                                [&](uint64_t value, const auto& one) { return value < start(one); });
  return after == list.begin() ? nullptr : &*std::prev(after);
}

// Of two pieces that begin at or before an address, the nearer one, or when both begin there the longer one:
// call frame information of hand-written code may end in the middle of it.
void take_nearer(std::optional<image::Range>& best, const image::Range& other) {
  if (!best || other.start > best->start || (other.start == best->start && other.end > best->end))
    best = other;
}

std::optional<image::Range> nearest(const image::Object& object, uint64_t address) {
  std::optional<image::Range> best;
  if (object.frame_table)
    if (const auto* frame = last_before(object.frame_table->entries(), address,
                                        [](const image::Fde& one) { return one.start; }))
      take_nearer(best, {frame->start, frame->end});
  if (const auto* function =
          last_before(object.functions, address, [](const image::Function& one) { return one.address; }))
    take_nearer(best, {function->address, function->address + function->size});
  if (const auto* part =
          last_before(object.parts, address, [](const image::Part& one) { return one.range.start; }))
    take_nearer(best, part->range);
  return best;
}

// The nearest beginning of a piece behind an address.
std::optional<uint64_t> next_beginning(const image::Object& object, uint64_t address) {
  std::optional<uint64_t> best;
  const auto take = [&](const auto& list, auto start) {
    auto after = std::upper_bound(list.begin(), list.end(), address,
                                  [&](uint64_t value, const auto& one) { return value < start(one); });
    if (after != list.end()) best = std::min(best.value_or(UINT64_MAX), start(*after));
  };
  if (object.frame_table)
    take(object.frame_table->entries(), [](const image::Fde& one) { return one.start; });
  take(object.functions, [](const image::Function& one) { return one.address; });
  take(object.parts, [](const image::Part& one) { return one.range.start; });
  return best;
}

}  // namespace

std::optional<image::Range> piece_around(const image::Object& object, uint64_t address) {
  auto piece = nearest(object, address);
  if (!piece || !piece->contains(address)) return std::nullopt;
  return piece;
}

std::optional<image::Range> piece_before(const image::Object& object, uint64_t address) {
  return address == 0 ? std::nullopt : nearest(object, address - 1);
}

image::Range piece_or_gap(const image::Object& object, uint64_t address) {
  if (const auto piece = piece_around(object, address)) return *piece;
  image::Range gap{address, address + 1};
  for (const image::Range& text : object.text)
    if (text.contains(address)) gap = text;
  if (const auto before = piece_before(object, address)) gap.start = std::max(gap.start, before->end);
  if (const auto next = next_beginning(object, address)) gap.end = std::min(gap.end, *next);
  return gap;
}

std::vector<Instruction> list_instructions(const image::Range& piece, const image::Memory& memory) {
  std::vector<Instruction> out;
  std::vector<std::byte> bytes(std::min(piece.end - piece.start, kMostBytes));
  if (!memory.read(piece.start, bytes)) return out;
  out.reserve(bytes.size() / 4);
  for (size_t at = 0; at < bytes.size();) {
    const auto in = decode(std::span(bytes).subspan(at), piece.start + at);
    if (in) out.push_back(*in);
    at += in ? in->size : 1;
  }
  return out;
}

}  // namespace mdl::audit
