// Calls that take known times: what a program's own clock says of each, around it and inside of it.
//
//   durations [SECONDS]
//
//   go N       four new threads, N times each: t_spin for some microseconds; t_deep, which calls itself; t_throws,
//              which now and then does; t_jumps, which now and then leaves by longjmp; t_tail, which jumps to t_spin.
//              A signal that may come anywhere in them calls t_spin, too. Answers {"event":"done",...}
//              with totals since the start: for each function FUNCTION_count (its returns), FUNCTION_least and
//              FUNCTION_most (bounds of the sum in ns: by clocks inside and outside of it)
//   deeper N   t_deep calls itself N times at once; answers the same
//   quit       ends with status 0
// From the start on, a thread is in t_waits, and returns from it with the first command.
#include <sys/time.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "protocol.h"
#include "truth.h"

namespace {

enum Function { kSpin, kDeep, kThrows, kJumps, kTail, kFunctions };
constexpr const char* kNames[] = {"t_spin", "t_deep", "t_throws", "t_jumps", "t_tail"};

std::mutex mutex;
Truth all[kFunctions];
thread_local Truth truth[kFunctions];
thread_local Truth handled;  // t_spin in the handler
thread_local jmp_buf back;
volatile bool first_command = false;

}  // namespace

// Each yields for how long it ran, as it knows itself.
extern "C" {
__attribute__((noinline, used)) long t_spin(long ns) {
  const long begin = now();
  long end = begin;
  while (end - begin < ns) end = now();
  return end - begin;
}

__attribute__((noinline, used)) long t_deep(long depth, long* least) {
  const long begin = now();
  if (depth == 7) raise(SIGPROF);
  if (depth > 0) t_deep(depth - 1, least);
  const long ran = now() - begin;
  *least += ran;
  asm volatile("" : : : "memory");
  return ran;
}

__attribute__((noinline, used)) long t_throws(long number) {
  const long begin = now();
  if (number % 3 == 0) throw std::runtime_error("as it shall");
  return now() - begin;
}

__attribute__((noinline, used)) long t_jumps(long number) {
  const long begin = now();
  if (number % 3 == 0) longjmp(back, 1);
  return now() - begin;
}

__attribute__((noinline, used)) long t_tail(long ns) {
  asm volatile("" : : : "memory");
  return t_spin(ns + 1);  // a jump, with -O2
}

__attribute__((noinline, used)) void t_waits() {
  while (!first_command) usleep(1000);
  asm volatile("" : : : "memory");
}
}

namespace {

template <typename Call>
void measure(Truth& into, Call call) {
  const long begin = now();
  const long inside = call();
  into.most += now() - begin;
  into.least += inside;
  into.count++;
}

void handle(int) {
  measure(handled, [] { return t_spin(2000); });
}

void throws(long number) {
  Truth one;
  try {
    measure(one, [&] { return t_throws(number); });
    truth[kThrows].add(one);
  } catch (const std::runtime_error&) {
  }
}

__attribute__((noinline)) void jumps(long number) {
  if (setjmp(back) == 0) measure(truth[kJumps], [&] { return t_jumps(number); });
}

void deep(long depth) {
  const long begin = now();
  long least = 0;
  t_deep(depth, &least);
  truth[kDeep].most += (now() - begin) * (depth + 1);
  truth[kDeep].least += least;
  truth[kDeep].count += static_cast<unsigned long>(depth) + 1;
}

void mask(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPROF);
  pthread_sigmask(how, &signals, nullptr);
}

void work(unsigned long n, unsigned long depth) {
  mask(SIG_UNBLOCK);
  for (unsigned long i = 0; i < n; i++) {
    const auto number = static_cast<long>(i);
    measure(truth[kSpin], [&] { return t_spin(1000 + number % 7 * 3000); });
    deep(number % 20);
    throws(number);
    jumps(number);
    measure(truth[kSpin], [&] { return t_tail(3000); });
    truth[kTail].count++;
  }
  if (depth > 0) deep(static_cast<long>(depth));
  mask(SIG_BLOCK);
  truth[kSpin].add(handled);
  std::lock_guard lock(mutex);
  for (int f = 0; f < kFunctions; f++) all[f].add(truth[f]);
}

void tell() {
  std::string text;
  for (int f = 0; f < kFunctions; f++) {
    const std::string name = kNames[f];
    text += (f ? "," : "") + protocol::field((name + "_count").c_str(), all[f].count) + "," +
            protocol::field((name + "_least").c_str(), static_cast<unsigned long>(all[f].least)) + "," +
            protocol::field((name + "_most").c_str(), static_cast<unsigned long>(all[f].most));
  }
  protocol::say_event("done", text);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  std::signal(SIGPROF, handle);
  mask(SIG_BLOCK);
  const itimerval often = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &often, nullptr);
  std::thread waits(t_waits);
  protocol::say_event("ready");
  for (protocol::Command command = protocol::next_command(); command.word == "go" || command.word == "deeper";
       command = protocol::next_command()) {
    first_command = true;
    const bool goes = command.word == "go";
    std::vector<std::thread> threads;
    for (int i = 0; i < (goes ? 4 : 1); i++)
      threads.emplace_back(work, goes ? command.number : 0, goes ? 0 : command.number);
    for (std::thread& thread : threads) thread.join();
    tell();
  }
  first_command = true;
  waits.join();
  return 0;
}
