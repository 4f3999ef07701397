// The facts about the machine that the injector runs on, and its target with it: one const description, which
// the target's folder defines (runtime/arch/<target>/description.cpp). Anything more than a fact is a
// function in one of the other headers of this folder. The folder of the host is linked; shared code never
// asks which it is.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/image/instruction.h"

namespace mdl::plan {
struct TargetRules;  // plan/verify.h
}

namespace mdl::arch {

inline constexpr uint64_t kPage = 4096;  // the smallest page there is

struct Description {
  std::string_view name;     // as in a plan's manifest
  uint16_t elf_machine = 0;  // e_machine of programs it can instrument
  uint32_t audit = 0;        // AUDIT_ARCH_* of a call made in 64-bit code

  // Types of dynamic relocations that tell where functions are: an address in the object itself, what a
  // resolver returns, a slot of the linkage table, a word with a symbol's address.
  struct Relocations {
    uint32_t relative = 0, irelative = 0, jump_slot = 0, glob_dat = 0;
  } relocations;

  // Sizes are in bytes.
  uint32_t alignment = 1;        // instructions begin at multiples of it
  uint32_t jump_size = 0;        // of the jump that a window holds
  uint32_t short_jump_size = 0;  // of one that reaches the next hundred bytes
  uint32_t far_jump_size = 0;    // of one that reaches everything
  uint64_t reach = 0;            // how far the first and pc-relative data safely go
  // How far a branch of Instruction::short_form goes, counted from its beginning; 0 when there is none.
  uint64_t short_reach = 0;
  struct Sizes {
    uint32_t shortest = 0, longest = 0;
  } indirect_calls;                     // usual ones
  std::span<const uint8_t> breakpoint;  // of debuggers and of the kernel's uprobes
  std::string_view breakpoint_name;     // for messages
  uint8_t fill = 0;                     // bytes of it trap when they are executed

  // Registers by their number in the machine's encoding, as in image::Registers.
  int stack_pointer = 0;
  int frame_pointer = 0;
  int first_argument = 0;
  std::span<const uint8_t> arguments;  // all of them, in order
  int result = 0;
  image::Registers preserved = 0;  // over a call, by the calling convention
  // No calling convention passes a value in them, but for a static chain: a caller keeps a value in one
  // across a call only when it knows that the callee leaves it alone (GCC's -fipa-ra).
  image::Registers scratch = 0;
  image::Registers static_chain = 0;  // of these, the one that may carry one into a nested function
  int32_t call_pushes = 0;            // bytes on the stack: the return address

  // Call frame information: DWARF's numbers.
  struct Frames {
    uint32_t registers = 0;       // that are looked at: 0 and up
    uint32_t stack_pointer = 0;   // one of them;
    uint32_t frame_pointer = 0;   // another one;
    uint32_t return_address = 0;  // the column of the return address, a register where calls put it into one;
    uint32_t pc = 0;              // the column in which the pc is kept, else the same
    int64_t cfa_at_entry = 0;     // the CFA at a function's first instruction, from the stack pointer
  } frames;
  // The same numbers of the registers that pass arguments, in order. At most nine.
  std::span<const uint8_t> argument_registers;

  // Places behind the thread pointer where known C libraries keep a thread's id (4 bytes).
  std::span<const uint32_t> thread_id_places;

  // Functions that only this machine has and that keep another convention: code may not be inserted. `*` at
  // the end stands for anything.
  std::span<const std::string_view> own_abi;
  // Their names begin so where they are jumps through a register ("" = there are none).
  std::string_view jump_thunk;

  // Numbers of system calls.
  struct Calls {
    long memfd_create, ftruncate, mmap, munlock, mprotect, munmap, close, signal_mask, prctl;
  } calls;

  const plan::TargetRules* stencil_rules = nullptr;  // what its stencils may do
};

extern const Description kMachine;

}  // namespace mdl::arch
