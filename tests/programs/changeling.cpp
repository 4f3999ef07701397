// A process that becomes something else when it is told to, while mdl-inject stands between two of its system calls.
//
//   changeling HEIR ADDRESS [PLUGIN]
//
// Its first thread sleeps in epoll_wait, which the kernel fails with EINTR after a stop that nobody mends. One thread calls t_work
// all the time, and t_plugin_work of the library PLUGIN, one sleeps in a read, and one spins at ADDRESS, in a page that is mapped
// there: in HEIR (heir.cpp) that is spoil(), so whoever puts its registers into HEIR is seen. Not where ADDRESS is 0. A further thread takes orders on
// standard input and answers them ({"event":"done"}), but for those that end it:
//
//   execute      executes HEIR; `first` leaves that to the first thread
//   users        gets the user and groups of nobody, where it had others
//   confine      under a seccomp filter, of all its threads, that fails munmap, memfd_create, ftruncate
//   threads      two threads end, and others are started; `ended` has their ids
//   alone        its first thread ends, and its process lives on
//   remap        its code is a mapping of no file from here on, with the same bytes at the same place
//   unload       of the library
//   exit         ends it; `leave` ends it, but its memory stays, in another process (`sharer`) for five seconds
//   report       `wrong`: how often something was not what it had to be
//
// At its start it makes a twin, a copy by fork, which ends by a signal only: {"event":"ready","twin":PID}. SIGUSR1 lets the
// twin fork another one. Twins end with status 1 when their registers were changed or a call was interrupted. A test that starts
// this has a pid namespace of its own, which ends all of them.
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "protocol.h"
#include "steady.h"

namespace {

constexpr uintptr_t kPage = 4096;
constexpr uid_t kNobody = 65534;

std::atomic<unsigned> wrong = 0;
std::atomic<bool> works = true, interrupts = false;
std::mutex plugin_used;
void* plugin = nullptr;
int wakes_first = -1;
int sleeps[2];
std::string heir;
std::atomic<pid_t> worker = 0, sleeper = 0;

void check(bool done, const char* what) {
  if (done) return;
  perror(what);
  _exit(98);
}

pid_t own_thread() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

}  // namespace

extern "C" __attribute__((noinline, used)) uint64_t t_work(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x * 3;
}

namespace {

void spin_at(uintptr_t address) {
  void* page =
      mmap(reinterpret_cast<void*>(address & ~(kPage - 1)), kPage, PROT_READ | PROT_WRITE | PROT_EXEC,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  check(page != MAP_FAILED, "mmap");
  memcpy(reinterpret_cast<void*>(address), "\xf3\x90\xeb\xfc", 4);  // pause; jmp back
  std::thread([address] { reinterpret_cast<void (*)()>(address)(); }).detach();
}

void work() {
  worker = own_thread();
  for (uint64_t i = 0; works; ++i) {
    if (t_work(i) != i * 3) ++wrong;
    {
      const std::lock_guard lock(plugin_used);
      using Function = uint64_t (*)(uint64_t);
      if (plugin && reinterpret_cast<Function>(dlsym(plugin, "t_plugin_work"))(i) != i * 2) ++wrong;
    }
    usleep(300);
  }
}

void sleep_in_read() {
  sleeper = own_thread();
  char byte;
  if (read(sleeps[0], &byte, 1) != 1) ++wrong;
}

std::thread threads[2];

void start_threads() {
  works = true, worker = sleeper = 0;
  threads[0] = std::thread(work);
  threads[1] = std::thread(sleep_in_read);
  while (!worker || !sleeper) usleep(50);
}

std::string change_threads() {
  const std::string ended = "\"ended\":[" + std::to_string(worker) + "," + std::to_string(sleeper) + "]";
  works = false;
  check(write(sleeps[1], "x", 1) == 1, "write");
  for (std::thread& one : threads) one.join();
  start_threads();
  return ended;
}

void execute() {
  char* words[] = {heir.data(), nullptr};
  execv(words[0], words);
  _exit(97);
}

// The C library sends each thread a signal for that.
void take_user() {
  if (getuid() != 0) return;
  interrupts = true;
  check(setgroups(0, nullptr) == 0 && setresgid(kNobody, kNobody, kNobody) == 0 &&
            setresuid(kNobody, kNobody, kNobody) == 0,
        "setresuid");
}

void confine() {
  constexpr uint32_t kFails = SECCOMP_RET_ERRNO | EPERM;
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 2, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 1, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ftruncate, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, kFails),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program = {std::size(filter), filter};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  check(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0, "seccomp");
}

// The call returns to the new mapping.
void remap() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t start = 0, end = 0;
    char access[5] = {};
    if (sscanf(line.c_str(), "%lx-%lx %4s", &start, &end, access) != 3 || access[2] != 'x' ||
        line.find("changeling") == line.npos)
      continue;
    const size_t size = end - start;
    void* copy = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(copy != MAP_FAILED, "mmap");
    memcpy(copy, reinterpret_cast<void*>(start), size);
    check(mprotect(copy, size, PROT_READ | PROT_EXEC) == 0, "mprotect");
    check(
        mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<void*>(start)) != MAP_FAILED,
        "mremap");
  }
}

void unload() {
  const std::lock_guard lock(plugin_used);
  if (plugin) dlclose(plugin);
  plugin = nullptr;
}

int stay(void*) {
  for (int i = 0; i < 50; ++i) usleep(100'000);
  syscall(SYS_exit, 0);
  return 0;
}

pid_t leave_memory() {
  constexpr size_t kStack = 1 << 16;
  static char stack[kStack] __attribute__((aligned(16)));
  const int sharer = clone(stay, stack + kStack, CLONE_VM | CLONE_FS, nullptr);
  check(sharer > 0, "clone");
  return sharer;
}

void obey() {
  while (true) {
    const protocol::Command command = protocol::next_command();
    const std::string& word = command.word;
    std::string more;
    if (word == "execute") execute();
    if (word == "exit" || word == "") _exit(0);
    if (word == "users") take_user();
    if (word == "confine") confine();
    if (word == "threads") more = change_threads();
    if (word == "remap") remap();
    if (word == "unload") unload();
    if (word == "leave") more = protocol::field("sharer", static_cast<unsigned>(leave_memory()));
    if (word == "report") more = protocol::field("wrong", wrong);
    if (word == "first" || word == "alone") {
      const uint64_t what = word == "first" ? 1 : 2;
      check(write(wakes_first, &what, sizeof what) == sizeof what, "write");
      if (what == 1) continue;
    }
    protocol::say_event("done", more);
    if (word == "leave") _exit(0);
  }
}

volatile sig_atomic_t twins;

[[noreturn]] void be_twin() {
  struct sigaction action {};
  action.sa_handler = [](int) { twins = twins + 1; };
  sigaction(SIGUSR1, &action, nullptr);
  close(STDIN_FILENO), close(STDOUT_FILENO);
  const int nothing = epoll_create1(0);
  for (int made = 0;;) {
    if (steady(100) != 0) _exit(1);
    epoll_event event;
    const int got = epoll_wait(nothing, &event, 1, 2);
    if (twins != made) {
      made = twins;
      if (fork() < 0) _exit(1);
    } else if (got < 0) {
      _exit(1);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 98;
  signal(SIGPIPE, SIG_IGN);
  const pid_t twin = fork();
  if (twin == 0) be_twin();
  heir = argv[1];
  if (argc > 3) plugin = dlopen(argv[3], RTLD_NOW);
  check(pipe(sleeps) == 0, "pipe");
  wakes_first = eventfd(0, 0);
  const int events = epoll_create1(0);
  epoll_event event{.events = EPOLLIN, .data = {}};
  check(epoll_ctl(events, EPOLL_CTL_ADD, wakes_first, &event) == 0, "epoll_ctl");
  if (const uintptr_t address = strtoul(argv[2], nullptr, 16)) spin_at(address);
  start_threads();
  std::thread(obey).detach();
  protocol::say_event("ready", protocol::field("twin", static_cast<unsigned>(twin)));
  while (epoll_wait(events, &event, 1, -1) != 1)
    if (!interrupts) ++wrong;
  uint64_t what = 0;
  check(read(wakes_first, &what, sizeof what) == sizeof what, "read");
  if (what == 1) execute();
  syscall(SYS_exit, 0);
}
