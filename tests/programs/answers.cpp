// Calls that know what can be asked about them: the time, and what processor time each took, by a key.
//
//   answers [SECONDS]
//
//   stamp N    four threads call t_stamp N times each. "calls"; "before" and "after": sums of CLOCK_MONOTONIC, read
//              right before and right behind each call
//   burn N     N rounds: t_burn(1) spins, t_burn(2) sleeps, t_burn(3) spins and calls t_burn(1). "count1", "least1" and
//              "most1": how often t_burn(1) was called, and bounds of the thread's CPU time in it, by clocks inside
//              and outside of it; likewise 2 and 3
//   quit       ends with status 0
// Answers carry all of that since the start.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "protocol.h"
#include "truth.h"

extern "C" __attribute__((noipa, used)) long t_stamp(long before) {
  asm volatile("" : "+r"(before));
  return before + 1;
}

namespace {

constexpr int kKeys = 4;  // from 1 on

std::atomic<unsigned long> calls;
std::atomic<long> before_all, after_all;
Truth burnt[kKeys];

long cpu() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

void burn(long key);

}  // namespace

extern "C" __attribute__((noipa, used)) long t_burn(long key, long* inside) {
  const long begin = cpu();
  if (key == 2) usleep(1000);
  while (key != 2 && cpu() - begin < 200'000) {
  }
  if (key == 3) burn(1);
  *inside = cpu() - begin;
  return key;
}

namespace {

void burn(long key) {
  long inside = 0;
  const long begin = cpu();
  t_burn(key, &inside);
  burnt[key].add(inside, cpu() - begin);
}

void stamp(unsigned long number) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([number] {
      for (unsigned long k = 0; k < number; ++k) {
        const long before = now();
        t_stamp(before);
        after_all += now();
        before_all += before;
        ++calls;
      }
    });
  for (std::thread& thread : threads) thread.join();
}

void answer(const char* event) {
  using protocol::field;
  const auto number = [](long value) { return static_cast<unsigned long long>(value); };
  std::string fields = field("calls", calls) + "," + field("before", number(before_all)) + "," +
                       field("after", number(after_all));
  for (int key = 1; key < kKeys; ++key) {
    const std::string of = std::to_string(key);
    fields += "," + field(("count" + of).c_str(), burnt[key].count) + "," +
              field(("least" + of).c_str(), number(burnt[key].least)) + "," +
              field(("most" + of).c_str(), number(burnt[key].most));
  }
  protocol::say_event(event, fields);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  answer("ready");
  while (true) {
    const protocol::Command command = protocol::next_command();
    if (command.word == "stamp") {
      stamp(command.number);
    } else if (command.word == "burn") {
      for (unsigned long i = 0; i < command.number; ++i)
        for (long key = 1; key < kKeys; ++key) burn(key);
    } else {
      break;
    }
    answer("done");
  }
  return 0;
}
