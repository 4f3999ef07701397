// Processes in states that are seldom met in tests and often in production.
//
//   guarded SECONDS MODE
//
//   plain      nothing special
//   nogain     no memory may become executable after it was writable: what systemd's
//              MemoryDenyWriteExecute= puts in place, by the same filter on mmap and mprotect
//   filtered   only the system calls that this program needs, and those that a service is usually
//              allowed for memory; memfd_create is not among them (killed by SIGSYS)
//   leaderless the first thread has ended; a second one goes on
//   pointerless a second thread has no thread pointer, as one that is just starting
//   borrowed   a second thread has the first one's thread pointer, as clone without its C library makes it
//   dispatched its system calls come back to it as SIGSYS, and end it, but those that the C library makes
//   dispatched-beside  the same, with a second thread of which nothing is special
//   narrow     a second thread runs 32-bit code
//   edge       the first thread is at the end of its stack, right above a guard page; a second one goes on
//   deep       its only thread is at the end of the first thread's stack, which grows when it is written to; no commands
//   locked     all memory is locked, what will be mapped, too (mlockall(2)); and no right to lock more than the limit
//   untimed    it may not read the time stamp counter (PR_SET_TSC)
//   raising    its only thread raises a signal again and again until it is told what to do
//   crossing   a third thread puts a file at the lowest free descriptor and takes it away, again and again; what it
//              finds there that it did not put there, and what becomes of the file, counts as interrupted
//   mapping    four threads map and unmap memory all the time, gigabytes of addresses
//   remapped   the program's file is mapped a second time, far away, as V8 does with its code
//
// Commands: `work N` calls t_work N times; `vfork N` does so and then waits half a second for a
// vforked child, in a sleep that no signal interrupts; `longvfork N` does that for 2.4 seconds;
// `copy` copies the page of t_work to memory of its own, and puts that in its place, as programs do that want their
// code on huge pages; `away` moves the page of t_movable to another address, `back` moves it back, and `far N` calls
// t_movable N times, each of which counts as work; `borrow` starts the second thread of `borrowed`; `discard` gives back the pages of its code, which are read from the file again; `quit` ends with status 0. Answers {"event":"done","work":TOTAL,"interrupted":N}: how often the wait for a
// child, or its own sleep, failed with EINTR.
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <thread>
#include <vector>

#include "dispatch.h"
#include "protocol.h"

namespace {

unsigned long work;
std::atomic<unsigned long> interrupted;

}  // namespace

extern "C" __attribute__((noinline, used)) uint64_t t_work(uint64_t x) {
  ++work;
  asm volatile("" : "+r"(x));
  return x * 3;
}

// Alone on its page.
extern "C" uint64_t t_movable(uint64_t x);
asm(R"(
  .pushsection .text.movable, "ax"
  .balign 4096
  .globl t_movable
  .type t_movable, @function
t_movable:
  lea (%rdi,%rdi,2), %rax
  add $1, %rax
  ret
  .size t_movable, . - t_movable
  .balign 4096
  .popsection
)");

namespace {

using Filter = std::vector<sock_filter>;

constexpr uint32_t kNumber = offsetof(seccomp_data, nr);
constexpr uint32_t kThirdArgument = offsetof(seccomp_data, args) + 2 * 8;  // protection of mmap and mprotect

void load(Filter& filter, uint32_t offset) {
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}
void answer(Filter& filter, uint32_t value) {
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, value));
}

// Denies a call whose third argument has all of these bits.
void deny_protection(Filter& filter, uint32_t call, uint32_t bits) {
  load(filter, kNumber);
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4));
  load(filter, kThirdArgument);
  filter.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bits, 0, 1));
  answer(filter, SECCOMP_RET_ERRNO | EPERM);
}

void install(Filter& filter) {
  sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    perror("guarded: seccomp");
    exit(1);
  }
}

void deny_executable_gain() {
  Filter filter;
  deny_protection(filter, SYS_mmap, PROT_WRITE | PROT_EXEC);
  deny_protection(filter, SYS_mprotect, PROT_EXEC);
  deny_protection(filter, SYS_pkey_mprotect, PROT_EXEC);
  answer(filter, SECCOMP_RET_ALLOW);
  install(filter);
}

void allow_few_calls() {
  Filter filter;
  load(filter, kNumber);
  for (uint32_t call : {SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_futex, SYS_mmap, SYS_munmap,
                        SYS_mprotect, SYS_brk, SYS_rt_sigreturn, SYS_restart_syscall, SYS_vfork, SYS_wait4}) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    answer(filter, SECCOMP_RET_ALLOW);
  }
  answer(filter, SECCOMP_RET_KILL_PROCESS);
  install(filter);
}

void wait_for_vforked_child(timespec sleep) {
  pid_t child = vfork();
  if (child == 0) {
    if (nanosleep(&sleep, nullptr) != 0) ++interrupted;  // in the same memory
    _exit(0);
  }
  int status = 0;
  if (child < 0) ++interrupted;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) ++interrupted;
}

bool lock_memory() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  return mlockall(MCL_CURRENT | MCL_FUTURE) == 0 && syscall(SYS_capset, &header, none) == 0;
}

void map_own_file_far_away() {
  constexpr uintptr_t kFar = 0x100000000000;
  int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (file < 0 || mmap(reinterpret_cast<void*>(kFar), 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE,
                       file, 0) == MAP_FAILED) {
    perror("guarded: mmap");
    exit(1);
  }
  close(file);
}

// A raw thread that clears its fs base and never calls into a library again.
int without_pointer(void*) {
  asm volatile(
      "movl $158, %%eax\n movl $0x1002, %%edi\n xorl %%esi, %%esi\n syscall\n"  // arch_prctl(ARCH_SET_FS, 0)
      "1: pause\n jmp 1b"
      :
      :
      : "rax", "rdi", "rsi", "rcx", "r11", "memory");
  return 0;
}

int with_pointer_of_its_maker(void*) {
  while (true) asm volatile("pause");
}

constexpr size_t kPage = 4096;

[[noreturn]] void stay_with_stack(char* at) {
  asm volatile("mov %0, %%rsp\n 1: pause\n jmp 1b" : : "r"(at) : "memory");
  __builtin_unreachable();
}

[[noreturn]] void stay_at_the_edge() {
  char* stack = static_cast<char*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (stack == MAP_FAILED || mprotect(stack, kPage, PROT_NONE) != 0) exit(1);
  stay_with_stack(stack + kPage + 64);
}

// The kernel has given it the page that it is in, and none below.
[[noreturn]] void stay_deep_in_the_stack() {
  char here = 0;
  const uintptr_t page = (reinterpret_cast<uintptr_t>(&here) - (400 << 10)) & ~(kPage - 1);
  *reinterpret_cast<volatile char*>(page + 64) = 1;
  protocol::say_event("ready");
  stay_with_stack(reinterpret_cast<char*>(page + 64));
}

void start_raw_thread(int (*routine)(void*)) {
  static char stack[16384];
  clone(routine, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD,
        nullptr);
}

bool copy_code() {
  void* code = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&t_work) & ~(kPage - 1));
  void* copy = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return false;
  std::memcpy(copy, code, kPage);
  return mprotect(copy, kPage, PROT_READ | PROT_EXEC) == 0 &&
         mremap(copy, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, code) == code;
}

bool discard_code() {
  void* code = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&t_work) & ~(kPage - 1));
  return madvise(code, kPage, MADV_DONTNEED) == 0;
}

// The code of t_movable to another address, or back.
bool move_code(bool back) {
  static void* const away =
      mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);  // what is moved takes its place
  void* const home = reinterpret_cast<void*>(&t_movable);
  void* const to = back ? home : away;
  return mremap(back ? away : home, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

void call_movable(unsigned long calls) {
  for (unsigned long i = 0; i < calls; ++i) work += t_movable(i) == 3 * i + 1;
}

void raise_until_told() {
  std::signal(SIGUSR1, [](int) {});
  for (pollfd input = {STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) == 0;) raise(SIGUSR1);
}

// The thread that is made first is the one that is asked first to make calls for others.
void cross_descriptors() {
  const int file = memfd_create("crossing", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, 1) != 0) _exit(98);
  const int place = dup(file);
  close(place);
  std::thread(pause).detach();
  std::thread([file, place] {
    constexpr int kLooks = 50;
    while (true) {
      struct stat is {};
      if (dup2(file, place) != place || fstat(place, &is) != 0 || is.st_size != 1 || close(place) != 0)
        ++interrupted;
      for (int look = 0; look < kLooks; ++look)
        if (fcntl(place, F_GETFD) >= 0) ++interrupted;
    }
  }).detach();
}

// Threads that take and give back gigabytes of addresses all the time, around the libraries.
void map_and_unmap() {
  constexpr int kThreads = 4, kPlaces = 64, kSizes = 15;
  for (unsigned thread = 0; thread < kThreads; ++thread)
    std::thread([seed = thread + 1]() mutable {
      std::vector<std::pair<void*, size_t>> places(kPlaces);
      while (true) {
        auto& [at, size] = places[rand_r(&seed) % kPlaces];
        if (at) munmap(at, size);
        size = kPage << rand_r(&seed) % kSizes;
        at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) _exit(98);
      }
    }).detach();
}

[[noreturn]] void serve(bool raises = false) {
  protocol::say_event("ready", protocol::field("work", work));
  while (true) {
    if (raises) raise_until_told();
    protocol::Command command = protocol::next_command();
    bool is_long = command.word == "longvfork", is_vfork = is_long || command.word == "vfork";
    if (command.word == "borrow") start_raw_thread(with_pointer_of_its_maker);
    const bool is_copy = command.word == "copy", is_discard = command.word == "discard";
    const bool is_away = command.word == "away", is_back = command.word == "back";
    if ((is_away || is_back) && !move_code(is_back)) _exit(1);
    const bool is_far = command.word == "far";
    if (is_far) call_movable(command.number);
    if (!is_away && !is_back && !is_far && command.word != "work" && command.word != "borrow" && !is_vfork &&
        !is_copy && !is_discard)
      _exit(0);
    if ((is_copy && !copy_code()) || (is_discard && !discard_code())) _exit(1);
    for (unsigned long i = 0; i < command.number && !is_far; ++i) t_work(i);
    if (is_vfork) wait_for_vforked_child(is_long ? timespec{2, 400'000'000} : timespec{0, 500'000'000});
    protocol::say_event(
        "done", protocol::field("work", work) + "," + protocol::field("interrupted", interrupted.load()));
  }
}

// A loop of two bytes, which is the same in both modes, where a far return in the mode of segment 0x23 leads.
void start_narrow_thread() {
  constexpr uint64_t kSegment = 0x23;
  auto* const code = static_cast<uint8_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0));
  if (code == MAP_FAILED) _exit(98);
  code[0] = 0xeb, code[1] = 0xfe;
  mprotect(code, 4096, PROT_READ | PROT_EXEC);
  std::thread([code] { asm volatile("push %0; push %1; lretq" : : "r"(kSegment), "r"(code)); }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  alarm(static_cast<unsigned>(atoi(argv[1])));
  const std::string mode = argv[2];
  if (mode == "leaderless") {
    std::thread([] { serve(); }).detach();
    pthread_exit(nullptr);
  }
  if (mode == "edge") {
    std::thread([] { serve(); }).detach();
    stay_at_the_edge();
  }
  if (mode == "deep") stay_deep_in_the_stack();
  if (mode == "pointerless") start_raw_thread(without_pointer);
  if (mode == "borrowed") start_raw_thread(with_pointer_of_its_maker);
  if (mode == "narrow") start_narrow_thread();
  if (mode == "dispatched-beside") std::thread(pause).detach();
  if (mode.starts_with("dispatched")) dispatch_calls();
  if (mode == "locked" && !lock_memory()) return 1;
  if (mode == "crossing") cross_descriptors();
  if (mode == "mapping") map_and_unmap();
  if (mode == "remapped") map_own_file_far_away();
  if (mode == "untimed" && prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0) return 1;
  if (mode == "nogain") deny_executable_gain();
  if (mode == "filtered") allow_few_calls();
  serve(mode == "raising");
}
