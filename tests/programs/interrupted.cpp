// A thread that is interrupted behind the first bytes of a function, where a patch would lie, and
// stays away in a handler on an alternate stack: what is on the thread's own stack can only be
// found by those who know that it has two.
//
//   interrupted SECONDS MODE
//
//   apart   the alternate stack is in the program's data
//   beside  it is right below the block that the thread pointer points to, and so in one mapping
//           with it, where a thread's own stack is
//   secret  it is in memory that nobody else can read (memfd_secret), also the fault's; a second
//           thread sleeps
//
// Commands: `interrupt MS` calls t_window, `interrupt_short MS` t_short, with a null pointer; the fault's
// handler says {"event": "inside"} from another handler, on the alternate stack, that sleeps MS milliseconds,
// then mends the pointer, and the function ends as if nothing had been. `work N` calls t_window N times. All
// answer
// {"event":"done","sum":SUM OF ITS RESULTS SINCE THE START}; each result is 8. `quit` ends.
//
// `step MS` calls t_hosted one instruction after the other, and once, behind its entry, where it is about to
// execute a jump that it does not have: the handler says {"event":"inside"} and sleeps MS milliseconds. Then
// answers as above. `often N` calls it N times; where it begins is said with {"event":"ready"}.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <string_view>
#include <thread>

#include "protocol.h"

extern "C" long t_window(const long* from);
extern "C" long t_short(const long* from);
// The load faults with %rbx pushed: one byte behind the entry, inside of any jump written there.
asm(R"(
  .text
  .p2align 4
  .globl t_window
  .type t_window, @function
t_window:
  .cfi_startproc
  push %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  mov (%rdi), %rax
  mov %rax, %rbx
  lea 3(%rbx), %rax
  pop %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  ret
  .cfi_endproc
  .size t_window, . - t_window
  .p2align 4
)");
// The same, with a branch to its third instruction: only a short jump has room at the entry.
asm(R"(
  .globl t_short
  .type t_short, @function
t_short:
  .cfi_startproc
  push %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  mov (%rdi), %rax
1:
  mov %rax, %rbx
  test %rbx, %rbx
  js 1b
  lea 3(%rbx), %rax
  pop %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  ret
  .cfi_endproc
  .size t_short, . - t_short
  .skip 32, 0x90  # padding, for its relay
)");

// As compilers without optimization make it: behind the return, which has no room, the next function follows.
extern "C" long t_hosted(const long* from);
extern "C" const unsigned char t_hosted_end[];
asm(R"(
  .globl t_hosted
  .type t_hosted, @function
t_hosted:
  .cfi_startproc
  push %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbp, 0
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  sub $16, %rsp
  mov %rdi, -8(%rbp)
  call t_plus
  leave
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size t_hosted, . - t_hosted
t_hosted_end:
  .type t_plus, @function
t_plus:
  .cfi_startproc
  mov (%rdi), %rax
  add $3, %rax
  ret
  .cfi_endproc
  .size t_plus, . - t_plus
)");

// No frame information says where its frame ends, most of which it never writes.
extern "C" long t_lingers(const long* from);
extern "C" {
timespec t_linger_time;
}
asm(R"(
  .globl t_lingers
  .type t_lingers, @function
t_lingers:
  sub $152, %rsp
  mov (%rdi), %rax
  mov %rax, (%rsp)
  lea t_linger_time(%rip), %rdi
  xor %esi, %esi
  mov $35, %eax  # nanosleep
  syscall
  mov (%rsp), %rax
  add $3, %rax
  add $152, %rsp
  ret
  .size t_lingers, . - t_lingers
)");

namespace {

const long good = 5;
volatile unsigned long milliseconds;
constexpr size_t kStackSize = 1 << 16;
alignas(16) char stack_apart[kStackSize];

// Memory that ends where the mapping of the thread pointer starts; null when that is taken.
void* stack_beside() {
  auto here = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  uintptr_t start = 0, end = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps && (here < start || here >= end))
    if (fscanf(maps, "%lx-%lx%*[^\n]", &start, &end) != 2) return nullptr;
  if (maps) fclose(maps);
  void* at = mmap(reinterpret_cast<void*>(start - kStackSize), kStackSize, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

void* secret_stack() {
  constexpr int kMemfdSecret = 447;
  const int memory = static_cast<int>(syscall(kMemfdSecret, 0));
  if (memory < 0 || ftruncate(memory, kStackSize) != 0) exit(1);
  void* at = mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) exit(1);
  std::thread([] {
    for (;;) pause();
  }).detach();
  return at;
}

void* stack_of(std::string_view mode) {
  return mode == "beside" ? stack_beside() : mode == "secret" ? secret_stack() : stack_apart;
}

void on_fault(int, siginfo_t*, void* context) {
  raise(SIGUSR1);
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RDI] = reinterpret_cast<greg_t>(&good);
}

void on_other_stack(int) {
  static const char inside[] = "{\"event\":\"inside\"}\n";
  if (write(STDOUT_FILENO, inside, sizeof inside - 1) < 0) _exit(98);
  timespec left{static_cast<time_t>(milliseconds / 1000), static_cast<long>(milliseconds % 1000) * 1'000'000};
  while (nanosleep(&left, &left) != 0) {
  }
}

// In every context that a handler leaves: traps behind each instruction, or none any more.
volatile bool stepping;
constexpr greg_t kTrapFlag = 0x100;

void on_step_or_not(int, siginfo_t*, void* context) {
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  flags = stepping ? flags | kTrapFlag : flags & ~kTrapFlag;
}

void on_step(int signal, siginfo_t* info, void* context) {
  constexpr unsigned char kJump = 0xe9;
  const auto* pc =
      reinterpret_cast<const unsigned char*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  if (stepping && pc > reinterpret_cast<const unsigned char*>(t_hosted) && pc < t_hosted_end &&
      *pc == kJump) {
    on_other_stack(signal);
    stepping = false;
  }
  on_step_or_not(signal, info, context);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  alarm(static_cast<unsigned>(atoi(argv[1])));
  stack_t stack{};
  stack.ss_sp = stack_of(argv[2]);
  stack.ss_size = kStackSize;
  if (!stack.ss_sp) execv("/proc/self/exe", argv);  // another layout; the alarm goes on
  if (!stack.ss_sp || sigaltstack(&stack, nullptr) != 0) return 1;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  const int where =
      argv[2] == std::string_view("secret") ? SA_ONSTACK : 0;  // else the fault is on its own stack
  action.sa_flags = SA_SIGINFO | SA_NODEFER | where;
  sigaction(SIGSEGV, &action, nullptr);
  action.sa_handler = on_other_stack;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = on_step;
  sigaction(SIGTRAP, &action, nullptr);
  action.sa_sigaction = on_step_or_not;
  sigaction(SIGUSR2, &action, nullptr);
  protocol::say_event("ready", protocol::field("t_hosted", reinterpret_cast<unsigned long>(t_hosted)));
  unsigned long sum = 0;
  for (protocol::Command command = protocol::next_command(); command.word != "quit";
       command = protocol::next_command()) {
    const bool step = command.word == "step", linger = command.word == "linger";
    const bool interrupt = command.word.starts_with("interrupt");
    auto* function = linger                              ? t_lingers
                     : step || command.word == "often"   ? t_hosted
                     : command.word == "interrupt_short" ? t_short
                                                         : t_window;
    const unsigned long calls = step || interrupt || linger ? 1 : command.number;
    milliseconds = step || interrupt ? command.number : 0;
    if (linger)
      t_linger_time = {static_cast<time_t>(command.number / 1000),
                       static_cast<long>(command.number % 1000) * 1'000'000};
    stepping = step;
    if (step) raise(SIGUSR2);
    for (unsigned long i = 0; i < calls; ++i)
      sum += static_cast<unsigned long>(function(interrupt ? nullptr : &good));
    stepping = false;
    if (step) raise(SIGUSR2);
    protocol::say_event("done", protocol::field("sum", sum));
  }
  return 0;
}
