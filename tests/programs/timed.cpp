// Times and counts that a program knows of itself, from inside and from outside of each timed function.
//
//   timed [SECONDS]
//
// For each of these functions the program reads the clocks and counts of the thread before the call and
// behind it ("outer"), and at the function's beginning and end ("inner"). A timer that starts at the entry
// and stops at the return lies between, whatever else the machine does. Every answer carries the totals of
// all threads since the start: {"wall":[inner,outer],"cpu":[..],"faults":[..],"switches":[..],"major":[..],
// "in":[..],"out":[..],"all_faults":[..],"all_switches":[..]}.
//
//   sleep N    t_timed sleeps 1 ms, N times          spin N     t_timed uses the processor, N times 1 ms
//   nest N     t_timed calls itself 4 deep, N times  fault N    t_timed touches 16 fresh pages, N times
//   file N     t_timed writes a file to the disk and reads it back, N times
//   throw N    t_timed ends by an exception, jump N by longjmp, from 3 deep; exit N by pthread_exit in a
//              thread of its own (which has no outer time)
//   threads N  N threads: thread i calls t_work i times; answers "threads":{"TID":i,..}
//   (all through t_around, but exit)
//   hold       a thread enters t_timed and stays there; release lets it go
//   fork       a child calls t_timed and ends
//   quit       ends with status 0
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csetjmp>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

#include "protocol.h"

#define TIMED extern "C" __attribute__((noinline, used))

namespace {

enum Clock { kWall, kCpu, kFaults, kSwitches, kMajor, kIn, kOut, kAllFaults, kAllSwitches, kClocks };
using Now = std::array<int64_t, kClocks>;
std::atomic<int64_t> inner[kClocks], outer[kClocks];

int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

Now read_all() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return {nanoseconds(CLOCK_MONOTONIC),
          nanoseconds(CLOCK_THREAD_CPUTIME_ID),
          usage.ru_minflt,
          usage.ru_nvcsw,
          usage.ru_majflt,
          usage.ru_inblock,
          usage.ru_oublock,
          usage.ru_minflt + usage.ru_majflt,
          usage.ru_nvcsw + usage.ru_nivcsw};
}

void add(std::atomic<int64_t>* totals, const Now& before, const Now& after) {
  for (int i = 0; i < kClocks; ++i)
    totals[i] += after[static_cast<size_t>(i)] - before[static_cast<size_t>(i)];
}

enum class What { sleep, spin, nest, fault, file, by_throw, by_jump, by_exit, hold };
thread_local jmp_buf target;
thread_local Now begun_at;  // of the outermost t_timed
std::atomic<bool> held{false};
int release_pipe[2];

void touch_pages() {
  constexpr size_t kPages = 16, kPage = 4096;
  auto* pages = static_cast<volatile char*>(
      mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (size_t i = 0; i < kPages; ++i) pages[i * kPage] = 1;
  munmap(const_cast<char*>(pages), kPages * kPage);
}

// A file that nobody else sees, out of the cache and in again by a fault.
void use_file() {
  constexpr size_t kBytes = 64 * 4096;
  char name[] = "/var/tmp/mdl-timed-XXXXXX";
  int file = mkstemp(name);
  if (file < 0) return;
  unlink(name);
  std::vector<char> bytes(kBytes, 1);
  if (write(file, bytes.data(), kBytes) == static_cast<ssize_t>(kBytes)) {
    fsync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    auto* pages = static_cast<volatile char*>(mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0));
    if (pages != MAP_FAILED) {
      for (size_t i = 0; i < kBytes; i += 4096) (void)pages[i];
      munmap(const_cast<char*>(pages), kBytes);
    }
  }
  close(file);
}

void spin() {
  int64_t until = nanoseconds(CLOCK_THREAD_CPUTIME_ID) + 1'000'000;
  while (nanoseconds(CLOCK_THREAD_CPUTIME_ID) < until) {
  }
}

}  // namespace

TIMED uint64_t t_work(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x * 5;
}

TIMED int t_timed(What what, int depth) {
  int result = depth;
  bool outermost = depth == (what == What::nest ? 4 : 3);
  if (outermost) begun_at = read_all();
  switch (what) {
    case What::sleep:
      usleep(1000);
      break;
    case What::spin:
      spin();
      break;
    case What::fault:
      touch_pages();
      break;
    case What::file:
      use_file();
      break;
    case What::nest:
      usleep(200);
      if (depth > 0) result += t_timed(what, depth - 1);
      break;
    case What::hold: {
      char c;
      held = true;
      while (read(release_pipe[0], &c, 1) < 0) {
      }
      break;
    }
    default:
      usleep(300);
      if (depth > 0) {
        result += t_timed(what, depth - 1);
        break;
      }
  }
  bool leaves = what == What::by_throw || what == What::by_jump || what == What::by_exit;
  if (leaves ? depth == 0 : outermost) add(inner, begun_at, read_all());
  if (depth == 0 && what == What::by_throw) throw 1;
  if (depth == 0 && what == What::by_jump) longjmp(target, 1);
  if (depth == 0 && what == What::by_exit) pthread_exit(nullptr);
  return result;
}

// What it does itself takes no time; it is narrow nowhere.
TIMED int t_around(What what, int depth) {
  asm volatile("nopl 0x100(%%rax)\n nopl 0x100(%%rax)" : "+r"(depth));
  int result = t_timed(what, depth);
  asm volatile("nopl 0x100(%%rax)\n nopl 0x100(%%rax)" : "+r"(result));
  return result + 1;
}

namespace {

void once(What what) {
  volatile int64_t begun[kClocks];
  Now now = read_all();
  for (size_t i = 0; i < kClocks; ++i) begun[i] = now[i];
  try {
    if (what != What::by_jump || setjmp(target) == 0) t_around(what, what == What::nest ? 4 : 3);
  } catch (int) {
  }
  Now before;
  for (size_t i = 0; i < kClocks; ++i) before[i] = begun[i];
  add(outer, before, read_all());
}

std::string pair(const char* name, Clock clock) {
  return std::string("\"") + name + "\":[" + std::to_string(inner[clock]) + "," +
         std::to_string(outer[clock]) + "]";
}

std::string truth() {
  return pair("wall", kWall) + "," + pair("cpu", kCpu) + "," + pair("faults", kFaults) + "," +
         pair("switches", kSwitches) + "," + pair("major", kMajor) + "," + pair("in", kIn) + "," +
         pair("out", kOut) + "," + pair("all_faults", kAllFaults) + "," + pair("all_switches", kAllSwitches);
}

std::string run_threads(unsigned long count) {
  std::string text;
  for (unsigned long i = 1; i <= count; ++i) {
    pid_t id = 0;
    std::thread([&] {
      id = gettid();
      for (unsigned long k = 0; k < i; ++k) t_work(k);
    }).join();
    text += (i > 1 ? ",\"" : "\"") + std::to_string(id) + "\":" + std::to_string(i);
  }
  return "\"threads\":{" + text + "}";
}

bool run_child() {
  pid_t child = fork();
  if (child == 0) {
    once(What::sleep);
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  if (pipe(release_pipe) != 0) return 1;
  std::thread holder;
  protocol::say_event("ready", truth());
  while (true) {
    protocol::Command command = protocol::next_command();
    std::string more;
    auto repeat = [&](What what) {
      for (unsigned long i = 0; i < command.number; ++i) once(what);
    };
    if (command.word == "sleep")
      repeat(What::sleep);
    else if (command.word == "spin")
      repeat(What::spin);
    else if (command.word == "nest")
      repeat(What::nest);
    else if (command.word == "fault")
      repeat(What::fault);
    else if (command.word == "file")
      repeat(What::file);
    else if (command.word == "throw")
      repeat(What::by_throw);
    else if (command.word == "jump")
      repeat(What::by_jump);
    else if (command.word == "exit") {
      for (unsigned long i = 0; i < command.number; ++i)
        std::thread([] { t_timed(What::by_exit, 3); }).join();
    } else if (command.word == "threads") {
      more = "," + run_threads(command.number);
    } else if (command.word == "hold") {
      holder = std::thread([] { once(What::hold); });
      while (!held) usleep(1000);
      usleep(20000);
    } else if (command.word == "release") {
      if (write(release_pipe[1], "r", 1) != 1) return 1;
      holder.join();
    } else if (command.word == "fork") {
      if (!run_child()) return 1;
    } else {
      break;
    }
    protocol::say_event("done", truth() + more);
  }
  return 0;
}
