// Address space for the stubs of punned jumps.
//
// A punned jump leads where the bytes behind it say: to one address, or to one of 256, of 64 Ki or of 16 Mi.
// There a stub of a few bytes jumps on to the trampoline. Stubs share pages where they can; pages are taken
// where nothing is mapped, away from stacks and from where the heap grows, and only so many of them.
//
// A session whose code is replaced (change.h) holds pages with stubs already. For many of its punned jumps they
// are the only places, so the next code has its stubs in the same pages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "runtime/image/image.h"

namespace mdl::patch {

inline constexpr size_t kMostStubPages = 256;

class StubSpace {
 public:
  // `kept`: whole pages among the mappings that hold stubs now, and may hold others.
  explicit StubSpace(std::span<const image::Mapping> mappings, std::span<const image::Range> kept = {});

  // Room for a stub that begins in `where`.
  std::optional<uint64_t> take(const image::Range& where);
  void release(uint64_t stub);
  // All pages with stubs, by address, those side by side as one: that are to be mapped, and of those that were
  // kept.
  std::vector<image::Range> regions() const;
  std::vector<image::Range> kept_regions() const;

 private:
  bool fits(uint64_t at) const;
  std::optional<uint64_t> in_page(uint64_t page, const image::Range& where) const;
  std::optional<uint64_t> in_pages(const image::Range& where) const;
  std::optional<uint64_t> in_gaps(const image::Range& where) const;
  std::set<uint64_t> pages_of(uint64_t stub) const;
  std::vector<image::Range> regions(bool kept) const;

  std::vector<image::Range> gaps_;      // of whole pages
  std::set<uint64_t> kept_;             // pages
  std::map<uint64_t, size_t> pages_;    // how many stubs lie in each, also in part
  std::map<uint64_t, uint64_t> stubs_;  // begin and end
};

}  // namespace mdl::patch
