// The peepholes of aarch64: a product or a shifted number is part of the addition that it is made for (Arm
// ARM, C6.2, MADD, MSUB, ADD shifted register).
#pragma once

#include "backend/target.h"

namespace mdl::backend::aarch64 {

using enum Shape::Writes;

inline constexpr Shape kShapes[] = {
    {"movz", first},    {"movn", first},   {"movk", nothing}, {"mov", first},    {"add", first},
    {"sub", first},     {"mul", first},    {"sdiv", first},   {"madd", first},   {"msub", first},
    {"and", first},     {"orr", first},    {"eor", first},    {"lsl", first},    {"asr", first},
    {"neg", first},     {"cset", first},   {"ldr", first},    {"mrs", first},    {"str", nothing},
    {"stadd", nothing}, {"cmp", nothing},  {"cbz", nothing},  {"cbnz", nothing}, {"tbz", nothing},
    {"b.eq", nothing},  {"b.ne", nothing}, {"b.lt", nothing}, {"b.le", nothing}, {"b.gt", nothing},
    {"b.ge", nothing},  {"sbfx", first},   {"ubfx", first},
};

inline constexpr Peephole kPeepholes[] = {
    // a product that is added or taken away
    {"mul {t}, {a}, {b}; add {d}, {c}, {t}", "madd {d}, {a}, {b}, {c}"},
    {"mul {t}, {a}, {b}; add {d}, {t}, {c}", "madd {d}, {a}, {b}, {c}"},
    {"mul {t}, {a}, {b}; sub {d}, {c}, {t}", "msub {d}, {a}, {b}, {c}"},
    // a shifted number that is added or taken away
    {"lsl {t}, {a}, #{i}; add {d}, {c}, {t}", "add {d}, {c}, {a}, lsl #{i}"},
    {"lsl {t}, {a}, #{i}; add {d}, {t}, {c}", "add {d}, {c}, {a}, lsl #{i}"},
    {"lsl {t}, {a}, #{i}; sub {d}, {c}, {t}", "sub {d}, {c}, {a}, lsl #{i}"},
    {"neg {t}, {a}; add {d}, {c}, {t}", "sub {d}, {c}, {a}"},
    {"neg {t}, {a}; add {d}, {t}, {c}", "sub {d}, {c}, {a}"},
    // a copy, made for one use
    {"mov {t}, {a}; add {d}, {t}, {c}", "add {d}, {a}, {c}"},
    {"mov {t}, {a}; sub {d}, {t}, {c}", "sub {d}, {a}, {c}"},
    {"mov {t}, {a}; cmp {t}, #{i}", "cmp {a}, #{i}"},
};

}  // namespace mdl::backend::aarch64
