// x86_64 instructions, decoded with LLVM MC, as the shared code of runtime/image sees them.
//
// What an instruction does to the general registers and the flags comes from LLVM's
// instruction tables, corrected where they describe what a compiler may assume and not what the
// machine does (bsf leaves its destination alone for a zero source; a repeated string
// instruction may run no times). Where nothing certain is known, an instruction reads everything.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/image/code.h"

namespace mdl::image::x86_64 {

inline constexpr int kNoRegister = -1;
inline constexpr int kPcRegister = 16;

struct MemoryOperand {
  int base = kNoRegister;  // 0..15, or kPcRegister
  int index = kNoRegister;
  uint8_t scale = 1;
  int64_t displacement = 0;
  bool has_segment = false;
};

// What the search for the source of an indirect jump looks at (jump_tables.cpp).
enum class Operation : uint8_t {
  other,
  load,      // destination = memory, 4 (sign-extended or zero-extended) or 8 bytes
  address,   // destination = address of the memory operand
  move,      // destination = source
  add,       // destination += source, or += memory when there is no source
  constant,  // destination = immediate
  compare,   // source or memory with immediate
  pop,
};

struct Detail {
  Operation operation = Operation::other;
  int destination = kNoRegister;
  int source = kNoRegister;
  bool has_memory = false;
  MemoryOperand memory;
  int64_t immediate = 0;
  uint8_t load_size = 0;  // bytes that Operation::load reads
};

// Decodes the instruction at the start of `bytes`. False when there is none.
bool decode_instruction(std::span<const std::byte> bytes, uint64_t address, Instruction& instruction,
                        Detail& detail);

}  // namespace mdl::image::x86_64
