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

}  // namespace

StubSpace::StubSpace(std::span<const image::Mapping> mappings) : gaps_(free_gaps(mappings)) {}

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

// In the pages that are taken already.
std::optional<uint64_t> StubSpace::in_pages(const image::Range& where) const {
  for (auto page = pages_.lower_bound(where.start / kPage);
       page != pages_.end() && page->first * kPage < where.end; ++page) {
    const uint64_t first = std::max(where.start, page->first * kPage);
    const uint64_t last = std::min(where.end, (page->first + 1) * kPage - arch::kMachine.far_jump_size + 1);
    for (uint64_t at = (first + kStubAlign - 1) & ~(kStubAlign - 1); at < last; at += kStubAlign)
      if (fits(at)) return at;
  }
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

std::vector<image::Range> StubSpace::regions() const {
  std::vector<image::Range> out;
  for (const auto& [page, stubs] : pages_)
    if (!out.empty() && out.back().end == page * kPage)
      out.back().end += kPage;
    else
      out.push_back({page * kPage, (page + 1) * kPage});
  return out;
}

}  // namespace mdl::patch
