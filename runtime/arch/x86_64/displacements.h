// Displacements of 32 bits in code, wherever they may stand: each is relative to what follows it.
#pragma once

#include <emmintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "runtime/image/image.h"

namespace mdl::arch {

// Where a displacement at the end of an instruction leads. `bytes` lie at `start`.
inline uint64_t target_of(const uint8_t* bytes, size_t at, uint64_t start) {
  int32_t word;
  std::memcpy(&word, bytes + at, sizeof word);
  return start + at + 4 + static_cast<uint64_t>(int64_t{word});
}

// Calls `found(at, target)` for each place in `bytes` but the first whose four bytes would lead into `within`, in
// ascending order. Few numbers are such a distance, so sixteen places are looked at together, by the lower half of where
// they lead (SSE2, which each x86-64 has).
template <typename Found>
void find_displacements(std::span<const std::byte> bytes, uint64_t start, const image::Range& within,
                        Found found) {
  constexpr size_t kTogether = 16, kReads = kTogether + 3;
  const auto* raw = reinterpret_cast<const uint8_t*>(bytes.data());
  const uint64_t size = within.end - within.start;
  const auto look_at = [&](size_t at) {
    const uint64_t target = target_of(raw, at, start);
    if (target - within.start < size) found(at, target);
  };
  size_t at = 1;
  if (size <= UINT32_MAX) {
    // There is no comparison of unsigned numbers: 2^31 is added to both. Lane i of the k-th is about place 4 * i + k.
    constexpr uint32_t kHalf = uint32_t{1} << 31;
    const __m128i bound = _mm_set1_epi32(static_cast<int32_t>(static_cast<uint32_t>(size) + kHalf));
    const auto base_of = [&](size_t k) {
      const auto first = static_cast<uint32_t>(start + at + 4 + k - within.start) + kHalf;
      return _mm_add_epi32(_mm_set1_epi32(static_cast<int32_t>(first)), _mm_setr_epi32(0, 4, 8, 12));
    };
    __m128i bases[] = {base_of(0), base_of(1), base_of(2), base_of(3)};
    const __m128i forward = _mm_set1_epi32(kTogether);
    const auto leads_into = [&](size_t k) {
      const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(raw + at + k));
      const __m128i is_inside = _mm_cmplt_epi32(_mm_add_epi32(words, bases[k]), bound);
      bases[k] = _mm_add_epi32(bases[k], forward);
      return _mm_and_si128(is_inside, _mm_set1_epi32(static_cast<int32_t>(0xffu << 8 * k)));
    };
    for (; at + kReads <= bytes.size(); at += kTogether) {
      const __m128i all = _mm_or_si128(_mm_or_si128(leads_into(0), leads_into(1)),
                                       _mm_or_si128(leads_into(2), leads_into(3)));
      for (auto places = static_cast<uint32_t>(_mm_movemask_epi8(all)); places != 0; places &= places - 1)
        look_at(at + static_cast<size_t>(std::countr_zero(places)));
    }
  }
  for (; at + 4 <= bytes.size(); ++at) look_at(at);
}

}  // namespace mdl::arch
