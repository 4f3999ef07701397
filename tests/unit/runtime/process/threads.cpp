// Nothing is set in another program than the one that was opened, however a thread's id has come to mean it.
#include "runtime/process/threads.h"

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/read_text.h"
#include "runtime/kernel/trace.h"
#include "runtime/process/target.h"
#include "runtime/process/target_memory.h"
#include "runtime/process/trace_stop.h"

namespace mdl::process {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr int kExecuted = 7;  // how the other program ends

// A child that does something when it is told to, and says what it wants to say through a pipe.
class Child {
 public:
  // What runs in it is given the pipe on which it is told, and the one on which it answers.
  explicit Child(const std::function<void(int told, int answers)>& run) {
    if (pipe2(told_.data(), O_CLOEXEC) != 0 || pipe2(answers_.data(), O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run(told_[0], answers_[1]);
    _exit(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    for (int file : {told_[0], told_[1], answers_[0], answers_[1]}) close(file);
  }

  pid_t pid() const { return pid_; }
  void tell(const char* word = "\n") const { ASSERT_GT(write(told_[1], word, std::strlen(word)), 0); }
  char answer() const {
    char out = 0;
    return read(answers_[0], &out, 1) == 1 ? out : '\0';
  }
  void is_reaped() { pid_ = -1; }
  int exit_status() {
    int status = 0;
    for (int i = 0; i < 2000; i++, usleep(5000)) {
      if (waitpid(pid_, &status, WNOHANG) != pid_) continue;
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    return -2;  // it stands still
  }

 private:
  pid_t pid_ = -1;
  std::array<int, 2> told_{-1, -1}, answers_{-1, -1};
};

void wait_for(int told) {
  char word = 0;
  while (read(told, &word, 1) < 0 && errno == EINTR) continue;
}

[[noreturn]] void execute() {
  execl("/bin/sh", "sh", "-c", "sleep 0.2; exit 7", nullptr);
  _exit(1);
}

void until(const std::function<bool()>& condition) {
  bool is_met = condition();  // once: it may be over by the next look
  for (int i = 0; i < 2000 && !is_met; i++) {
    usleep(5000);
    is_met = condition();
  }
  ASSERT_TRUE(is_met);
}

pid_t tracer_of(pid_t pid) {
  return read_status(pid).tracer;
}

// Until the thread has executed another program or ended.
void run_on(Threads& threads, pid_t tid) {
  for (int stops = 0; stops < 100; stops++)
    if (threads.run(tid, Threads::Step::to_system_call, 5s) != Threads::Stop::step) return;
  FAIL() << "it makes system calls without an end";
}

// One that gets no processor, or makes no call: a pause is bounded.
TEST(StoppedThreads, OthersStandForOneThatRunsAsLongAsTheyMay) {
  Child child([](int, int answers) {
    static std::atomic<bool> runs = false;  // and makes no call of its beginning any more
    std::thread([] {
      for (runs = true;;) asm volatile("");
    }).detach();
    while (!runs) usleep(1000);
    for (;; usleep(1000)) (void)!write(answers, ".", 1);
  });
  EXPECT_EQ(child.answer(), '.');
  until([&] { return live_threads(child.pid()).size() == 2; });
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  std::vector<pid_t> all = live_threads(child.pid());
  std::erase(all, child.pid());
  const pid_t busy = all.at(0);
  Threads threads(child.pid(), *memory);
  for (const bool bounded : {false, true}) {
    const auto limit = bounded ? 100ms : 1000ms;
    until([&] { return threads.stop_all(2s, limit).operator bool(); });
    if (bounded) threads.limit_others();
    EXPECT_EQ(threads.run(busy, Threads::Step::to_system_call, limit + 100ms), Threads::Stop::timeout);
    EXPECT_EQ(threads.stopped().size(), bounded ? 0u : 1u);
    threads.release_all();
  }
  EXPECT_EQ(child.answer(), '.');
}

TEST(StoppedThreads, OthersStandAgainForWhatTheyMayNotSee) {
  Child child([](int, int answers) {
    std::thread([] {
      for (;;) usleep(500'000);
    }).detach();
    for (;; usleep(1000)) (void)!write(answers, ".", 1);
  });
  until([&] { return live_threads(child.pid()).size() == 2; });
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  std::vector<pid_t> all = live_threads(child.pid());
  std::erase(all, child.pid());
  const pid_t slow = all.at(0);
  Threads threads(child.pid(), *memory);
  until([&] { return threads.stop_all(2s, 100ms).operator bool(); });
  threads.limit_others();
  constexpr int kStops = 40;  // a thread that begins makes some calls before it sleeps
  for (int stops = 0; stops < kStops && !threads.others_went_on(); stops++)
    ASSERT_EQ(threads.run(slow, Threads::Step::to_system_call, 5s), Threads::Stop::step);
  EXPECT_TRUE(threads.others_went_on());
  EXPECT_THAT(threads.stopped(), testing::ElementsAre(slow));
  const auto stood = threads.stood();
  EXPECT_GE(stood, 50ms);
  until([&] { return threads.stop_others(slow); });
  EXPECT_THAT(threads.stopped(), testing::ElementsAre(child.pid(), slow));
  EXPECT_GT(threads.stood(), stood);
  EXPECT_EQ(threads.run(slow, Threads::Step::to_system_call, 5s), Threads::Stop::step);
  threads.release_all();
  EXPECT_EQ(tracer_of(slow), 0);
  EXPECT_EQ(child.answer(), '.');
}

void begin_next() {
  usleep(500);
  std::thread(begin_next).detach();
}

// Others are compared with one that may end meanwhile.
TEST(StoppedThreads, AreNoStrangersWhereOneOfThemEnds) {
  Child child([](int told, int answers) {
    (void)!write(answers, ".", 1);
    wait_for(told);
    for (int i = 0; i < 8; i++) std::thread(begin_next).detach();
    syscall(SYS_exit, 0);  // it has the lowest id
  });
  EXPECT_EQ(child.answer(), '.');
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  child.tell();
  until([&] { return live_threads(child.pid()).size() > 1; });
  Threads threads(child.pid(), *memory);
  size_t stopped = 0;
  for (int stops = 0; stops < 100 && !threads.executed(); stops++) {
    if (threads.stop_all(2s, 1s)) ++stopped;  // on a busy machine they may start others as fast
    threads.release_all();
  }
  EXPECT_FALSE(threads.executed());
  EXPECT_GT(stopped, 0u);
  kill(child.pid(), SIGKILL);
}

// Seized and interrupted, as stop_all() leaves those that have not stopped when its time is over.
struct LateThreads : Threads {
  using Threads::Threads;
  void seize_late(pid_t process, const std::vector<pid_t>& tids) {
    std::vector<std::pair<pid_t, pid_t>> all;
    for (const pid_t tid : tids) all.emplace_back(tid, process);
    ASSERT_TRUE(seize_each(all));
    for (const pid_t tid : tids) kernel::interrupt(tid);
  }
};

// A thread that will not stop for so long once its child is told.
void be_late(int told, useconds_t microseconds) {
  std::thread([told, microseconds] {
    wait_for(told);
    if (vfork() == 0) {
      usleep(microseconds);
      _exit(0);
    }
    for (;;) pause();
  }).detach();
}

// The first one that the child has started is late.
void release_beside_one_that_is_late(Child& child, size_t count) {
  EXPECT_EQ(child.answer(), '.');
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  until([&] { return live_threads(child.pid()).size() == count; });
  std::vector<pid_t> all = live_threads(child.pid());
  std::ranges::sort(all);
  std::erase(all, child.pid());
  const pid_t late = all[0];
  all.push_back(child.pid());
  child.tell();
  until([&] { return awaits_vfork(late); });
  LateThreads threads(child.pid(), *memory);
  threads.seize_late(child.pid(), all);
  threads.release_all();
  threads.release_all();
  EXPECT_TRUE(threads.empty());
}

// One that waits for a vforked child cannot stop, as one that gets no processor (nice 19 on a busy machine). With
// 17 of these in netdata, each stood until all before it had stopped, up to 2 s, and the first thread until all had.
TEST(StoppedThreads, GoBeforeOneThatStopsLate) {
  using Clock = std::chrono::steady_clock;
  struct Gaps {  // of a thread that runs
    std::atomic<Clock::duration> longest{};
    void run_until(Clock::time_point end) {
      for (auto last = Clock::now(); last < end;) {
        const auto now = Clock::now();
        longest = std::max(longest.load(), now - last);
        last = now;
      }
    }
  };
  Child child([](int told, int answers) {
    static Gaps first, second;
    be_late(told, 1'500'000);
    const auto end = Clock::now() + 3s;
    std::thread([end] { second.run_until(end); }).detach();  // its id is higher
    (void)!write(answers, ".", 1);
    first.run_until(end);
    for (const Gaps* gaps : {&first, &second})
      (void)!write(answers, gaps->longest.load() < 700ms ? "s" : "l", 1);
    pause();
  });
  release_beside_one_that_is_late(child, 3);
  for ([[maybe_unused]] const int one : {0, 1})  // how long they stood at most: short, long
    EXPECT_EQ(child.answer(), 's');
}

// Registers of a first thread are set when its others have stopped or gone: until then it stands.
TEST(StoppedThreads, SleepOnInAFirstThreadBehindOneThatStopsLate) {
  Child child([](int told, int answers) {
    be_late(told, 500'000);
    epoll_event event{};
    const int nothing = epoll_create1(EPOLL_CLOEXEC);
    (void)!write(answers, ".", 1);
    (void)!write(answers, epoll_wait(nothing, &event, 1, 2000) == 0 ? "s" : "w", 1);
    pause();
  });
  release_beside_one_that_is_late(child, 2);
  EXPECT_EQ(child.answer(), 's');  // it slept, or was woken
}

// Its tracer is told of that when its others have ended, too.
TEST(StoppedThreads, DoNotWaitForAFirstThreadThatHasEndedAlone) {
  Child child([](int told, int answers) {
    static std::atomic<bool> ends = false;
    std::thread([told, answers] {
      (void)!write(answers, ".", 1);
      while (!ends) usleep(1000);
      wait_for(told);  // the second word
      _exit(kExecuted);
    }).detach();
    wait_for(told);
    ends = true;
    syscall(SYS_exit, 0);
  });
  EXPECT_EQ(child.answer(), '.');
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  Threads threads(child.pid(), *memory);
  ASSERT_TRUE(threads.stop_all(2s, 1s));
  ASSERT_EQ(threads.stopped().size(), 2u);
  child.tell();
  run_on(threads, child.pid());
  EXPECT_EQ(threads.stopped().size(), 1u);
  const auto began = std::chrono::steady_clock::now();
  threads.release_all();
  ASSERT_TRUE(threads.stop_all(2s, 1s));
  threads.release_all();
  EXPECT_LT(std::chrono::steady_clock::now() - began, 2s);
  EXPECT_EQ(tracer_of(child.pid()), getpid());
  child.tell();
  until([&] { return stop_tracing_all(), tracer_of(child.pid()) == 0; });
  child.is_reaped();  // its tracer is its parent
}

TEST(TargetMemory, FindsAValueInAnAuxiliaryVector) {
  const Elf64_auxv_t entries[] = {{AT_ENTRY, {0x1000}}, {AT_RANDOM, {0x2000}}, {AT_NULL, {0}}};
  const std::string_view whole(reinterpret_cast<const char*>(entries), sizeof entries);
  EXPECT_EQ(auxiliary_value(whole, AT_RANDOM), 0x2000u);
  EXPECT_EQ(auxiliary_value(whole, AT_BASE), std::nullopt);
  EXPECT_EQ(auxiliary_value(whole.substr(0, 17), AT_RANDOM), std::nullopt);
  EXPECT_EQ(auxiliary_value("", AT_RANDOM), std::nullopt);
}

TEST(TargetMemory, TellsItsProgramFromTheNext) {
  Child child([](int told, int) {
    wait_for(told);
    execute();
  });
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  EXPECT_EQ(memory->runs(child.pid()), Runs::here);
  EXPECT_EQ(memory->runs(getppid()), Runs::elsewhere);
  child.tell();
  until([&] { return memory->runs(child.pid()) == Runs::elsewhere; });
  EXPECT_EQ(child.exit_status(), kExecuted);
}

TEST(TargetMemory, KnowsThatAThreadHasEnded) {
  Child child([](int told, int) { wait_for(told); });
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  child.tell();
  until([&] { return memory->runs(child.pid()) == Runs::nowhere; });  // it is a zombie
}

// Without random addresses the vectors are the same, byte by byte.
TEST(TargetMemory, TellsAProgramFromItself) {
  const std::string script = testing::TempDir() + "again-" + std::to_string(getpid());
  std::ofstream(script) << "read a; [ \"$a\" = again ] && exec /bin/sh $0; exit 7\n";
  Child child([&](int told, int) {
    dup2(told, 0);
    personality(ADDR_NO_RANDOMIZE);
    execl("/bin/sh", "/bin/sh", script.c_str(), nullptr);
  });
  const auto vector = [&] { return read_text("/proc/" + std::to_string(child.pid()) + "/auxv"); };
  const auto is_shell = [&] { return read_status(child.pid()).name == "sh"; };
  until(is_shell);
  for (int again = 0; again < 3; again++) {  // the shell's environment changes with the first
    auto memory = TargetMemory::open(child.pid());
    ASSERT_TRUE(memory) << memory.error().text;
    const std::string before = vector();  // in an execve it would be empty
    child.tell("again\n");
    until([&] { return memory->runs(child.pid()) == Runs::elsewhere; });
    if (again == 2) until([&] { return vector() == before; });
  }
  child.tell();
  EXPECT_EQ(child.exit_status(), kExecuted);
  unlink(script.c_str());
}

// Of those who shared it, one still runs in it.
TEST(TargetMemory, WritesNothingToTheNextProgram) {
  static std::atomic<int> word;
  static int answers_on;
  alignas(16) static std::array<char, 65536> stack;
  Child child([](int told, int answers) {
    answers_on = answers;
    const auto other = [](void*) {
      while (word == 0) syscall(SYS_sched_yield);
      const char answer = word == 42 ? 'y' : 'n';
      return static_cast<int>(syscall(SYS_write, answers_on, &answer, 1));
    };
    clone(other, stack.data() + stack.size(), CLONE_VM, nullptr);
    wait_for(told);
    execute();
  });
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  child.tell();
  until([&] { return memory->runs(child.pid()) == Runs::elsewhere; });
  const int value = 42;
  EXPECT_TRUE(memory->write(reinterpret_cast<uint64_t>(&word), std::as_bytes(std::span(&value, 1))));
  EXPECT_EQ(child.answer(), 'y');
  EXPECT_EQ(child.exit_status(), kExecuted);
}

TEST(StoppedThreads, LeaveAnotherProgramAlone) {
  Child child([](int told, int) {
    wait_for(told);
    execute();
  });
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  child.tell();
  until([&] { return memory->runs(child.pid()) == Runs::elsewhere; });
  Threads threads(child.pid(), *memory);
  for (const auto& stopped : {threads.stop_all(2s, 2s), threads.stop_one(child.pid(), 2s)}) {
    ASSERT_FALSE(stopped);
    EXPECT_THAT(stopped.error().text, HasSubstr("executes another program"));
  }
  EXPECT_TRUE(threads.executed());
  EXPECT_FALSE(threads.set_registers(child.pid(), {}));
  EXPECT_EQ(tracer_of(child.pid()), 0);
  EXPECT_EQ(child.exit_status(), kExecuted);
}

// An id that was a thread's of the process when its threads were listed. A stop would interrupt its call, so it stays
// traced until it stops by itself.
TEST(StoppedThreads, LeaveAThreadOfAnotherProcessAlone) {
  Child child([](int told, int) { wait_for(told); });
  Child copy([](int told, int) { wait_for(told); });  // of this program, too
  Child other([](int told, int) {
    dup2(told, 0);
    execl("/bin/cat", "cat", nullptr);
  });
  until([&] { return read_status(other.pid()).name == "cat"; });
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  for (const Child* one : {&copy, &other}) {
    Threads threads(child.pid(), *memory);
    EXPECT_FALSE(threads.stop_one(one->pid(), 2s));
    EXPECT_FALSE(threads.set_registers(one->pid(), {}));
    EXPECT_FALSE(stop_code(one->pid()));
    kill(one->pid(), SIGWINCH);
    until([&] { return stop_tracing_all(), tracer_of(one->pid()) == 0; });
    ASSERT_TRUE(threads.stop_one(child.pid(), 2s));  // known now, and compared with
    EXPECT_FALSE(threads.stop_one(one->pid(), 2s));
    EXPECT_FALSE(stop_code(one->pid()));
    EXPECT_FALSE(threads.executed());
  }
}

TEST(StoppedThreads, SetNothingBehindAnExecve) {
  Child child([](int told, int) {
    wait_for(told);
    execute();
  });
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  Threads threads(child.pid(), *memory);
  ASSERT_TRUE(threads.stop_one(child.pid(), 2s));
  auto before = threads.registers(child.pid());
  ASSERT_TRUE(before);
  EXPECT_TRUE(threads.set_registers(child.pid(), *before));
  child.tell();
  run_on(threads, child.pid());
  EXPECT_TRUE(threads.executed());
  EXPECT_FALSE(threads.set_registers(child.pid(), *before));
  EXPECT_FALSE(threads.set_signal_mask(child.pid(), 0));
  EXPECT_EQ(tracer_of(child.pid()), 0);
  EXPECT_EQ(child.exit_status(), kExecuted);
}

// The first thread is stopped, and its registers are known, when another one takes its id.
TEST(StoppedThreads, SetNothingInWhoHasTakenTheId) {
  Child child([](int told, int answers) {
    std::thread idle([] { pause(); });
    std::thread executes([&] {
      [[maybe_unused]] ssize_t put = write(answers, "r", 1);
      wait_for(told);
      execute();
    });
    executes.join();
  });
  ASSERT_EQ(child.answer(), 'r');
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  Threads threads(child.pid(), *memory);
  ASSERT_TRUE(threads.stop_all(2s, 2s));
  const std::vector<pid_t> all = threads.stopped();
  ASSERT_EQ(all.size(), 3u);
  auto before = threads.registers(child.pid());
  ASSERT_TRUE(before);
  EXPECT_TRUE(threads.set_registers(child.pid(), *before));
  child.tell();
  run_on(threads, all.back());  // the one that was made last
  EXPECT_FALSE(threads.set_registers(child.pid(), *before));
  EXPECT_FALSE(threads.set_signal_mask(child.pid(), 0));
  threads.release_all();
  EXPECT_TRUE(threads.empty());
  until([&] { return threads.executed(); });
  EXPECT_EQ(tracer_of(child.pid()), 0);
  EXPECT_EQ(child.exit_status(), kExecuted);
}

// One that nobody traces ends the one that is.
TEST(StoppedThreads, FindNobodyWhereAnUntracedThreadHasTakenTheId) {
  Child child([](int told, int answers) {
    std::thread executes([&] {
      [[maybe_unused]] ssize_t put = write(answers, "r", 1);
      wait_for(told);
      execute();
    });
    executes.join();
  });
  ASSERT_EQ(child.answer(), 'r');
  auto memory = TargetMemory::open(child.pid());
  ASSERT_TRUE(memory) << memory.error().text;
  Threads threads(child.pid(), *memory);
  ASSERT_TRUE(threads.stop_one(child.pid(), 2s));
  auto before = threads.registers(child.pid());
  ASSERT_TRUE(before);
  child.tell();
  until([&] { return memory->runs(child.pid()) == Runs::elsewhere; });
  EXPECT_FALSE(threads.set_registers(child.pid(), *before));
  EXPECT_EQ(threads.run(child.pid(), Threads::Step::to_system_call, 2s), Threads::Stop::exited);
  threads.release_all();
  EXPECT_TRUE(threads.empty());
  EXPECT_EQ(child.exit_status(), kExecuted);
}

}  // namespace
}  // namespace mdl::process
