// Numbers of 64 bits in the holes of a machine whose relocations fill only 32 (riscv64): behind
// kConstSymbol or kSymbolSymbol stands one of these, then the index. The low half has a sign, so that
// value = (high << 32) + low.
#pragma once

namespace mdl::format {

inline constexpr const char* kLowHalf = "low_";
inline constexpr const char* kHighHalf = "high_";

}  // namespace mdl::format
