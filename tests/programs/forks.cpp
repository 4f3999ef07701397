// A process that forks in many ways, and for each process of its family the truth of what it has counted.
//
//   forks [SECONDS]
//
// Each answer carries the family's records:
// {"event":"done","family":[{"pid":..,"work":..,"inside":..,"cpu":..}]}. `work` is how often that process
// itself called t_work since it was forked, `inside` how often of these while its thread was in t_outer,
// `cpu` the CPU time in ns that it has spent in t_timed since the fork, `wall` the time that it measured in t_lasts.
// The first record is this process's own. Commands (protocol.h), which wait for the children that they make:
//
//   work N      N calls
//   workers N   four children at once, N calls each
//   short N     N children, one after the other, with one call each
//   deep N      a child, its child and that one's child, N calls each
//   inside N    in t_outer: N calls, then a child is forked; both call N times inside, and N times outside
//   thread N    three threads call N times each while a fourth forks three children; each of these
//               calls N times and starts a thread that does, too
//   exec N      a child that calls N times and executes another program
//   failed N    a child that calls N times, fails to execute, and calls N times more
//   spawn N     N calls of posix_spawn and of vfork, each with one call of t_work before
//   raw N       a child that the C library does not know of, with N calls
//   kill N      a child that calls N times, says so to nobody, waits 300 ms and is killed
//   timed N     in t_timed: a child is forked, which works N ms there; the parent waits
//   lasts N     a child whose first call is one of t_lasts, which takes N ms
//   early N     a child that calls nothing but fork, exits, and leaves a child behind that calls N times
//   drop N      becomes nobody's, where it was root's, and calls N times
//   thread_drop a thread of its becomes nobody's, and sleeps
//   user N      a child that does that and waits; `end` kills it
//   idle        a child that calls nothing and waits; `end` kills it
//   daemon N    N calls; then this process forks a child, which forks another one; both parents end at
//               once, and the last one calls N times and serves on
//   quit        ends with status 0
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "protocol.h"

#define COUNTED extern "C" __attribute__((noinline, used))

namespace {

struct Record {
  std::atomic<int> pid;
  std::atomic<uint64_t> work, inside, cpu, wall;
};
constexpr int kRecords = 4096;
struct Family {
  std::atomic<int> count;
  Record records[kRecords];
};
Family* family;  // shared by all of it
Record* own;
thread_local int depth;

Record* begin_record() {
  Record* record = &family->records[family->count.fetch_add(1)];
  record->pid = getpid();
  return record;
}

uint64_t ns_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}
uint64_t cpu_ns() {
  return ns_of(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace

COUNTED void t_work(int x) {
  own->work.fetch_add(1);
  if (depth > 0) own->inside.fetch_add(1);
  asm volatile("" : "+r"(x));
}

namespace {

void work(unsigned long times) {
  for (unsigned long i = 0; i < times; i++) t_work(1);
}

// The child runs `body` and ends; its pid.
template <typename Body>
pid_t child(const Body& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  alarm(60);
  own = begin_record();
  body();
  _exit(0);
}

void wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
}

void answer(const char* event) {
  std::string list;
  for (int i = 0; i < family->count; i++) {
    const Record& one = family->records[i];
    list += (i ? ",{" : "{") + protocol::field("pid", static_cast<unsigned>(one.pid)) + "," +
            protocol::field("work", one.work) + "," + protocol::field("inside", one.inside) + "," +
            protocol::field("cpu", one.cpu) + "," + protocol::field("wall", one.wall) + "}";
  }
  protocol::say_event(event, "\"family\":[" + list + "]");
}

}  // namespace

COUNTED void t_outer(unsigned long times) {
  depth++;
  work(times);
  const pid_t pid = fork();
  if (pid == 0) own = begin_record();
  work(times);
  depth--;
  asm volatile("" ::"r"(&pid) : "memory");
  if (pid == 0) return;
  wait_for(pid);
}

COUNTED pid_t t_timed(unsigned long milliseconds) {
  const pid_t pid = fork();
  if (pid == 0) {
    own = begin_record();
    while (cpu_ns() < milliseconds * 1'000'000) {
    }
    own->cpu = cpu_ns();
    return 0;
  }
  wait_for(pid);
  return pid;
}

COUNTED void t_lasts(unsigned long milliseconds) {
  const uint64_t begin = ns_of(CLOCK_MONOTONIC);
  uint64_t now = begin;
  while (now < begin + milliseconds * 1'000'000) now = ns_of(CLOCK_MONOTONIC);
  own->wall = now - begin;
}

namespace {

void fork_from_a_thread(unsigned long times) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++) threads.emplace_back([times] { work(times); });
  threads.emplace_back([times] {
    std::vector<pid_t> children;
    for (int i = 0; i < 3; i++)
      children.push_back(child([times] {
        std::thread other([times] { work(times); });
        work(times);
        other.join();
      }));
    for (pid_t pid : children) wait_for(pid);
  });
  for (std::thread& thread : threads) thread.join();
}

void fork_deep(unsigned long times, int levels) {
  if (levels == 0) return;
  wait_for(child([=] {
    work(times);
    fork_deep(times, levels - 1);
  }));
}

char name_of_true[] = "true";
char* const arguments_of_true[] = {name_of_true, nullptr};

__attribute__((noinline)) pid_t vfork_true() {
  const pid_t pid = vfork();
  if (pid == 0) {
    execve("/bin/true", arguments_of_true, environ);
    _exit(127);
  }
  return pid;
}

void spawn(unsigned long times) {
  for (unsigned long i = 0; i < times; i++) {
    pid_t pid = 0;
    work(1);
    if (posix_spawn(&pid, "/bin/true", nullptr, nullptr, arguments_of_true, environ) == 0) wait_for(pid);
    work(1);
    wait_for(vfork_true());
  }
}

void become_a_daemon(unsigned long times) {
  work(times);
  if (fork() != 0) _exit(0);
  own = begin_record();
  work(1);
  if (fork() != 0) _exit(0);
  own = begin_record();
  work(times);
}

constexpr uid_t kNobody = 65534;

void drop(unsigned long times) {
  if (setresgid(kNobody, kNobody, kNobody) != 0 || setresuid(kNobody, kNobody, kNobody) != 0) _exit(98);
  work(times);
}

// Of that thread alone: the system call, not the C library's.
void drop_in_a_thread() {
  static std::atomic<bool> done = false;
  std::thread([] {
    if (syscall(SYS_setresuid, kNobody, kNobody, kNobody) != 0) _exit(98);
    done = true;
    while (true) pause();
  }).detach();
  while (!done) usleep(1000);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  family = static_cast<Family*>(
      mmap(nullptr, sizeof(Family), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  own = begin_record();
  pid_t idle = 0;
  answer("ready");
  while (true) {
    const protocol::Command command = protocol::next_command();
    const std::string& word = command.word;
    const unsigned long n = command.number;
    if (word == "work") {
      work(n);
    } else if (word == "workers") {
      std::vector<pid_t> pids;
      for (int i = 0; i < 4; i++) pids.push_back(child([n] { work(n); }));
      for (pid_t pid : pids) wait_for(pid);
    } else if (word == "short") {
      for (unsigned long i = 0; i < n; i++) wait_for(child([] { work(1); }));
    } else if (word == "deep") {
      fork_deep(n, 3);
    } else if (word == "inside") {
      const pid_t before = getpid();
      t_outer(n);
      work(n);
      if (getpid() != before) _exit(0);
    } else if (word == "thread") {
      fork_from_a_thread(n);
    } else if (word == "exec" || word == "failed") {
      wait_for(child([&] {
        work(n);
        execl(word == "exec" ? "/bin/sleep" : "/nowhere", "sleep", "1.5", nullptr);
        work(n);
      }));
    } else if (word == "spawn") {
      spawn(n);
    } else if (word == "raw") {
      const auto pid = static_cast<pid_t>(syscall(SYS_fork));
      if (pid == 0) {
        own = begin_record();
        work(n);
        usleep(1'000'000);
        _exit(0);
      }
      wait_for(pid);
    } else if (word == "kill") {
      wait_for(child([n] {
        work(n);
        usleep(300'000);
        kill(getpid(), SIGKILL);
      }));
    } else if (word == "timed") {
      if (t_timed(n) == 0) _exit(0);
    } else if (word == "lasts") {
      wait_for(child([n] { t_lasts(n); }));
    } else if (word == "early") {
      const int left = family->count;  // the number of the one that is left behind
      const pid_t pid = fork();
      if (pid == 0) {
        if (fork() != 0) _exit(0);
        own = begin_record();
        usleep(20'000);
        work(n);
        _exit(0);
      }
      wait_for(pid);
      while (family->records[left].work < static_cast<uint64_t>(n)) usleep(1000);
    } else if (word == "thread_drop") {
      drop_in_a_thread();
    } else if (word == "drop") {
      drop(n);
    } else if (word == "idle" || word == "user") {
      const int before = family->count;
      idle = child([&] {
        if (word == "user") drop(n);
        while (true) pause();
      });
      while (family->count == before || (word == "user" && family->records[before].work < n)) usleep(1000);
    } else if (word == "end") {
      kill(idle, SIGKILL);
      wait_for(idle);
    } else if (word == "daemon") {
      become_a_daemon(n);
    } else {
      return 0;
    }
    answer("done");
  }
}
