#include "runtime/image/cfi_entries.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mdl::image {

std::optional<CfiEntry> read_cfi_entry(std::span<const std::byte> bytes, uint64_t address) {
  constexpr std::array kLanding = {std::byte{0xf3}, std::byte{0x0f}, std::byte{0x1e},
                                   std::byte{0xfa}};  // endbr64
  constexpr size_t kJump = 5;                         // jmp rel32 is e9 and four bytes (SDM volume 2, JMP)
  constexpr auto kFill = std::byte{0xcc};             // int3
  const bool lands =
      bytes.size() >= kLanding.size() && std::equal(kLanding.begin(), kLanding.end(), bytes.begin());
  const size_t jump = lands ? kLanding.size() : 0, size = lands ? 16 : 8;
  if (bytes.size() < size || address % size != 0 || bytes[jump] != std::byte{0xe9}) return std::nullopt;
  const std::span fill = bytes.subspan(jump + kJump, size - jump - kJump);
  if (std::any_of(fill.begin(), fill.end(), [&](std::byte one) { return one != kFill; })) return std::nullopt;
  int32_t displacement;
  std::memcpy(&displacement, &bytes[jump + 1], sizeof displacement);
  return CfiEntry{size, address + jump + kJump + static_cast<uint64_t>(int64_t{displacement})};
}

}  // namespace mdl::image
