// %r11 holds the thread block and %r10 is free (the trampoline needed both to find the
// block, so it has dealt with what the target keeps there); %rsp is nobody's.
//
// The order of the others: %rax is rarely live at an entry (only %al, into a variadic
// function). Then arguments from the last to the first: the fewer a function takes, the more
// of them are dead. Callee-saved registers are live nearly always and come last.
#include "backend/x86_64/x86_64.h"

#include "backend/x86_64/peepholes.h"

namespace mdl::backend::x86_64 {
namespace {

constexpr std::string_view kRegisterNames[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                               "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
static_assert(std::size(kRegisterNames) == kRegisters);

// System V ABI AMD64, 3.2.3: the INTEGER class.
constexpr Register kArguments[] = {rdi, rsi, rdx, rcx, r8, r9};

// Measured by bench/cost on Sapphire Rapids and Zen 5. rdtsc is microcode that waits for what is before it:
// the models have its latency only. idiv of 64 bits: the model has the throughput of shorter ones. Other
// CPUs' models of idiv (Sandy Bridge 10, Zen 3 17) could not be checked here and are left as they are.
constexpr Measured kMeasured[] = {
    {"rdtsc", "", 2900, true}, {"idivq", "sapphirerapids", 1000}, {"idivq", "znver5", 700}};

constexpr Register kOrder[] = {r10, rax, r9, r8, rcx, rsi, rdi, rdx, rbx, r12, r13, r14, r15, rbp};

Register register_of(std::string_view word) {
  for (Register r = rax; r < kRegisters; r++)
    if (word == kNames[r].r64 || word == kNames[r].r32 || word == kNames[r].r16 || word == kNames[r].r8)
      return r;
  return kNoRegister;
}

}  // namespace

const Target kTarget = {
    .name = "x86_64",
    .triple = "x86_64-unknown-linux-gnu",
    .cpu = "x86-64",
    .required = {},
    .measured = kMeasured,
    .set_register = [](Register r) { return fmt::format("movl $1, {}", kNames[r].r32); },
    .registers = kRegisterNames,
    .arguments = kArguments,
    .result = rax,
    .scratch = r10,
    .updated = rax,
    .order = kOrder,
    .shapes = kShapes,
    .peepholes = kPeepholes,
    .register_of = register_of,
    .needs = needs,
    .select = select,
    .guard = guard,
};

}  // namespace mdl::backend::x86_64
