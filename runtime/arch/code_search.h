// Searches through all code of an object, hundreds of megabytes: every byte is tried as the beginning or the
// operand of an instruction, and nothing is decoded. So they find too much, never too little.
//
// In all of them `bytes` are code that lies at `start`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/image/image.h"

namespace mdl::arch {

struct FarBranch {
  uint64_t source = 0;
  uint64_t target = 0;
  bool is_call = false;
  bool is_formed = false;  // no branch: an instruction takes the address of `target`
};
// Direct jumps, branches and calls that are no short ones and lead into `within`, by address, and what takes an address
// there.
void find_far_branches(std::span<const std::byte> bytes, uint64_t start, const image::Range& within,
                       llvm::function_ref<void(const FarBranch&)> found);
// True when one that is no call leads to an address of which `test` is true. In any order.
bool any_far_jump(std::span<const std::byte> bytes, uint64_t start, llvm::function_ref<bool(uint64_t)> test);
// The first place where code takes a stack pointer from a buffer and jumps on at once, as a compiler's own longjmp does
// (__builtin_longjmp); 0 when there is none. kMostOfStackJump bytes from there on are looked at.
uint64_t find_stack_jump(std::span<const std::byte> bytes, uint64_t start);
inline constexpr size_t kMostOfStackJump = 24;
// The first place where an instruction gives the thread another thread pointer, by which hits find its block; 0 when there
// is none. kMostOfPointerChange bytes from there on are looked at.
uint64_t find_pointer_change(std::span<const std::byte> bytes, uint64_t start);
inline constexpr size_t kMostOfPointerChange = 5;
// The first place where an instruction may have this constant in it whole; 0 when there is none, or the machine puts
// constants together from parts.
uint64_t find_constant(std::span<const std::byte> bytes, uint64_t start, uint64_t constant);
// True when there may be a branch of Instruction::short_form into `into`.
bool may_branch_into(std::span<const std::byte> bytes, uint64_t start, const image::Range& into);

// Addresses in `within` that operands relative to the pc may make; appended to `places`, in no order.
void find_operands(std::span<const std::byte> bytes, uint64_t start, const image::Range& within,
                   std::vector<uint64_t>& places);
// The same, and where calls lead; without what a jump's displacement is.
void find_references(std::span<const std::byte> bytes, uint64_t start, const image::Range& within,
                     std::vector<uint64_t>& places);
// Addresses in `within` that instructions of code at a fixed address may have in them whole; appended likewise.
void find_whole_addresses(std::span<const std::byte> bytes, const image::Range& within,
                          std::vector<uint64_t>& places);

}  // namespace mdl::arch
