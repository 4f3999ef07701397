// Thousands of short-lived threads, so that thread pointers and stacks are reused.
//
//   churn [SECONDS]
//
// Commands: `go N` runs N threads, sixteen at a time (`crowd N`: three hundred), each calling t_work a known
// number of times, every third of them from inside t_outer; answers {"event":"done","work":..,
// "outer_work":..} with totals since the start. `leave N` runs N threads, one after the other, each of
// which ends inside t_outer after one call of t_work: by pthread_exit, or, every second one, by a
// system call that no library sees. `quit` ends with status 0.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "protocol.h"

namespace {
std::atomic<uint64_t> work, outer_work;
}

extern "C" __attribute__((noinline, used)) uint64_t t_work(uint64_t x) {
  work.fetch_add(1);
  asm volatile("" : "+r"(x));
  return x * 3;
}

enum class Leave : uint64_t { normally, by_exit, by_system_call };

extern "C" __attribute__((noinline, used)) uint64_t t_outer(uint64_t x, Leave leave) {
  uint64_t sum = 0;
  if (leave != Leave::normally) {
    t_work(x);
    outer_work.fetch_add(1);
    if (leave == Leave::by_exit) pthread_exit(nullptr);
    syscall(SYS_exit, 0);
  }
  for (int i = 0; i < 3; ++i) sum += t_work(x);
  outer_work.fetch_add(3);
  asm volatile("" : "+r"(sum));
  return sum;
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready",
                      protocol::field("work", work) + "," + protocol::field("outer_work", outer_work));
  for (protocol::Command command = protocol::next_command();
       command.word == "go" || command.word == "crowd" || command.word == "leave";
       command = protocol::next_command()) {
    for (unsigned long i = 0; command.word == "leave" && i < command.number; ++i)
      std::thread([i] { t_outer(i, i % 2 == 0 ? Leave::by_exit : Leave::by_system_call); }).join();
    if (command.word == "leave") command.number = 0;
    const unsigned long together = command.word == "crowd" ? 300 : 16;
    std::vector<std::thread> threads;
    for (unsigned long i = 0; i < command.number; ++i) {
      threads.emplace_back([i] {
        for (unsigned long k = 0; k <= i % 5; ++k) t_work(k);
        if (i % 3 == 0) t_outer(i, Leave::normally);
      });
      if (threads.size() == together || i + 1 == command.number) {
        for (std::thread& thread : threads) thread.join();
        threads.clear();
      }
    }
    protocol::say_event("done",
                        protocol::field("work", work) + "," + protocol::field("outer_work", outer_work));
  }
  return 0;
}
