// Calls that know what can be asked about them: the time, what processor time each took, and the error it left.
//
//   answers [SECONDS]
//
//   stamp N    four threads call t_stamp N times each. "calls"; "before" and "after": sums of CLOCK_MONOTONIC, read
//              right before and right behind each call
//   burn N     N rounds: t_burn(1) spins, t_burn(2) sleeps, t_burn(3) spins and calls t_burn(1). "count1", "least1" and
//              "most1": how often t_burn(1) was called, and bounds of the thread's CPU time in it, by clocks inside
//              and outside of it; likewise 2 and 3
//   fail N     four threads call t_fail N times each, with numbers from 0 to 4: 0 is returned and leaves errno as it is,
//              others are left in errno, and -1 returned. "error1" to "error4": how often each was left. The last call
//              of each thread is read(2) of a descriptor that is not open: "unread", how often
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

extern "C" __attribute__((noipa, used)) long t_fail(int number) {
  if (number == 0) return 0;
  errno = number;
  return -1;
}

namespace {

constexpr int kKeys = 4;  // from 1 on

std::atomic<unsigned long> calls;
std::atomic<long> before_all, after_all;
constexpr int kErrors = 5;  // from 1 on
std::atomic<unsigned long> errors[kErrors], unread;
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

template <typename Work>
void in_four_threads(Work work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

void stamp(unsigned long number) {
  in_four_threads([number](int) {
    for (unsigned long k = 0; k < number; ++k) {
      const long before = now();
      t_stamp(before);
      after_all += now();
      before_all += before;
      ++calls;
    }
  });
}

void fail(unsigned long number) {
  in_four_threads([number](int thread) {
    for (unsigned long k = 0; k < number; ++k) {
      const int error = static_cast<int>(k + static_cast<unsigned long>(thread)) % kErrors;
      ++errors[error];
      t_fail(error);
    }
    char byte;
    unread += read(-1, &byte, 1) < 0;
  });
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
  for (int error = 1; error < kErrors; ++error)
    fields += "," + field(("error" + std::to_string(error)).c_str(), errors[error]);
  protocol::say_event(event, fields + "," + field("unread", unread));
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  answer("ready");
  while (true) {
    const protocol::Command command = protocol::next_command();
    if (command.word == "stamp") {
      stamp(command.number);
    } else if (command.word == "fail") {
      fail(command.number);
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
