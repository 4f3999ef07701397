// Functions whose calls are executed one instruction at a time, and counted.
//
//   stepped [SECONDS]
//
// Each function is for one kind of point and has the same body, in assembly, so that no compiler decides what is counted.
//
//   step N   calls the function of number N six times with the trap flag set, and answers with its name and the instructions
//            of each of the last four calls, {"name":"entry","instructions":[..]}
//   quit     ends with status 0
//
// The kernel raises SIGTRAP behind each instruction that runs with the flag set; the handler counts. A system call is one
// instruction. The first calls are left out because a first hit does more than the next one: it claims the thread's block
// and the place of its key. Addresses are not randomized, because keys that are addresses are hashed. The counter that
// rdtsc reads goes by the instructions meanwhile (PR_SET_TSC makes it a fault), because a hit that takes long does more.
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "protocol.h"

#define STEPPED_FUNCTIONS(X)                                                                               \
  X(entry)                                                                                                 \
  X(back)                                                                                                  \
  X(site) X(block) X(inside) X(thread) X(key) X(keys) X(text) X(caller) X(sum) X(least) X(hist) X(latency) \
      X(wall) X(self) X(cpu) X(kept) X(both)
// In all of these some registers and the flags are known to be dead at the entry; here none is, and code must save them.
#define SAVING_FUNCTIONS(X) X(saving)

#define DECLARE(name) extern "C" uint64_t step_##name(uint64_t, uint64_t);
STEPPED_FUNCTIONS(DECLARE)
SAVING_FUNCTIONS(DECLARE)

#define DEFINE(name, first)              \
  asm("  .text\n  .p2align 6\n"          \
      "  .globl step_" #name             \
      "\n"                               \
      "  .type step_" #name              \
      ", @function\n"                    \
      "step_" #name                      \
      ":\n"                              \
      "  .cfi_startproc\n"               \
      "  push %rbx\n"                    \
      "  .cfi_def_cfa_offset 16\n" first \
      "  mov %rdi, %rbx\n"               \
      "  lea 1(%rdi,%rdi,2), %rax\n"     \
      "  call step_nothing\n"            \
      "  add %rbx, %rax\n"               \
      "  pop %rbx\n"                     \
      "  .cfi_def_cfa_offset 8\n"        \
      "  ret\n"                          \
      "  .cfi_endproc\n"                 \
      "  .size step_" #name ", . - step_" #name "\n");
#define DEFINE_STEPPED(name) DEFINE(name, "  xor %ecx, %ecx\n  xor %edx, %edx\n")
#define DEFINE_SAVING(name) DEFINE(name, "")
STEPPED_FUNCTIONS(DEFINE_STEPPED)
SAVING_FUNCTIONS(DEFINE_SAVING)

// step_outer calls step_inside, and it is what a `within` asks for. step_call(FUNCTION, A, B) calls a function with the trap
// flag set.
extern "C" uint64_t step_outer(uint64_t, uint64_t);
extern "C" uint64_t step_call(uint64_t (*)(uint64_t, uint64_t), uint64_t, uint64_t);
asm(R"(
    .text
    .p2align 6
    .type step_nothing, @function
step_nothing:
    xor %edx, %edx
    ret
    .size step_nothing, . - step_nothing
    .globl step_outer
    .type step_outer, @function
    .p2align 6
step_outer:
    push %rbx
    mov %rdi, %rbx
    call step_inside
    pop %rbx
    ret
    .size step_outer, . - step_outer
    .globl step_call
    .type step_call, @function
    .p2align 6
step_call:
    push %rbx
    mov %rdi, %rbx
    mov %rsi, %rdi
    mov %rdx, %rsi
    pushfq
    orq $0x100, (%rsp)
    popfq
    call *%rbx
    pushfq
    andq $~0x100, (%rsp)
    popfq
    pop %rbx
    ret
    .size step_call, . - step_call
)");

namespace {

struct Function {
  const char* name;
  uint64_t (*call)(uint64_t, uint64_t);
};
#define ROW(name) {#name, step_##name},
constexpr Function kFunctions[] = {STEPPED_FUNCTIONS(ROW) SAVING_FUNCTIONS(ROW){"outer", step_outer}};
constexpr int kCalls = 4;
constexpr char kText[] = "a text of some length";

volatile sig_atomic_t instructions = 0;
volatile uint64_t ticks = 0;

void count() {
  constexpr uint64_t kTicks = 20;  // of an instruction
  instructions = instructions + 1;
  ticks = ticks + kTicks;
}

void read_counter(int, siginfo_t*, void* context) {
  constexpr unsigned char kRdtsc[] = {0x0f, 0x31};
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (memcmp(reinterpret_cast<const void*>(registers[REG_RIP]), kRdtsc, sizeof kRdtsc) != 0) _exit(3);
  count();
  registers[REG_RIP] += sizeof kRdtsc;
  registers[REG_RAX] = static_cast<uint32_t>(ticks);
  registers[REG_RDX] = static_cast<greg_t>(ticks >> 32);
}

std::string step(const Function& function) {
  std::string out;
  const auto text = reinterpret_cast<uint64_t>(kText);
  for (int i = -2; i < kCalls; ++i) {
    instructions = 0;
    ticks = __rdtsc();
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    step_call(function.call, 7, text);
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
    if (i >= 0) out += (i ? "," : "") + std::to_string(instructions);
  }
  return std::string("\"name\":\"") + function.name + "\",\"instructions\":[" + out + "]";
}

}  // namespace

int main(int argc, char** argv) {
  const int now = personality(0xffffffff);
  if (now != -1 && !(now & ADDR_NO_RANDOMIZE) &&
      personality(static_cast<unsigned>(now) | ADDR_NO_RANDOMIZE) != -1)
    execv("/proc/self/exe", argv);
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  struct sigaction action = {};
  action.sa_handler = [](int) { count(); };
  sigaction(SIGTRAP, &action, nullptr);
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = read_counter;
  sigaction(SIGSEGV, &action, nullptr);
  protocol::say_event("ready", protocol::field("functions", sizeof kFunctions / sizeof *kFunctions));
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "step" || command.number >= sizeof kFunctions / sizeof *kFunctions) _exit(0);
    protocol::say_event("done", step(kFunctions[command.number]));
  }
}
