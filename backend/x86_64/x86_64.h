// The x86_64 target: System V ABI, baseline instructions, AT&T syntax.
#pragma once

#include "backend/lines.h"
#include "backend/target.h"

namespace mdl::backend::x86_64 {

extern const Target kTarget;

enum : Register { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, kRegisters };

struct Names {
  std::string_view r64, r32, r16, r8;
};
inline constexpr Names kNames[kRegisters] = {
    {"%rax", "%eax", "%ax", "%al"},      {"%rcx", "%ecx", "%cx", "%cl"},
    {"%rdx", "%edx", "%dx", "%dl"},      {"%rbx", "%ebx", "%bx", "%bl"},
    {"%rsp", "%esp", "%sp", "%spl"},     {"%rbp", "%ebp", "%bp", "%bpl"},
    {"%rsi", "%esi", "%si", "%sil"},     {"%rdi", "%edi", "%di", "%dil"},
    {"%r8", "%r8d", "%r8w", "%r8b"},     {"%r9", "%r9d", "%r9w", "%r9b"},
    {"%r10", "%r10d", "%r10w", "%r10b"}, {"%r11", "%r11d", "%r11w", "%r11b"},
    {"%r12", "%r12d", "%r12w", "%r12b"}, {"%r13", "%r13d", "%r13w", "%r13b"},
    {"%r14", "%r14d", "%r14w", "%r14b"}, {"%r15", "%r15d", "%r15w", "%r15b"},
};

// Instructions sign-extend 32-bit immediates; only movabs has one of 64 bits.
inline bool is_wide(const ir::Operand& operand) {
  return operand.kind == ir::Operand::Kind::immediate && operand.value != static_cast<int32_t>(operand.value);
}

// outside.cpp: the operations whose answer lies outside of the snippet.
bool is_outside(ir::Op op);
Needs needs_outside(const Counted& snippet, size_t at);
void select_outside(const Counted& snippet, const Allocation& allocation, size_t at, Lines& lines);

// select.cpp
Needs needs(const Counted& snippet, size_t at);
std::vector<Line> select(const Counted& snippet, const Allocation& allocation);
std::vector<Line> guard();

}  // namespace mdl::backend::x86_64
