#include "runtime/audit/listing.h"

#include <algorithm>
#include <array>

#include "base/in_parallel.h"
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

// Takes the nearer of two pieces that begin at or before an address, or when both begin there the longer one:
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

Listing::Listing(const image::Range& piece, const image::Memory& memory)
    : piece_(piece), memory_(memory), end_(piece.start) {
  std::vector<std::byte> bytes(std::min(piece.end - piece.start, kMostBytes));
  if (!memory.read(piece.start, bytes)) return;
  sizes_.reserve(bytes.size() / 4);
  for (size_t at = 0; at < bytes.size();) {
    if (sizes_.size() % kStep == 0) addresses_.push_back(piece.start + at);
    sizes_.push_back(size_of_instruction(std::span(bytes).subspan(at)));
    at += std::max<size_t>(sizes_.back(), 1);
    end_ = piece.start + at;
  }
}

// The place of the instruction, or byte that is none, which covers an address in the listing.
Listing::Place Listing::place_of(uint64_t address) const {
  const auto step = std::prev(std::ranges::upper_bound(addresses_, address)) - addresses_.begin();
  Place place{static_cast<size_t>(step) * kStep, addresses_[static_cast<size_t>(step)]};
  while (place.address + std::max<uint64_t>(sizes_[place.index], 1) <= address)
    place.address += std::max<uint64_t>(sizes_[place.index++], 1);
  return place;
}

std::optional<Instruction> Listing::covering(uint64_t address) const {
  if (address < piece_.start || address >= end_) return std::nullopt;
  const Place place = place_of(address);
  std::array<std::byte, Instruction{}.bytes.size()> bytes{};
  const auto code = std::span(bytes).first(sizes_[place.index]);
  return !code.empty() && memory_.read(place.address, code) ? decode(code, place.address) : std::nullopt;
}

std::vector<Instruction> Listing::between(uint64_t first, uint64_t end) const {
  std::vector<Instruction> out;
  for (uint64_t at = first; at < end; at = out.back().end()) {
    const auto in = covering(at);
    if (!in) break;
    out.push_back(*in);
  }
  return out;
}

std::vector<Instruction> Listing::before(uint64_t address) const {
  std::vector<Instruction> out;
  for (uint64_t at = address; at > piece_.start; at = out.back().address) {
    const auto in = covering(at - 1);
    if (!in || in->end() != at) break;
    out.push_back(*in);
    if (!in->is_padding) break;
  }
  return out;
}

void Listings::prepare(std::span<const uint64_t> addresses) {
  std::map<uint64_t, image::Range> wanted;
  for (const uint64_t address : addresses) {
    const image::Range piece = piece_or_gap(object_, address);
    if (!known_.contains(piece.start)) wanted.emplace(piece.start, piece);
  }
  std::vector<std::pair<image::Range, std::optional<Listing>>> made;
  for (const auto& [start, piece] : wanted) made.push_back({piece, std::nullopt});
  constexpr size_t kBatch = 8;
  in_parallel(made.size(), kBatch, [&](size_t i) { made[i].second.emplace(made[i].first, memory_); });
  for (auto& [piece, listing] : made) known_.try_emplace(piece.start, std::move(*listing));
}

const Listing& Listings::of(const image::Range& piece) {
  return known_.try_emplace(piece.start, piece, memory_).first->second;
}

}  // namespace mdl::audit
