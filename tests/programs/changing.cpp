// Threads at work while what is measured of them changes.
//
//   changing SECONDS [THREADS]
//
// Each of the threads (4) does rounds of one and the same kind: t_outer, which calls t_work three times and
// t_deep, which calls itself down to t_work; then t_pause, which sleeps now and then; and t_message with the
// numbers 1 to 4, t_marked, and t_branchy, which calls t_branch in a loop that leads to behind the call. Commands
// (protocol.h):
//
//   start   the threads go on with their rounds; one of them has begun, and makes some before it pauses
//   pause   they stop between two rounds: {"event":"paused","rounds":..,"work":..,"outer":..,"deep":..,
//           "inside":..,"tiny":..,"branch":..,"wrong":..}, counted by the threads themselves since the beginning; `inside`:
//           calls of t_work while t_deep is active
//   hold N  one more thread stands inside t_deep, N calls deep, until "let": {"event":"held"}
//   let     it calls t_work once in each of these frames on its way out: {"event":"out"}
//   quit    ends with status 0
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "protocol.h"

#define COUNTED extern "C" __attribute__((noinline, used))

namespace {

std::atomic<uint64_t> rounds, works, outers, deeps, insides, tinies, branches, wrongs;
thread_local uint64_t depth;

std::mutex mutex;
std::condition_variable changed;
bool running = false, ending = false;
unsigned at_work = 0;
int held[2], waiting[2];

}  // namespace

COUNTED uint64_t t_tiny(uint64_t x) {
  return x + 1;
}

COUNTED uint64_t t_work(uint64_t x) {
  works.fetch_add(1, std::memory_order_relaxed);
  if (depth) insides.fetch_add(1, std::memory_order_relaxed);
  tinies.fetch_add(1, std::memory_order_relaxed);
  return t_tiny(x * 3);
}

COUNTED uint64_t t_deep(uint64_t levels, bool waits) {
  deeps.fetch_add(1, std::memory_order_relaxed);
  ++depth;
  uint64_t out = levels;
  if (levels > 0) {
    out += t_deep(levels - 1, waits);
  } else if (waits) {
    char c = 1;
    if (write(waiting[1], &c, 1) != 1 || read(held[0], &c, 1) != 1) wrongs.fetch_add(1);
  }
  out += t_work(levels) - levels * 3;
  --depth;
  return out;
}

COUNTED uint64_t t_message(int tag) {
  return t_work(static_cast<uint64_t>(tag));
}

// A word of data is the address of its second instruction, so the audit of its entry finds that control may
// arrive there, which the planner of windows does not look for.
extern "C" uint64_t t_marked(uint64_t x);
asm(R"(
  .text
  .globl t_marked
  .type t_marked, @function
  .p2align 6
t_marked:
  .cfi_startproc
  movq %rdi, %rax
.Lmarked:
  addq $5, %rax
  ret
  .cfi_endproc
  .size t_marked, . - t_marked
  .data
  .p2align 3
  .quad .Lmarked
  .text
)");

// Calls t_branch(x) twice. Its first branch leads to where that comes back.
extern "C" void t_branchy(uint64_t x);
asm(R"(
  .text
  .globl t_branchy
  .type t_branchy, @function
t_branchy:
  .cfi_startproc
  pushq %rbx
  .cfi_def_cfa_offset 16
  .cfi_offset %rbx, -16
  pushq %r12
  .cfi_def_cfa_offset 24
  .cfi_offset %r12, -24
  pushq %rax
  .cfi_def_cfa_offset 32
  movq %rdi, %r12
  movl $2, %ebx
  jmp 2f
1:movq %r12, %rdi
  call t_branch
2:decl %ebx
  jns 1b
  popq %rax
  .cfi_def_cfa_offset 24
  popq %r12
  .cfi_def_cfa_offset 16
  popq %rbx
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .size t_branchy, . - t_branchy
)");

COUNTED void t_branch(uint64_t levels) {
  branches.fetch_add(1, std::memory_order_relaxed);
  if (levels > 0) t_branchy(levels - 1);
  asm volatile("" ::: "memory");
}

COUNTED uint64_t t_outer(uint64_t x) {
  outers.fetch_add(1, std::memory_order_relaxed);
  uint64_t out = 0;
  for (uint64_t i = 0; i < 3; i++) out += t_work(x + i);
  return out + t_deep(3, false);
}

namespace {

void round() {
  // 3(3x + 3) + 3 of the loop; 6 levels and 4 ones of t_deep.
  if (t_outer(7) != 3 * (3 * 7 + 3) + 3 + 6 + 4) wrongs.fetch_add(1);
  for (int tag = 1; tag <= 4; tag++)
    if (t_message(tag) != static_cast<uint64_t>(tag) * 3 + 1) wrongs.fetch_add(1);
  if (t_marked(7) != 12) wrongs.fetch_add(1);
  t_branchy(2);
  rounds.fetch_add(1, std::memory_order_relaxed);
}

void work() {
  unsigned turns = 0;
  std::unique_lock lock(mutex);
  while (!ending) {
    changed.wait(lock, [] { return running || ending; });
    if (at_work++ == 0) changed.notify_all();
    while (running) {
      lock.unlock();
      for (int i = 0; i < 16; i++) round();
      if (++turns % 8 == 0) usleep(300);  // some half of the time: others have work, too
      lock.lock();
    }
    if (--at_work == 0) changed.notify_all();
  }
}

std::string truth() {
  using protocol::field;
  return field("rounds", rounds) + "," + field("work", works) + "," + field("outer", outers) + "," +
         field("deep", deeps) + "," + field("inside", insides) + "," + field("tiny", tinies) + "," +
         field("branch", branches) + "," + field("wrong", wrongs);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(strtoul(argv[1], nullptr, 10)) : 120);
  if (pipe(held) != 0 || pipe(waiting) != 0) return 1;
  std::vector<std::thread> threads(argc > 2 ? strtoul(argv[2], nullptr, 10) : 4);
  for (std::thread& thread : threads) thread = std::thread(work);
  std::thread holder;
  char c = 0;
  protocol::say_event("ready", truth());
  while (true) {
    const protocol::Command command = protocol::next_command();
    std::unique_lock lock(mutex);
    if (command.word == "start") {
      running = true;
      changed.notify_all();
      changed.wait(lock, [] { return at_work > 0; });
      protocol::say_event("running");
    } else if (command.word == "pause") {
      running = false;
      changed.wait(lock, [] { return at_work == 0; });
      protocol::say_event("paused", truth());
    } else if (command.word == "hold") {
      holder = std::thread([levels = command.number] { t_deep(levels - 1, true); });
      if (read(waiting[0], &c, 1) != 1) return 1;
      protocol::say_event("held");
    } else if (command.word == "let") {
      if (write(held[1], &c, 1) != 1) return 1;
      holder.join();
      protocol::say_event("out", truth());
    } else {
      ending = true;
      running = false;
      changed.notify_all();
      lock.unlock();
      for (std::thread& thread : threads) thread.join();
      return 0;
    }
  }
}
