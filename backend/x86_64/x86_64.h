// The x86_64 target: System V ABI, baseline instructions, AT&T syntax.
#pragma once

#include "backend/target.h"

namespace mdl::backend::x86_64 {

extern const Target kTarget;

enum : Register { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, kRegisters };

// select.cpp
Needs needs(const Counted& snippet, size_t at);
std::vector<Line> select(const Counted& snippet, const Allocation& allocation);
std::vector<Line> guard();

}  // namespace mdl::backend::x86_64
