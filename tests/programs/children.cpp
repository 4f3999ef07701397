// Processes that appear and end: fork, vfork, exec, exit and death by a signal.
//
//   children [SECONDS]
//
// `work` in an answer is how often this process itself called t_work; what a fork's child
// does is its own. Commands:
//
//   work N     N calls; answers {"event":"done","work":..}
//   fork N     a child that makes N calls and a grandchild that makes N; waits for them; answers
//              with "status", the child's exit status (0 when its own results were right)
//   vfork N    N calls, then a vforked child that executes /bin/true; answers with "status"
//   exec N     N calls, then this process becomes `children` anew (its "ready" follows)
//   daemon N   N calls, then this process forks and ends; the child answers {"event":"daemon","pid":..} and
//              serves on
//
//   return N, exit N, _exit N, quick_exit N, thread_exit N (another thread calls exit), syscall_exit N
//   (exit_group by the C library's syscall), large_exit N and large_kill N (with much that the kernel has to
//   take back), exit_group N (a system call that no library sees), kill N (SIGKILL), abort N (SIGABRT)
//              N calls, then that end
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "protocol.h"

namespace {

std::atomic<uint64_t> work;

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 255;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

extern "C" __attribute__((noinline, used)) uint64_t t_work(uint64_t x) {
  work.fetch_add(1);
  asm volatile("" : "+r"(x));
  return x * 3;
}

namespace {

bool do_work(unsigned long times) {
  uint64_t sum = 0;
  for (unsigned long i = 0; i < times; ++i) sum += t_work(i);
  return times == 0 || sum == 3 * (times * (times - 1) / 2);
}

int fork_children(unsigned long times) {
  pid_t child = fork();
  if (child == 0) {
    pid_t grandchild = fork();
    if (grandchild == 0) _exit(do_work(times) ? 0 : 1);
    bool ok = do_work(times);
    _exit(wait_for(grandchild) == 0 && ok ? 0 : 1);
  }
  return wait_for(child);
}

int vfork_child() {
  pid_t child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(127);
  }
  return wait_for(child);
}

// Much for the kernel to take back at the end, of 64 MiB: each of their pages is mapped 256 times.
void map_much() {
  constexpr size_t kBytes = 64 << 20;
  const int file = memfd_create("much", 0);
  if (ftruncate(file, kBytes) != 0) abort();
  for (int i = 0; i < 256; i++)
    if (mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0) == MAP_FAILED)
      abort();
}

void answer(int status) {
  protocol::say_event(
      "done", protocol::field("work", work) + "," + protocol::field("status", static_cast<unsigned>(status)));
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready", protocol::field("work", work));
  while (true) {
    protocol::Command command = protocol::next_command();
    const std::string& word = command.word;
    if (word == "fork") {
      answer(fork_children(command.number));
      continue;
    }
    bool ok = do_work(command.number);
    const pid_t parent = getpid();
    if (word == "work") {
      answer(ok ? 0 : 1);
    } else if (word == "vfork") {
      answer(vfork_child());
    } else if (word == "exec") {
      execv("/proc/self/exe", argv);
      return 1;
    } else if (word == "exit") {
      exit(6);
    } else if (word == "daemon") {
      pid_t child = fork();
      if (child != 0) _exit(0);
      while (getppid() == parent) usleep(1000);
      protocol::say_event("daemon", protocol::field("pid", static_cast<unsigned long>(getpid())));
    } else if (word == "quick_exit") {
      quick_exit(9);
    } else if (word == "thread_exit") {
      std::thread([] { exit(5); }).join();
    } else if (word == "large_exit") {
      map_much();
      _exit(8);
    } else if (word == "large_kill") {
      map_much();
      kill(getpid(), SIGKILL);
    } else if (word == "syscall_exit") {
      syscall(SYS_exit_group, 12);
    } else if (word == "exit_group") {
      asm volatile("syscall" : : "a"(SYS_exit_group), "D"(4) : "rcx", "r11", "memory");
    } else if (word == "kill") {
      kill(getpid(), SIGKILL);
    } else if (word == "return") {
      return 7;
    } else if (word == "_exit") {
      _exit(8);
    } else if (word == "abort") {
      abort();
    } else {
      return 0;
    }
  }
}
