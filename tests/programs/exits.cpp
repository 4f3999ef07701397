// Functions that are left in ways that nobody sees, and others that are only somewhere else: what a check of
// exits must tell apart.
//
//   exits [SECONDS]
//
// Commands (protocol.h). Those that leave a function behind the back of whoever watches its exits:
//
//   escape N      N times t_escapes, three frames deep, gives its frames up by restoring registers itself
//   escaped N     the same in a thread, which then waits
//   hidden N      N times t_hidden, into whose middle the program has written a jump to a return elsewhere
//   hidden_too N  the same in a thread, which then waits
//   recursive N   as escape, but t_recursive's outermost frame stays, in a thread
//
// Those that put a thread to sleep where a function is active, until `release`:
//
//   hold          in t_held, three frames deep
//   handled       in t_handler, a signal handler that interrupted t_held
//   alternate     the same, on a stack of its own
//   tail          in t_target, to which t_tail has jumped
//   ends          in code that never comes back, to which t_ends has jumped
//   unwinding     in a destructor, while an exception that has left t_thrown is on its way
//   leaving       in a destructor, while the thread ends, which has left t_held for that
//   coroutine     t_left is on a stack that does not run
//   embedded      the same, and that stack is an array on the thread's own
//   base          t_left is on the thread's own stack, while such an array is the stack that runs
//
// Those after which nothing is left: throw N, jump N, quit_thread N (pthread_exit in t_held), cancel N.
//
//   fork          a child sleeps in t_held until it is killed: answers {"event":"done","child":PID}
//   quit          ends with status 0
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "protocol.h"

#define MEASURED extern "C" __attribute__((noinline, used))

extern "C" {
// exits_asm.S
int exits_capture(uint64_t* registers) __attribute__((returns_twice));
[[noreturn]] void exits_restore(const uint64_t* registers);
int t_hidden(int value);
void t_ends(bool really);
extern const char* const exits_gap;
extern const char exits_elsewhere[];
[[noreturn]] void exits_sleep_for_ever();
}

namespace {

std::atomic<uint64_t> work;
std::atomic<int> asleep;
int pipe_ends[2];
thread_local uint64_t registers[8];
thread_local jmp_buf jump_target;
constexpr size_t kStackSize = 1 << 16;

void sleep_here() {
  char c = 0;
  asleep++;
  while (read(pipe_ends[0], &c, 1) < 0 && errno == EINTR) {
  }
}

enum class Do { nothing, sleep, escape, raise, leave, raise_error, jump };

}  // namespace

MEASURED void t_work() {
  work++;
}

MEASURED int t_held(int levels, Do what) {
  t_work();
  if (levels > 0) return t_held(levels - 1, what) + 1;
  if (what == Do::sleep) sleep_here();
  if (what == Do::raise) raise(SIGUSR1);
  if (what == Do::leave) pthread_exit(nullptr);
  t_work();
  return 1;
}

MEASURED int t_escapes(int levels, Do what) {
  t_work();
  if (levels > 0) return t_escapes(levels - 1, what) + 1;
  if (what == Do::escape) exits_restore(registers);
  return 1;
}

MEASURED int t_recursive(int levels, Do what) {
  t_work();
  if (what == Do::sleep) {
    if (exits_capture(registers) == 0) t_recursive(2, Do::escape);
    sleep_here();
  } else if (levels > 0) {
    return t_recursive(levels - 1, what) + 1;
  } else {
    exits_restore(registers);
  }
  return 1;
}

MEASURED void t_handler(int) {
  t_work();
  sleep_here();
  t_work();
}

MEASURED int t_target(int value) {
  t_work();
  sleep_here();
  return value + static_cast<int>(work);
}
MEASURED int t_tail(int value) {
  t_work();
  return t_target(value + 1);
}

MEASURED int t_thrown(int levels, Do what) {
  t_work();
  if (levels > 0) return t_thrown(levels - 1, what) + 1;
  if (what == Do::jump) longjmp(jump_target, 1);
  throw 1;
}

namespace {

// Two stacks of one thread.
struct Contexts {
  ucontext_t own{}, other{};
};
thread_local Contexts* contexts;

}  // namespace

MEASURED void t_left() {
  t_work();
  swapcontext(&contexts->other, &contexts->own);
  t_work();
}

// Leaves it on the thread's own stack; the other one goes on.
MEASURED void t_left_own() {
  t_work();
  swapcontext(&contexts->own, &contexts->other);
  t_work();
}

namespace {

void begin_other(char* stack, void (*code)()) {
  getcontext(&contexts->other);
  contexts->other.uc_stack.ss_sp = stack;
  contexts->other.uc_stack.ss_size = kStackSize;
  contexts->other.uc_link = &contexts->own;
  makecontext(&contexts->other, code, 0);
}

void leave_on(char* stack) {
  Contexts both;
  contexts = &both;
  begin_other(stack, t_left);
  swapcontext(&both.own, &both.other);
  sleep_here();
  swapcontext(&both.own, &both.other);
}

void run_on(char* stack) {
  Contexts both;
  contexts = &both;
  begin_other(stack, sleep_here);
  t_left_own();
}

void in_array(void (*code)(char*)) {
  char stack[kStackSize];
  code(stack);
  asm volatile("" : : "r"(stack) : "memory");
}

__attribute__((noinline)) void escape_once() {
  if (exits_capture(registers) == 0) t_escapes(2, Do::escape);
}
void escape(unsigned long times) {
  for (unsigned long i = 0; i < times; ++i) escape_once();
}

// A jump in the middle of t_hidden, where five bytes do nothing.
void write_gap(const uint8_t* bytes) {
  const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (pwrite(memory, bytes, 5, static_cast<off_t>(reinterpret_cast<uintptr_t>(exits_gap))) != 5) abort();
  close(memory);
}
void hidden(unsigned long times) {
  uint8_t before[5], jump[5] = {0xe9};
  memcpy(before, exits_gap, sizeof before);
  const auto distance = static_cast<int32_t>(exits_elsewhere - (exits_gap + sizeof jump));
  memcpy(jump + 1, &distance, sizeof distance);
  write_gap(jump);
  for (unsigned long i = 0; i < times; ++i) t_hidden(1);
  write_gap(before);
}

struct Sleeper {
  ~Sleeper() { sleep_here(); }
};
void throw_past_a_sleeper() {
  Sleeper sleeper;
  t_thrown(2, Do::raise_error);
}

void handle_on(void* stack) {
  if (stack) {
    stack_t other{};
    other.ss_sp = stack;
    other.ss_size = kStackSize;
    if (sigaltstack(&other, nullptr) != 0) abort();
  }
  t_held(2, Do::raise);
}

void catch_once() {
  try {
    t_thrown(2, Do::raise_error);
  } catch (int) {
  }
}
void jump_once() {
  if (setjmp(jump_target) == 0) t_thrown(2, Do::jump);
}

void in_a_thread(bool cancelled) {
  const int before = asleep;
  std::thread thread([=] { t_held(2, cancelled ? Do::sleep : Do::leave); });
  while (cancelled && asleep == before) usleep(100);
  if (cancelled) pthread_cancel(thread.native_handle());
  thread.join();
}

std::function<void()> sleeper(const std::string& word, unsigned long number) {
  if (word == "escaped") return [=] { escape(number), sleep_here(); };
  if (word == "hidden_too") return [=] { hidden(number), sleep_here(); };
  if (word == "recursive") return [] { t_recursive(0, Do::sleep); };
  if (word == "hold") return [] { t_held(2, Do::sleep); };
  if (word == "handled") return [] { handle_on(nullptr); };
  if (word == "alternate") return [] { handle_on(std::vector<char>(kStackSize).data()); };
  if (word == "tail") return [] { work += static_cast<uint64_t>(t_tail(1)); };
  if (word == "ends") return [] { t_ends(true); };
  if (word == "unwinding")
    return [] {
      try {
        throw_past_a_sleeper();
      } catch (int) {
      }
    };
  if (word == "leaving")
    return [] {
      Sleeper sleeper;
      t_held(2, Do::leave);
    };
  if (word == "coroutine") return [] { leave_on(std::vector<char>(kStackSize).data()); };
  if (word == "embedded") return [] { in_array(leave_on); };
  if (word == "base") return [] { in_array(run_on); };
  return {};
}

pid_t fork_a_sleeper() {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  t_held(2, Do::sleep);
  _exit(0);
}

void repeat(unsigned long times, void (*once)()) {
  for (unsigned long i = 0; i < times; ++i) once();
}

}  // namespace

// It does not come back, as the analysis sees by its end.
extern "C" void exits_sleep_for_ever() {
  sleep_here();
  abort();
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  if (pipe(pipe_ends) != 0) return 1;
  struct sigaction action {};
  action.sa_handler = t_handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  std::vector<std::thread> sleepers;
  protocol::say_event("ready");
  for (protocol::Command command = protocol::next_command(); !command.word.empty() && command.word != "quit";
       command = protocol::next_command()) {
    std::string fields;
    if (std::function<void()> code = sleeper(command.word, command.number)) {
      const int before = asleep;
      sleepers.emplace_back(code);
      while (asleep == before) usleep(100);
      usleep(20'000);  // from the store to the system call
    } else if (command.word == "escape") {
      escape(command.number);
    } else if (command.word == "hidden") {
      hidden(command.number);
    } else if (command.word == "throw") {
      repeat(command.number, catch_once);
    } else if (command.word == "jump") {
      repeat(command.number, jump_once);
    } else if (command.word == "quit_thread") {
      repeat(command.number, [] { in_a_thread(false); });
    } else if (command.word == "cancel") {
      repeat(command.number, [] { in_a_thread(true); });
    } else if (command.word == "fork") {
      fields = protocol::field("child", static_cast<unsigned long long>(fork_a_sleeper()));
    } else if (command.word == "release") {
      const std::string bytes(sleepers.size(), 'r');
      if (write(pipe_ends[1], bytes.data(), bytes.size()) < 0) return 1;
      for (std::thread& thread : sleepers) thread.join();
      sleepers.clear();
    }
    protocol::say_event("done", fields);
  }
  _exit(0);
}
