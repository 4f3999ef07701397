// A thread that waits below code of which no table says how its frames are, as a compiler at run time makes it.
//
// Commands: `wait` has such code call t_wait. That calls t_touch at each of many depths, and then waits for a
// command in a frame that it has not written to: what those calls have left lies there. It says "inside" before
// and "done" after it.
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "protocol.h"

#define KEEP extern "C" __attribute__((noinline, used))

namespace {

uint64_t touched;

using Waits = uint64_t (*)();

// sub $8, %rsp; movabs $waits, %rax; call *%rax; add $8, %rsp; ret
Waits calls(Waits waits) {
  uint8_t code[] = {0x48, 0x83, 0xec, 0x08, 0x48, 0xb8, 0,    0,    0,    0,   0,
                    0,    0,    0,    0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3};
  std::memcpy(code + 6, &waits, sizeof waits);
  void* place = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) abort();
  std::memcpy(place, code, sizeof code);
  if (mprotect(place, 4096, PROT_READ | PROT_EXEC) != 0) abort();
  return reinterpret_cast<Waits>(place);
}

constexpr size_t kDeep = 8192;

__attribute__((noinline)) void wait_in_a_frame() {
  char frame[2 * kDeep];
  char* begin = frame;
  asm volatile("" : "+r"(begin)::"memory");
  protocol::say_event("inside", protocol::field("touched", touched));
  protocol::next_command();
  asm volatile("" ::"r"(begin) : "memory");
}

}  // namespace

KEEP uint64_t t_touch(uint64_t x) {
  asm volatile("" : "+r"(x));
  ++touched;
  return x + 1;
}

static __attribute__((noinline)) void touch_at(size_t depth) {
  void* space = __builtin_alloca(depth);
  asm volatile("" : "+r"(space)::"memory");
  t_touch(depth);
  asm volatile("" ::"r"(space) : "memory");
}

KEEP uint64_t t_wait() {
  for (size_t depth = 0; depth < kDeep; depth += 16) touch_at(depth);
  wait_in_a_frame();
  return touched;
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  const Waits through = calls(t_wait);
  protocol::say_event("ready", protocol::field("touched", touched));
  for (protocol::Command command = protocol::next_command(); command.word != "quit" && !command.word.empty();
       command = protocol::next_command()) {
    if (command.word == "wait") through();
    protocol::say_event("done", protocol::field("touched", touched));
  }
  return 0;
}
