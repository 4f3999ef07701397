// A machine that stencils are run on: what the tests need to know of it besides the backend's description.
// One file for each (x86_64.cpp, aarch64.cpp, riscv64.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/target.h"

namespace mdl::exec {

// Words of a case's memory: registers before and after, by number, each with the flags behind them; then
// the thread's block, at whose middle the block register points less kBias, so that offsets are large.
inline constexpr size_t kRegisterWords = 33;
inline constexpr size_t kBlockWords = 160;
inline constexpr size_t kCaseWords = 2 * kRegisterWords + kBlockWords;
inline constexpr int64_t kBias = 0x12348;
// In the block: the clock of the routines, and what each reading adds to it.
inline constexpr int64_t kClock = kBias + 0, kStep = kBias + 8;

struct Host {
  std::string_view name;                     // of the target
  std::string_view emulator;                 // "" = runs here
  backend::Register block;                   // the register that holds the thread's block
  std::vector<backend::Register> untouched;  // registers that are not set and compared: the stack pointer ...
  uint64_t flag_bits;                        // of the flags word, those that are set and compared

  // Assembly of the functions mdl_enter(registers, code), which loads all registers and goes to the code;
  // mdl_done, to which the code goes at its end and which stores them and returns; and the resident
  // routines, which do what World (world.h) says, and keep what they must.
  std::string (*support)();
  std::string_view jump_to_done;  // assembly of the code's end

  // Fills a hole. False for a relocation that is not known, and when the value does not fit.
  bool (*relocate)(uint32_t type, std::span<std::byte> at, uint64_t place, int64_t value);
};

const Host& x86_64_host();
const Host& aarch64_host();
const Host& riscv64_host();

}  // namespace mdl::exec
