// A target that does what it can to make an injector wait, with the rights of its user.
//
//   obstinate SECONDS [lock | lock-by-child | lock-of=PID | handle-of=PID | trace-by-child |
//                      call-mdl-inject | threads=N | deep=BYTES | busy | unfilled | maps=N]...
//
// `lock`: it holds flock(2) on its own memory; `lock-by-child`: a child holds it; `lock-of=PID`: it holds that of
// another process; `handle-of=PID`: on a handle of it (pidfd_open(2)). `trace-by-child`: a child has seized it. `call-mdl-inject`: the child, or without one the process
// itself, has that name. `threads=N` threads sleep, each below so many bytes of stack (`deep`), where no table
// describes the frames; `busy`: each word there looks like the address of a place in turn(); `unfilled`: the
// page below what is in use of the last one's stack waits for userfaultfd(2), and nobody fills it; the threads do
// not sleep then: one that runs is the first to make calls for an injector. `maps=N`: it has
// that many mappings more. Answers {"event":"ready","child":PID}. Commands:
// `child` answers {"event":"done","alive":0 or 1}, `turn N` calls turn(), `longest` answers {"event":"done","ms":..},
// the longest time for which the process stood, since the last such answer; `quit`.
#include <alloca.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <string_view>
#include <thread>
#include <vector>

#include "protocol.h"

extern "C" __attribute__((noinline, used)) unsigned long turn(unsigned long x) {
  asm volatile("imul $3, %0, %0\n\tlea 1(%0), %0\n\timul $5, %0, %0" : "+r"(x));
  return x + 1;
}

namespace {

using Clock = std::chrono::steady_clock;

bool lock_memory(pid_t of) {
  const int file = open(("/proc/" + std::to_string(of) + "/mem").c_str(), O_RDONLY);
  return file >= 0 && flock(file, LOCK_EX) == 0;
}

bool lock_handle(pid_t pid) {
  const int file = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  return file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0;
}

// A child does it, and says so. It ends with its parent.
template <typename Do>
pid_t in_child(bool named, const Do& act) {
  int ends[2];
  if (pipe(ends) != 0) _exit(90);
  const pid_t parent = getpid();
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (named) prctl(PR_SET_NAME, "mdl-inject");
    const char done = act(parent) ? 1 : 0;
    if (write(ends[1], &done, 1) != 1) _exit(91);
    for (;;) pause();
  }
  char done = 0;
  if (child < 0 || read(ends[0], &done, 1) != 1 || done != 1) _exit(92);
  return child;
}

// The frame below is described by no table: the walk ends here, and the stack is scanned.
extern "C" void sleep_undescribed();
extern "C" void run_undescribed();
asm(R"(
  .text
  .globl sleep_undescribed
  .type sleep_undescribed, @function
sleep_undescribed:
  push %rsp  # or the frame could be guessed
1: mov $34, %eax  # pause(2)
  syscall
  jmp 1b
  .size sleep_undescribed, . - sleep_undescribed
  .globl run_undescribed
  .type run_undescribed, @function
run_undescribed:
  push %rsp
1: pause
  jmp 1b
  .size run_undescribed, . - run_undescribed
)");
bool runs = false;

unsigned long filling;
volatile unsigned long one = 1;
std::atomic<unsigned long> below;  // the page below what is in use of the stack of one of the threads

__attribute__((noinline)) void sleep_deep(size_t bytes) {
  auto* words = static_cast<volatile unsigned long*>(alloca(bytes));
  for (size_t i = 0; i < bytes / sizeof *words; i++) words[i] = filling;
  // The stack pointer is moved to the lower end of a page.
  constexpr unsigned long kPage = 4096, kAbove = 128;
  const unsigned long in_page = reinterpret_cast<unsigned long>(words) % kPage;
  auto* end = static_cast<volatile char*>(alloca(in_page + kPage - kAbove));
  *end = 1;
  below = reinterpret_cast<unsigned long>(end) / kPage * kPage - kPage;
  runs ? run_undescribed() : sleep_undescribed();
}

struct Thread {
  size_t bytes;
  static void* run(void* self) {
    sleep_deep(static_cast<Thread*>(self)->bytes);
    return nullptr;
  }
};

// A page of it that nobody ever fills: userfaultfd(2).
bool take_page_away(unsigned long start) {
  constexpr unsigned long kPage = 4096;
  const int faults = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
  uffdio_api api{};
  api.api = UFFD_API;
  uffdio_register range{};
  range.range = {start, kPage};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  return faults >= 0 && ioctl(faults, UFFDIO_API, &api) == 0 && ioctl(faults, UFFDIO_REGISTER, &range) == 0 &&
         madvise(reinterpret_cast<void*>(start), kPage, MADV_DONTNEED) == 0;
}

// Every other page of a range can be read: each of them and each between them is a mapping.
bool map_often(unsigned long mappings) {
  constexpr unsigned long kPage = 4096;
  auto* range = static_cast<char*>(
      mmap(nullptr, mappings * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (range == MAP_FAILED) return false;
  for (unsigned long i = 0; i < mappings; i += 2)
    if (mprotect(range + i * kPage, kPage, PROT_READ) != 0) return false;
  return true;
}

std::atomic<long> longest_ms;
void watch() {
  auto last = Clock::now();
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto now = Clock::now();
    const long passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - last).count();
    if (passed > longest_ms) longest_ms = passed;
    last = now;
  }
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  bool named = false;
  size_t threads = 0, deep = 4096;
  for (int i = 2; i < argc; i++) {
    const std::string_view word = argv[i];
    if (word == "call-mdl-inject") named = true;
    if (word == "unfilled") runs = true;
    // Not a constant: the injector would take that for a pointer into the code.
    if (word == "busy") filling = reinterpret_cast<unsigned long>(&turn) + one;
    if (word.starts_with("threads=")) threads = strtoul(argv[i] + 8, nullptr, 10);
    if (word.starts_with("deep=")) deep = strtoul(argv[i] + 5, nullptr, 10);
  }
  pid_t child = 0;
  for (int i = 2; i < argc; i++) {
    const std::string_view word = argv[i];
    if (word == "lock" && !lock_memory(getpid())) return 80;
    if (word.starts_with("maps=") && !map_often(strtoul(argv[i] + 5, nullptr, 10))) return 84;
    if (word.starts_with("lock-of=") && !lock_memory(atoi(argv[i] + 8))) return 81;
    if (word.starts_with("handle-of=") && !lock_handle(atoi(argv[i] + 10))) return 83;
    if (word == "lock-by-child") child = in_child(named, lock_memory);
    if (word == "trace-by-child")
      child =
          in_child(named, [](pid_t parent) { return ptrace(PTRACE_SEIZE, parent, nullptr, nullptr) == 0; });
  }
  if (named && child == 0) prctl(PR_SET_NAME, "mdl-inject");
  std::vector<pthread_t> running(threads);
  Thread thread{deep};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, deep + (1 << 18));
  for (pthread_t& one : running)
    if (pthread_create(&one, &attributes, Thread::run, &thread) != 0) return 82;
  for (int i = 2; i < argc; i++)
    if (std::string_view(argv[i]) == "unfilled") {
      while (!below) usleep(1000);
      usleep(100'000);
      if (!take_page_away(below)) return 83;
    }
  std::thread watcher;
  if (threads > 0) watcher = std::thread(watch);
  protocol::say_event("ready", protocol::field("child", static_cast<unsigned>(child)));
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word.empty() || command.word == "quit") break;
    unsigned long calls = 0;
    for (unsigned long i = 0; command.word == "turn" && i < command.number; i++) calls = turn(calls);
    int status = 0;
    const bool alive = child > 0 && waitpid(child, &status, WNOHANG) == 0;
    protocol::say_event("done",
                        protocol::field("calls", calls) + "," + protocol::field("alive", alive) + "," +
                            protocol::field("ms", static_cast<unsigned long>(longest_ms.exchange(0))));
  }
  _exit(0);
}
