// The peepholes of riscv64: a short number is part of the instruction, and a branch compares by itself
// (RISC-V ISA, 2.4 and 2.5).
#pragma once

#include "backend/target.h"

namespace mdl::backend::riscv64 {

using enum Shape::Writes;

inline constexpr Shape kShapes[] = {
    {"lui", first},    {"li", first},     {"mv", first},         {"add", first},    {"addi", first},
    {"addiw", first},  {"sub", first},    {"mul", first},        {"div", first},    {"and", first},
    {"andi", first},   {"or", first},     {"ori", first},        {"xor", first},    {"xori", first},
    {"sll", first},    {"slli", first},   {"sra", first},        {"srai", first},   {"slt", first},
    {"slti", first},   {"seqz", first},   {"snez", first},       {"neg", first},    {"ld", first},
    {"rdtime", first}, {"sd", nothing},   {"amoadd.d", nothing}, {"beqz", nothing}, {"bnez", nothing},
    {"blez", nothing}, {"bgez", nothing}, {"beq", nothing},      {"bne", nothing},  {"blt", nothing},
    {"bge", nothing},  {"bgt", nothing},  {"ble", nothing},      {"srli", first},   {"sext.w", first},
};

inline constexpr Peephole kPeepholes[] = {
    // a short number
    {"li {t}, {h}; and {d}, {a}, {t}", "andi {d}, {a}, {h}"},
    {"li {t}, {h}; and {d}, {t}, {a}", "andi {d}, {a}, {h}"},
    {"li {t}, {h}; or {d}, {a}, {t}", "ori {d}, {a}, {h}"},
    {"li {t}, {h}; or {d}, {t}, {a}", "ori {d}, {a}, {h}"},
    {"li {t}, {h}; xor {d}, {a}, {t}", "xori {d}, {a}, {h}"},
    {"li {t}, {h}; xor {d}, {t}, {a}", "xori {d}, {a}, {h}"},
    {"li {t}, {h}; add {d}, {t}, {a}", "addi {d}, {a}, {h}"},
    {"li {t}, {h}; slt {d}, {a}, {t}", "slti {d}, {a}, {h}"},
    // a comparison that only a branch reads
    {"seqz {t}, {a}; beqz {t}, {L}", "bnez {a}, {L}"},
    {"snez {t}, {a}; beqz {t}, {L}", "beqz {a}, {L}"},
    {"slt {t}, {a}, {b}; beqz {t}, {L}", "bge {a}, {b}, {L}"},
    // a sign that the addition can take
    {"neg {t}, {a}; add {d}, {c}, {t}", "sub {d}, {c}, {a}"},
    {"neg {t}, {a}; add {d}, {t}, {c}", "sub {d}, {c}, {a}"},
    // a copy, made for one use
    {"mv {t}, {a}; add {d}, {t}, {c}", "add {d}, {a}, {c}"},
    {"mv {t}, {a}; sub {d}, {t}, {c}", "sub {d}, {a}, {c}"},
};

}  // namespace mdl::backend::riscv64
