// x17 holds the thread block and x16 is free. The order of the others: temporaries, which are dead at
// entries and returns; x8 may name the place of a large result; then arguments from the last to the
// first, and those that a callee saves.
#include "backend/aarch64/aarch64.h"

#include <fmt/format.h>

#include "backend/aarch64/peepholes.h"

namespace mdl::backend::aarch64 {
namespace {

constexpr std::string_view kRegisterNames[] = {"x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",
                                               "x8",  "x9",  "x10", "x11", "x12", "x13", "x14", "x15",
                                               "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23",
                                               "x24", "x25", "x26", "x27", "x28", "x29", "x30"};
static_assert(std::size(kRegisterNames) == kRegisters);

constexpr Register kArguments[] = {0, 1, 2, 3, 4, 5, 6, 7};

constexpr Register kOrder[] = {kScratch, 15, 14, 13, 12, 11, 10, 9,  x8, 7,  6,  5,  4, 3,
                               2,        1,  x0, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28};

constexpr std::string_view kRequired[] = {"lse"};

}  // namespace

const Target kTarget = {
    .name = "aarch64",
    .triple = "aarch64-unknown-linux-gnu",
    .cpu = "neoverse-n1",
    .required = kRequired,
    .set_register = [](Register r) { return fmt::format("mov x{}, #1", r); },
    .registers = kRegisterNames,
    .arguments = kArguments,
    .result = x0,
    .scratch = kScratch,
    .updated = kUpdated,
    .order = kOrder,
    .shapes = kShapes,
    .peepholes = kPeepholes,
    .register_of = [](std::string_view word) { return register_named(kRegisterNames, word); },
    .needs = needs,
    .select = select,
    .guard = guard,
};

}  // namespace mdl::backend::aarch64
