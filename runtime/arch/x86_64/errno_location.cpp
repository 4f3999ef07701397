#include "runtime/arch/errno_location.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace mdl::arch {

// A shared glibc has the offset in a word that the loader fills, a static one in its code:
//     endbr64                                         perhaps
//     mov disp32(%rip), %rax   or   mov $imm32, %rax
//     add %fs:0, %rax
//     ret
std::optional<ErrnoLocation> errno_location(std::span<const std::byte> code, uint64_t address) {
  size_t at = 0;
  const auto skip = [&](std::initializer_list<uint8_t> wanted) {
    const bool is = code.size() - at >= wanted.size() &&
                    std::equal(wanted.begin(), wanted.end(), code.begin() + static_cast<std::ptrdiff_t>(at),
                               [](uint8_t a, std::byte b) { return std::byte{a} == b; });
    if (is) at += wanted.size();
    return is;
  };
  skip({0xf3, 0x0f, 0x1e, 0xfa});
  const bool loads = skip({0x48, 0x8b, 0x05});
  if (!loads && !skip({0x48, 0xc7, 0xc0})) return std::nullopt;
  int32_t number = 0;
  if (code.size() - at < sizeof number) return std::nullopt;
  std::memcpy(&number, code.data() + at, sizeof number);
  at += sizeof number;
  const uint64_t next = address + at;
  if (!skip({0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0}) || !skip({0xc3})) return std::nullopt;
  if (loads) return ErrnoLocation{0, next + static_cast<uint64_t>(int64_t{number})};
  return ErrnoLocation{number, 0};
}

}  // namespace mdl::arch
