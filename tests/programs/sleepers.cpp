// Threads asleep in one system call each. An attach must not wake them: none may see EINTR
// or return for another reason, and each must still wake when it is asked to.
//
//   sleepers [SECONDS [CALL,CALL...]]
//
// It ends by itself after SECONDS (120; 0: never). With calls, there are threads in these only.
//
// Raw system calls, because the C library restarts or hides some results. Commands:
//
//   report    answers {"event":"report","threads":N,"woken":{CALL:ERRNO,...},"interrupted":{CALL:TIMES,...}}:
//             the calls that returned although nobody asked them to (0 = returned without an
//             error), and those that failed with EINTR, after which they were made again
//   wake      everybody who can be woken is; answers {"event":"woken","awake":N,"expected":N}
//   start     three other threads call t_sleepers_work and t_sleepers_outer (once for three calls
//             of t_sleepers_work) until they are told to pause; answers {"event":"running"}
//   pause     answers {"event":"paused","work":N,"outer":N,"wrong":N} when they have: calls since the
//             start of the program, and results that were not right
//   vfork MS  the first thread waits for a vforked child that sleeps in epoll_wait that long; answers
//   {"event":
//             "vforked","interrupted":N}: calls of the two that failed with EINTR
//   quit      ends with status 0
//
// `short_sleep` and `short_poll` are different: they sleep for 30 ms again and again and note
// an EINTR, and a sleep that was too short or more than two seconds too long.
#include "sleepers.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <thread>

#include "protocol.h"

namespace {

std::list<std::thread> threads;
std::atomic<int> short_interrupted{0}, short_wrong_length{0}, short_too_early{0}, short_done{0};

// Sleeps shortly, over and over.
template <typename Call>
void short_sleeper(Call call) {
  threads.emplace_back([call] {
    while (true) {
      timespec before, after;
      clock_gettime(CLOCK_MONOTONIC, &before);
      long result = call();
      int error = errno;
      clock_gettime(CLOCK_MONOTONIC, &after);
      double seconds = static_cast<double>(after.tv_sec - before.tv_sec) +
                       1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
      if (result < 0 && error == EINTR) ++short_interrupted;
      if (seconds < 0.030) ++short_too_early;
      if (seconds < 0.030 || seconds > 2.0) ++short_wrong_length;
      ++short_done;
    }
  });
}

// Something to count, in functions that check themselves.
std::atomic<uint64_t> work, outer, wrong;
std::atomic<bool> running{false};
std::atomic<int> busy{0};
constexpr int kWorkers = 3;

void report() {
  std::string woken, interrupted;
  for (Sleeper& entry : sleepers) {
    if (entry.interrupted)
      interrupted += std::string(interrupted.empty() ? "" : ",") + "\"" + entry.name +
                     "\":" + std::to_string(entry.interrupted.exchange(0));
    if (!entry.returned) continue;
    long result = entry.result;
    woken += std::string(woken.empty() ? "" : ",") + "\"" + entry.name +
             "\":" + std::to_string(result < 0 ? -result : 0);
  }
  protocol::say_event(
      "report", protocol::field("threads", sleepers.size()) + ",\"woken\":{" + woken + "},\"interrupted\":{" +
                    interrupted + "}," +
                    protocol::field("short_interrupted", static_cast<unsigned>(short_interrupted)) + "," +
                    protocol::field("short_too_early", static_cast<unsigned>(short_too_early)) + "," +
                    protocol::field("short_wrong_length", static_cast<unsigned>(short_wrong_length)) + "," +
                    protocol::field("short_done", static_cast<unsigned>(short_done)));
}

void wake_and_count() {
  wake_all();
  unsigned expected = 0, awake = 0;
  for (int tries = 0; tries < 2000; ++tries) {  // 20 s, on a busy machine
    expected = awake = 0;
    for (Sleeper& entry : sleepers) {
      if (!can_be_woken(entry.name)) continue;
      ++expected;
      if (entry.returned && entry.result >= 0) ++awake;
    }
    if (awake == expected) break;
    usleep(10000);
  }
  protocol::say_event("woken", protocol::field("awake", awake) + "," + protocol::field("expected", expected));
}

void end() {
  close_everything();
  _exit(0);
}

}  // namespace

extern "C" __attribute__((noinline, used)) uint64_t t_sleepers_work(uint64_t x) {
  work.fetch_add(1, std::memory_order_relaxed);
  asm volatile("" : "+r"(x));
  return x * 3 + 1;
}

extern "C" __attribute__((noinline, used)) uint64_t t_sleepers_outer(uint64_t x) {
  outer.fetch_add(1, std::memory_order_relaxed);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 3; ++i) sum += t_sleepers_work(x + i);
  asm volatile("" : "+r"(sum));
  return sum;
}

namespace {

void worker() {
  while (true) {
    running.wait(false);
    ++busy;
    for (uint64_t i = 0; running; ++i) {
      if (t_sleepers_outer(i) != 9 * i + 12) ++wrong;
      if (i % 2048 == 0) usleep(100);  // some half of the time: others have work, too
    }
    --busy;
  }
}

void rest() {
  running = false;
  while (busy != 0) usleep(200);
  protocol::say_event("paused", protocol::field("work", work) + "," + protocol::field("outer", outer) + "," +
                                    protocol::field("wrong", wrong));
}

void vfork_child(unsigned long milliseconds) {
  static volatile unsigned long interrupted;  // the child runs in this memory
  int nothing = epoll_create1(EPOLL_CLOEXEC), status = 0;
  interrupted = 0;
  pid_t sleeping = vfork();
  if (sleeping == 0) {
    epoll_event got;
    if (syscall(SYS_epoll_wait, nothing, &got, 1, milliseconds) != 0) interrupted = interrupted + 1;
    _exit(0);
  }
  if (sleeping < 0) interrupted = interrupted + 1;
  while (wait4(sleeping, &status, 0, nullptr) < 0 && errno == EINTR) interrupted = interrupted + 1;
  close(nothing);
  protocol::say_event("vforked", protocol::field("interrupted", interrupted));
}

void start() {
  running = true;
  running.notify_all();
  while (busy != kWorkers) usleep(200);
  protocol::say_event("running");
}

}  // namespace

// Something to instrument that nobody calls while the sleepers sleep.
extern "C" __attribute__((noinline, used)) void t_sleepers_idle() {
  asm volatile("nop; nop; nop; nop; nop; nop");
}

int main(int argc, char** argv) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  signal(SIGALRM, [](int) { end(); });
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  open_everything();
  start_sleepers(argc > 2 ? argv[2] : "");
  short_sleeper([] {
    timespec time{0, 30'000'000};
    return syscall(SYS_nanosleep, &time, nullptr);
  });
  short_sleeper([] { return syscall(SYS_poll, nullptr, 0, 31); });
  for (int i = 0; i < kWorkers; ++i) std::thread(worker).detach();
  usleep(100000);
  t_sleepers_idle();

  protocol::say_event("ready");
  while (true) {
    protocol::Command command = protocol::next_command();
    const std::string& word = command.word;
    if (word == "report") {
      report();
    } else if (word == "wake") {
      wake_and_count();
    } else if (word == "start") {
      start();
    } else if (word == "vfork") {
      vfork_child(command.number);
    } else if (word == "pause") {
      rest();
    } else {
      end();
    }
  }
}
