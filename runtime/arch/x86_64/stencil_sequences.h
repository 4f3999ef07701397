// Instructions that a stencil may use only together, in one order.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "runtime/arch/x86_64/stencil_decode.h"

namespace mdl::plan::x86_64 {

// The offsets of all instructions that are part of one of these, entered at its beginning only:
//
//   movabs $mdl_symbol_K, %r; mov (%r), %r; shl $mdl_symbol_left_K, %r; sar $mdl_symbol_right_K, %r
//       the value of an application variable: the one load that is not of the thread's block
//   movabs $mdl_symbol_K, %r; mov %r, cell+8(%r11); lea cell(%r11), %r10; call mdl_routine_call
//       a call into the application: K is a function, and nothing else may name what is called
//   mov $number, %r10d; call mdl_routine_event
//       the number is one of an event
std::set<uint32_t> find_sequences(const Stencil& stencil, std::span<const Decoded> code);

}  // namespace mdl::plan::x86_64
