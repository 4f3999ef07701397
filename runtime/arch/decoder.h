// Reading code: one instruction at a time, and the few sequences that shared code must recognize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/image/instruction.h"

namespace mdl::arch {

// Decodes the instruction at the start of `bytes`. False when there is none.
bool decode_instruction(std::span<const std::byte> bytes, uint64_t address, image::Instruction& instruction,
                        image::Detail& detail);
// Where the direct jumps and branches lead, of the instructions from the start of `bytes` up to what is none. It is much
// quicker than to decode all that is to be known of each.
void find_jumps(std::span<const std::byte> bytes, uint64_t start,
                llvm::function_ref<void(uint64_t target)> found);

// True only for bytes that begin with a direct call, which is much quicker than to decode it.
bool begins_with_call(std::span<const std::byte> bytes);

// True for a store to an address in the first page by a plain instruction, which ends a process (haproxy's
// BUG_ON): no system maps that page for a program that does not ask for just that.
bool faults(const image::Instruction& instruction);
// True for an instruction that may raise a fault whatever the program does with its stack: one that reads or writes
// memory by a register other than the stack pointer, or far from that (a probe), and a division.
bool may_fault(const image::Instruction& instruction, const image::Detail& detail);
// True for the comparison with the end of the thread's stack in front of a function that goes on on another stack where
// there is too little of it (-fsplit-stack).
bool asks_for_stack(const image::Instruction& instruction);
// True for an instruction that puts a value on top of the stack: a push, or a store there.
bool stores_on_top(const image::Instruction& instruction);

// The slot of a stub of the procedure linkage table: code at `address` that jumps to where a word says. 0
// when the code is something else. kMostOfStub bytes are enough.
uint64_t read_linkage_stub(std::span<const std::byte> bytes, uint64_t address);
inline constexpr size_t kMostOfStub = 16;

// The tables of jumps that clang's control flow integrity makes (-fsanitize=cfi-icall).
//
// A function whose address is taken gets an entry in such a table: a jump to `f.cfi`, filled up to a power of
// two. Pointers lead to the entry, and the entry has the function's name `f`, while the code is `f.cfi`; each
// entry's symbol has the size of the whole table (LLVM, lib/Transforms/IPO/LowerTypeTests.cpp). Entries are
// no functions, as those of the procedure linkage table are none: a call by pointer would be counted twice,
// and one by name not at all. Their names are names of what they lead to.
struct CfiEntry {
  uint64_t size = 0;
  uint64_t target = 0;
};
// The entry that these bytes at an address are, if they are one. kMostOfStub bytes are enough.
std::optional<CfiEntry> read_cfi_entry(std::span<const std::byte> bytes, uint64_t address);

}  // namespace mdl::arch
