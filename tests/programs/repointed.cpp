// A thread that has another thread pointer for a while, as under an emulator, and calls a function meanwhile.
//
//   repointed [SECONDS]
//
// Commands (protocol.h): `go N` calls t_meanwhile N times with 0 for a thread pointer, and t_before as often without.
// Where the kernel does not allow that, "set" is 0.
#include <sys/auxv.h>

#include "protocol.h"

extern "C" long t_meanwhile(long x);
extern "C" __attribute__((noinline)) long t_before(long x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}
// Without a stack protector, which the thread pointer leads to.
asm(R"(
  .text
  .globl t_meanwhile
  .type t_meanwhile, @function
  .p2align 4
t_meanwhile:
  .cfi_startproc
  leaq 3(%rdi,%rdi,2), %rax
  xorq $0x55, %rax
  ret
  .cfi_endproc
  .size t_meanwhile, . - t_meanwhile
)");

namespace {

void* own_pointer() {
  void* out;
  asm("mov %%fs:0, %0" : "=r"(out));
  return out;
}

const bool kMaySet = getauxval(AT_HWCAP2) & 2;  // HWCAP2_FSGSBASE
inline __attribute__((always_inline)) void set_pointer(const void* to) {
  asm volatile("wrfsbase %0" ::"r"(to) : "memory");
}

__attribute__((optimize("no-stack-protector"))) void call_meanwhile(void* own) {
  if (kMaySet) set_pointer(nullptr);
  t_meanwhile(1);
  if (kMaySet) set_pointer(own);
}

}  // namespace

int main(int argc, char** argv) {
  const auto round = [](unsigned long) {
    t_before(1);
    call_meanwhile(own_pointer());
  };
  return protocol::go(argc, argv, round, [] { return protocol::field("set", kMaySet); });
}
