// How stencils read the machine's counter, and what stands there instead where the thread's clock is kept
// (hit_time.h): 9 bytes each, which leave the time in rax.
#pragma once

#include <array>
#include <cstdint>

namespace mdl::arch {

// rdtsc; shl $32, %rdx; or %rdx, %rax
inline constexpr std::array<uint8_t, 9> kCounterRead = {0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0};
// mov kBlockClock(%r11), %rax; nopl 0(%rax,%rax)
inline constexpr std::array<uint8_t, 9> kClockRead = {0x49, 0x8b, 0x43, 40, 0x0f, 0x1f, 0x44, 0x00, 0x00};

}  // namespace mdl::arch
