// The peepholes of x86_64. A comparison or an arithmetic instruction takes one operand from memory, so a cell
// that is read for one use needs no register, which the injector then need not save. The verifier admits
// these forms (runtime/arch/x86_64/stencil_decode.cpp). Not here: xor for a move of zero, which sets the
// flags that a stencil without arithmetic leaves alone.
#pragma once

#include "backend/target.h"

namespace mdl::backend::x86_64 {

using enum Shape::Writes;

// set.. writes a byte, but movzbl of that byte always follows: the rest is not read.
inline constexpr Shape kShapes[] = {
    {"movq", last},    {"movl", last},    {"movabsq", last},  {"movzbl", last},  {"leaq", last},
    {"movslq", last},  {"movswq", last},  {"movsbq", last},   {"movzwl", last},  {"sete", last},
    {"setne", last},   {"setl", last},    {"setle", last},    {"setg", last},    {"setge", last},
    {"addq", nothing}, {"subq", nothing}, {"andq", nothing},  {"orq", nothing},  {"xorq", nothing},
    {"cmpq", nothing}, {"negq", nothing}, {"shlq", nothing},  {"sarq", nothing}, {"je", nothing},
    {"jne", nothing},  {"jl", nothing},   {"jle", nothing},   {"jg", nothing},   {"jge", nothing},
    {"jns", nothing},  {"imulq", third},  {"testq", nothing},
};

inline constexpr Peephole kPeepholes[] = {
    // a cell, read for one comparison
    {"movq {m}(%r11), {r}; testq {r}, {r}", "cmpq $0, {m}(%r11)"},
    {"movq {m}(%r11), {r}; cmpq ${i}, {r}", "cmpq ${i}, {m}(%r11)"},
    {"movq {m}(%r11), {r}; cmpq {r}, {s}", "cmpq {m}(%r11), {s}"},
    {"movq {m}(%r11), {r}; cmpq {s}, {r}", "cmpq {s}, {m}(%r11)"},
    // a cell, read for one operation
    {"movq {m}(%r11), {r}; addq {r}, {s}", "addq {m}(%r11), {s}"},
    {"movq {m}(%r11), {r}; subq {r}, {s}", "subq {m}(%r11), {s}"},
    {"movq {m}(%r11), {r}; andq {r}, {s}", "andq {m}(%r11), {s}"},
    {"movq {m}(%r11), {r}; orq {r}, {s}", "orq {m}(%r11), {s}"},
    {"movq {m}(%r11), {r}; xorq {r}, {s}", "xorq {m}(%r11), {s}"},
    {"movq {m}(%r11), {r}; imulq {r}, {s}", "imulq {m}(%r11), {s}"},
    {"movq {m}(%r11), {r}; imulq ${i}, {r}, {s}", "imulq ${i}, {m}(%r11), {s}"},
    {"movq {m}(%r11), {r}; movq {a}, {s}; addq {r}, {s}", "movq {a}, {s}; addq {m}(%r11), {s}"},
    {"movq {m}(%r11), {r}; movq {a}, {s}; subq {r}, {s}", "movq {a}, {s}; subq {m}(%r11), {s}"},
    // a copy, made for one use
    {"movq {a}, {r}; movq {r}, {m}(%r11)", "movq {a}, {m}(%r11)"},
    {"movq {a}, {r}; addq {r}, {m}(%r11)", "addq {a}, {m}(%r11)"},
    {"movq {a}, {r}; subq {r}, {m}(%r11)", "subq {a}, {m}(%r11)"},
    {"movq {a}, {r}; testq {r}, {r}", "testq {a}, {a}"},
    {"movq {a}, {r}; cmpq ${i}, {r}", "cmpq ${i}, {a}"},
};

}  // namespace mdl::backend::x86_64
