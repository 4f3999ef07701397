// Functions that have hooks (resident.h), by their code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/arch/resident.h"

namespace mdl::arch {

inline constexpr size_t kMostOfHooked = 32;  // bytes of a function that are looked at

// Whether the code is that of libgcc's _Unwind_SetIP, as the routine of Hook::landing expects it.
bool is_landing_setter(std::span<const std::byte> code);

// Where functions begin that have the code of one with a hook, in a program that has a static run-time library and no
// symbols: libgcc's _Unwind_SetIP, with the function that follows it there, and glibc's __longjmp and vfork. `bytes` are
// code that lies at `start`; those of which `is_wanted` is true are looked for.
void find_hooked(std::span<const std::byte> bytes, uint64_t start, llvm::function_ref<bool(Hook)> is_wanted,
                 llvm::function_ref<void(Hook hook, uint64_t address)> found);

}  // namespace mdl::arch
