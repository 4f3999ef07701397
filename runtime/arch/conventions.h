// Where the calling convention puts arguments and results, and where calls come back to.
#pragma once

#include <cstdint>

#include "runtime/image/instruction.h"
#include "runtime/image/memory.h"

namespace mdl::arch {

// A type as debug information describes it.
struct ValueShape {
  enum class Kind : uint8_t { nothing, integer, floating, structure, other } kind = Kind::other;
  uint64_t size = 0;  // in bytes
};

// Which general registers a value takes as an argument.
enum class ArgumentClass : uint8_t {
  none,     // no general register
  integer,  // the next one
  memory,   // a result that the caller makes room for, whose address is the first argument
  unknown,  // it depends on what debug information does not say
};
ArgumentClass class_of_argument(const ValueShape& shape);
// Which registers for arguments a function's result takes: none, memory, or unknown.
ArgumentClass class_of_result(const ValueShape& shape);

// Registers that an instruction behind a call must leave alone for code that belongs right behind the call to
// run after it: the stack pointer, and where the code reads it (`result`) the returned value.
image::Registers kept_behind_calls(bool result);

// True when the bytes in front of an address may be a call, as they are in front of a return address.
bool is_behind_call(const image::Memory& memory, uint64_t address);

}  // namespace mdl::arch
