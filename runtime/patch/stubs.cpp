#include "runtime/patch/stubs.h"

#include <algorithm>

#include "runtime/arch/description.h"
#include "runtime/patch/island.h"

namespace mdl::patch {
namespace {

using arch::kPage;
constexpr uint64_t kStubAlign = 16;

// Up to where an instruction may begin.
uint64_t next_place(uint64_t address) {
  const uint64_t step = arch::kMachine.alignment;
  return (address + step - 1) / step * step;
}

// The mappings as they would be if nothing were mapped in these ranges.
std::vector<image::Mapping> without(std::span<const image::Mapping> mappings,
                                    std::span<const image::Range> ranges) {
  std::vector<image::Mapping> out;
  for (image::Mapping rest : mappings) {
    for (const image::Range& range : ranges) {  // by address
      if (range.end <= rest.start || range.start >= rest.end) continue;
      if (range.start > rest.start) {
        out.push_back(rest);
        out.back().end = range.start;
      }
      rest.start = std::min(range.end, rest.end);
    }
    if (rest.start < rest.end) out.push_back(std::move(rest));
  }
  return out;
}

// Ranges that meet or touch become one.
std::vector<image::Range> joined(std::vector<image::Range> ranges) {
  std::ranges::sort(ranges, {}, &image::Range::start);
  std::vector<image::Range> out;
  for (const image::Range& range : ranges)
    if (!out.empty() && range.start <= out.back().end)
      out.back().end = std::max(out.back().end, range.end);
    else
      out.push_back(range);
  return out;
}

}  // namespace

StubSpace::StubSpace(std::span<const image::Mapping> mappings, std::span<const image::Range> kept) {
  const std::vector<image::Range> ranges = joined({kept.begin(), kept.end()});
  gaps_ = free_gaps(without(mappings, ranges));
  gaps_.insert(gaps_.end(), ranges.begin(), ranges.end());
  gaps_ = joined(std::move(gaps_));
  for (const image::Range& range : ranges)
    for (uint64_t page = range.start / kPage; page < range.end / kPage; page++) kept_.insert(page);
}

std::set<uint64_t> StubSpace::pages_of(uint64_t stub) const {
  return {stub / kPage, (stub + arch::kMachine.far_jump_size - 1) / kPage};
}

bool StubSpace::fits(uint64_t at) const {
  const uint64_t end = at + arch::kMachine.far_jump_size;
  auto after = std::upper_bound(gaps_.begin(), gaps_.end(), at,
                                [](uint64_t a, const image::Range& gap) { return a < gap.start; });
  if (after == gaps_.begin() || end > std::prev(after)->end) return false;
  auto next = stubs_.lower_bound(at);
  if (next != stubs_.end() && next->first < end) return false;
  if (next != stubs_.begin() && std::prev(next)->second > at) return false;
  size_t more = 0;
  for (uint64_t page : pages_of(at)) more += pages_.contains(page) ? 0 : 1;
  return pages_.size() + more <= kMostStubPages;
}

std::optional<uint64_t> StubSpace::in_page(uint64_t page, const image::Range& where) const {
  const uint64_t first = std::max(where.start, page * kPage);
  const uint64_t last = std::min(where.end, (page + 1) * kPage - arch::kMachine.far_jump_size + 1);
  for (uint64_t at = (first + kStubAlign - 1) & ~(kStubAlign - 1); at < last; at += kStubAlign)
    if (fits(at)) return at;
  return std::nullopt;
}

// In the pages that are taken already, or else in those that are there.
std::optional<uint64_t> StubSpace::in_pages(const image::Range& where) const {
  for (auto page = pages_.lower_bound(where.start / kPage);
       page != pages_.end() && page->first * kPage < where.end; ++page)
    if (auto at = in_page(page->first, where)) return at;
  for (auto page = kept_.lower_bound(where.start / kPage); page != kept_.end() && *page * kPage < where.end;
       ++page)
    if (auto at = in_page(*page, where)) return at;
  return std::nullopt;
}

std::optional<uint64_t> StubSpace::in_gaps(const image::Range& where) const {
  for (const image::Range& gap : gaps_) {
    const uint64_t first = std::max(where.start, gap.start), last = std::min(where.end, gap.end);
    // Beyond a page, one place in a gap is as good as the other.
    for (uint64_t at = next_place(first); at < std::min(last, first + kPage); at += arch::kMachine.alignment)
      if (fits(at)) return at;
  }
  return std::nullopt;
}

std::optional<uint64_t> StubSpace::take(const image::Range& where) {
  auto at = in_pages(where);
  if (!at) at = in_gaps(where);
  if (!at) return std::nullopt;
  stubs_[*at] = *at + arch::kMachine.far_jump_size;
  for (uint64_t page : pages_of(*at)) pages_[page]++;
  return at;
}

void StubSpace::release(uint64_t stub) {
  if (!stubs_.erase(stub)) return;
  for (uint64_t page : pages_of(stub))
    if (--pages_[page] == 0) pages_.erase(page);
}

std::vector<image::Range> StubSpace::regions(bool kept) const {
  std::vector<image::Range> out;
  for (const auto& [page, stubs] : pages_)
    if (kept_.contains(page) == kept) out.push_back({page * kPage, (page + 1) * kPage});
  return joined(std::move(out));
}

std::vector<image::Range> StubSpace::regions() const {
  return regions(false);
}

std::vector<image::Range> StubSpace::kept_regions() const {
  return regions(true);
}

}  // namespace mdl::patch
