// Which word of ThreadRegisters is which register: struct user_regs_struct, as NT_PRSTATUS has it.
#pragma once

#include <sys/user.h>

#include <cstddef>

#include "runtime/arch/thread_registers.h"

namespace mdl::arch {

enum Word : size_t {
#define X(name) word_##name = offsetof(user_regs_struct, name) / sizeof(uint64_t),
  X(rax) X(rcx) X(rdx) X(rbx) X(rsp) X(rbp) X(rsi) X(rdi) X(r8) X(r9) X(r10) X(r11) X(r12) X(r13) X(r14)
      X(r15) X(rip) X(eflags) X(orig_rax) X(fs_base)
#undef X
};
inline constexpr uint64_t kNoCall = ~uint64_t{0};  // in word_orig_rax
static_assert(sizeof(user_regs_struct) <= sizeof(ThreadRegisters::words));

}  // namespace mdl::arch
