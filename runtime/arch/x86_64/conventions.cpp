// System V ABI for x86-64, section 3.2.3.
#include "runtime/arch/conventions.h"

#include <algorithm>
#include <array>

#include "runtime/arch/x86_64/emitter.h"

namespace mdl::arch {

ArgumentClass class_of_argument(const ValueShape& shape) {
  switch (shape.kind) {
    case ValueShape::Kind::nothing:
    case ValueShape::Kind::floating:  // in vector registers, or on the stack
      return ArgumentClass::none;
    case ValueShape::Kind::integer:
      return shape.size == 1 || shape.size == 2 || shape.size == 4 || shape.size == 8
                 ? ArgumentClass::integer
                 : ArgumentClass::unknown;
    case ValueShape::Kind::structure:
    case ValueShape::Kind::other:
      return ArgumentClass::unknown;
  }
  return ArgumentClass::unknown;
}

// A structure of more than 16 bytes is returned through its caller's memory, whatever it holds.
ArgumentClass class_of_result(const ValueShape& shape) {
  if (shape.kind == ValueShape::Kind::structure && shape.size > 16) return ArgumentClass::memory;
  const ArgumentClass as_argument = class_of_argument(shape);
  return as_argument == ArgumentClass::integer ? ArgumentClass::none : as_argument;
}

image::Registers kept_behind_calls(bool result) {
  return image::register_bit(rsp) | (result ? image::register_bit(rax) : 0);
}

// `call rel32` is e8; `call r/m64` is ff /2, with up to five bytes behind the ModRM byte.
bool is_behind_call(const image::Memory& memory, uint64_t address) {
  std::array<uint8_t, 7> bytes;
  if (!memory.read(address - bytes.size(), std::as_writable_bytes(std::span(bytes)))) return false;
  constexpr std::array<size_t, 5> kIndirect = {2, 3, 4, 6, 7};
  return bytes[2] == 0xe8 || std::ranges::any_of(kIndirect, [&](size_t size) {
           return bytes[7 - size] == 0xff && (bytes[8 - size] & 0x38) == 0x10;
         });
}

}  // namespace mdl::arch
