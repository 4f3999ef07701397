// t6 holds the thread block and t5 is free. The order of the others: temporaries, which are dead at entries
// and returns; then arguments from the last to the first, and those that a callee saves.
#include "backend/riscv64/riscv64.h"

#include <fmt/format.h>

#include "backend/riscv64/peepholes.h"

namespace mdl::backend::riscv64 {
namespace {

constexpr std::string_view kRegisterNames[] = {
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0",  "a1",  "a2", "a3", "a4", "a5",
    "a6",   "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"};
static_assert(std::size(kRegisterNames) == kRegisters);

constexpr Register kArguments[] = {a0, a1, a2, a3, a4, a5, a6, a7};

constexpr Register kOrder[] = {kScratch, t4, t3, t1, t0, t2, a7, a6, a5, a4, a3,  a2,  a1,
                               a0,       s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s0};

constexpr std::string_view kRequired[] = {"m", "a", "zicsr"};

}  // namespace

const Target kTarget = {
    .name = "riscv64",
    .triple = "riscv64-unknown-linux-gnu",
    .cpu = "sifive-u74",
    .required = kRequired,
    .head = "\t.attribute arch, \"rv64i2p1_m2p0_a2p1_c2p0_zicsr2p0\"\n",
    .set_register = [](Register r) { return fmt::format("li {}, 1", kRegisterNames[r]); },
    .numbers_vary = true,
    .registers = kRegisterNames,
    .arguments = kArguments,
    .result = a0,
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

}  // namespace mdl::backend::riscv64
