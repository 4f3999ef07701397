// What a constraint must count: calls of t_g while t_h is on the thread's own stack.
//
//   within [SECONDS]
//
// At "ready" thread B sleeps inside t_h, two frames deep, and thread A sleeps outside it.
// Commands (protocol.h); every answer carries the truth since the program's start:
//
//   go N      A, N times: t_g outside, t_h (recursive, calling t_g at every level on the way
//             in and out), t_g outside. Answers {"event":"done","inside":..,"total":..}
//   wake      B calls t_g inside both of its frames of t_h, leaves them, calls t_g outside
//   throw N   A, N times: an exception leaves three frames of t_h; then t_g outside
//   jump N    A, N times: longjmp leaves three frames of t_h; then t_g outside
//   quit      ends with status 0
//
// `inside` counts with a depth that each thread keeps by hand, put right after a throw and a
// jump: a frame that is gone is not on the stack.
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csetjmp>
#include <functional>
#include <mutex>
#include <thread>

#include "protocol.h"

#define COUNTED extern "C" __attribute__((noinline, used))

namespace {

std::atomic<uint64_t> inside, total, h_entries, h_returns;
thread_local uint64_t depth;
thread_local jmp_buf jump_target;

enum class Leave { normally, by_throw, by_jump, after_wake };

// One thread with one job at a time; run() returns when the job is done.
class Worker {
 public:
  Worker() : thread_([this] { loop(); }) {}
  ~Worker() {
    run(nullptr);
    thread_.join();
  }
  void run(std::function<void()> job) {
    start(std::move(job));
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !busy_; });
  }
  // Waits for the job before.
  void start(std::function<void()> job) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !busy_; });
    job_ = std::move(job);
    busy_ = true;
    changed_.notify_all();
  }

 private:
  void loop() {
    while (true) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return busy_; });
        job = job_;
      }
      if (job) job();
      std::lock_guard lock(mutex_);
      busy_ = false;
      changed_.notify_all();
      if (!job) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool busy_ = false;
  std::thread thread_;
};

int sleep_pipe[2];
std::atomic<bool> asleep{false};

void sleep_inside() {
  char c = 0;
  asleep = true;
  while (read(sleep_pipe[0], &c, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace

COUNTED void t_g() {
  total.fetch_add(1);
  if (depth > 0) inside.fetch_add(1);
}

COUNTED uint64_t t_h(int levels, Leave leave) {
  h_entries.fetch_add(1);
  ++depth;
  if (levels > 0) {
    t_g();
    t_h(levels - 1, leave);
  } else if (leave == Leave::by_throw) {
    throw 1;
  } else if (leave == Leave::by_jump) {
    longjmp(jump_target, 1);
  } else if (leave == Leave::after_wake) {
    sleep_inside();
  }
  t_g();
  --depth;
  h_returns.fetch_add(1);
  return total;
}

namespace {

void leave_by_throw() {
  try {
    t_h(2, Leave::by_throw);
  } catch (int) {
    depth = 0;
  }
  t_g();
}

void leave_by_jump() {
  if (setjmp(jump_target) == 0) {
    t_h(2, Leave::by_jump);
  } else {
    depth = 0;
  }
  t_g();
}

void leave_normally() {
  t_g();
  t_h(4, Leave::normally);
  t_g();
}

std::string truth() {
  return protocol::field("inside", inside) + "," + protocol::field("total", total) + "," +
         protocol::field("h_entries", h_entries) + "," + protocol::field("h_returns", h_returns);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  if (pipe(sleep_pipe) != 0) return 1;
  Worker a;
  Worker b;
  std::atomic<bool> b_done{false};
  b.start([&] {
    t_h(1, Leave::after_wake);
    for (int i = 0; i < 7; ++i) t_g();
    b_done = true;
  });
  while (!asleep) usleep(1000);
  usleep(20000);  // from the store to the system call

  protocol::say_event("ready", truth());
  while (true) {
    protocol::Command command = protocol::next_command();
    auto repeat = [&](void (*once)()) {
      a.run([&] {
        for (unsigned long i = 0; i < command.number; ++i) once();
      });
    };
    if (command.word == "go") {
      repeat(leave_normally);
    } else if (command.word == "throw") {
      repeat(leave_by_throw);
    } else if (command.word == "jump") {
      repeat(leave_by_jump);
    } else if (command.word == "wake") {
      if (write(sleep_pipe[1], "w", 1) != 1) return 1;
      b.run([] {});
    } else {
      break;
    }
    protocol::say_event("done", truth());
  }
  if (!b_done && write(sleep_pipe[1], "w", 1) != 1) return 1;
  return 0;
}
