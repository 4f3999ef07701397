// Each question is asked as a worker that was taken over could ask it: by the calls themselves, with any arguments.
#include "runtime/kernel/broker.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "base/proc_text.h"
#include "runtime/kernel/calls.h"

namespace mdl::kernel {
namespace {

// A process that is named, and waits.
class Named {
 public:
  explicit Named(uid_t user = getuid()) {
    int ready[2];
    if (pipe(ready) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      if (user != getuid() && (setgroups(0, nullptr) != 0 || setresuid(user, user, user) != 0)) _exit(1);
      close(ready[0]), close(ready[1]);
      pause(), _exit(0);
    }
    close(ready[1]);
    char none;
    (void)!read(ready[0], &none, 1);  // to the end: it has its user
    close(ready[0]);
  }
  ~Named() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

// Of a worker: a status other than 0 is the number of what was not as it should be.
int in_a_worker(const Trust& trust, const std::function<int()>& check) {
  const pid_t pid = fork();
  if (pid == 0) _exit(separate(trust) ? check() : 99);
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

bool is_refused(int file) {
  const int error = errno;
  if (file >= 0) close(file);
  return file < 0 && (error == EPERM || error == EACCES);
}

TEST(Broker, ShowsTheNamed) {
  const Named named;
  EXPECT_EQ(in_a_worker({.named = {named.pid()}},
                        [&] {
                          if (proc_text(named.pid(), "auxv").empty()) return 1;
                          if (proc_text(named.pid(), "maps").empty()) return 2;
                          const int exe = open_proc(named.pid(), "exe"), memory = open_memory(named.pid());
                          if (exe < 0) return 3;
                          return memory < 0 ? 4 : 0;
                        }),
            0);
}

TEST(Broker, NoNameLeadsOutOfAProcess) {
  const Named named, other;
  EXPECT_EQ(in_a_worker({.named = {named.pid()}},
                        [&] {
                          const std::string there = "/../../" + std::to_string(other.pid());
                          int number = 0;
                          for (const char* way : {"map_files", "task", "root", "cwd", "fd"})
                            for (const char* what : {"/maps", "/mem", "/auxv", "/environ", "/exe"}) {
                              const std::string name = way + there + what;
                              number++;
                              if (!is_refused(open_proc(named.pid(), name))) return number;
                              if (!is_refused(open_regular(named.pid(), name))) return number;
                              if (!proc_text(named.pid(), name).empty()) return number;
                            }
                          return 0;
                        }),
            0);
}

TEST(Broker, OthersAreNotTouched) {
  const Named named, other;
  EXPECT_EQ(in_a_worker({.named = {named.pid()}},
                        [&] {
                          std::array<std::byte, 8> word;
                          if (!is_refused(open_memory(other.pid()))) return 1;
                          if (open_writer(other.pid()) != 0) return 2;
                          if (seize(other.pid())) return 3;
                          if (read_memory_of(other.pid(), 0x400000, word)) return 4;
                          if (!proc_text(other.pid(), "maps").empty()) return 5;
                          if (!is_refused(open_below_root(other.pid(), "/etc/passwd"))) return 6;
                          return proc_text(other.pid(), "stat").empty() ? 7 : 0;  // which everybody may see
                        }),
            0);
}

TEST(Broker, ShowsEachOfTheNamedAndNoOther) {
  const Named first, second, other;
  EXPECT_EQ(in_a_worker({.named = {first.pid(), second.pid()}},
                        [&] {
                          if (proc_text(first.pid(), "auxv").empty()) return 1;
                          if (proc_text(second.pid(), "auxv").empty()) return 2;
                          if (!is_refused(open_memory(other.pid()))) return 3;
                          return seize(other.pid()) ? 4 : 0;
                        }),
            0);
}

TEST(Broker, OfSeveralEachIsLookedAt) {
  const Named first, second, other;
  EXPECT_EQ(in_a_worker({.named = {first.pid(), second.pid()}},
                        [&] {
                          const std::array<pid_t, 3> all = {first.pid(), other.pid(), second.pid()};
                          const auto seized = seize_each(all);
                          if (!seized[0].value || seized[1].value || !seized[2].value) return 1;
                          if (seized[1].error != EPERM) return 2;
                          interrupt_each(all);
                          std::vector<int> statuses;
                          for (std::array<bool, 3> stands{}; !stands[0] || !stands[2];) {
                            const auto events = next_events(all, statuses);
                            for (size_t i = 0; i < all.size(); i++) stands[i] |= events[i].value == all[i];
                            if (stands[1]) return 3;
                          }
                          std::array<std::array<std::byte, 512>, 3> blocks;
                          const auto read =
                              read_registers_each(all, std::as_writable_bytes(std::span(blocks)));
                          if (read[0].value == 0 || read[1].value != 0 || read[2].value == 0) return 4;
                          if (compare_memory_each(all[0], all)[0] != true) return 5;
                          if (compare_memory_each(all[0], all)[2] != false) return 6;
                          const auto gone = detach_each(all, std::array<int, 3>{});
                          return gone[0].value && !gone[1].value && gone[2].value ? 0 : 7;
                        }),
            0);
}

// Many more than one question holds.
TEST(Broker, SeveralComeInTheirOrder) {
  const Named named;
  EXPECT_EQ(in_a_worker({.named = {named.pid()}},
                        [&] {
                          std::vector<pid_t> all(3 * kMostAtOnce, named.pid());
                          all[kMostAtOnce + 1] = 0;
                          const auto same = compare_memory_each(named.pid(), all);
                          for (size_t i = 0; i < all.size(); i++)
                            if ((same[i] == true) != (i != kMostAtOnce + 1)) return 1;
                          return same.size() == all.size() ? 0 : 2;
                        }),
            0);
}

// No descriptors, no questions among questions, and nothing that is cut off: the broker ends, and this worker with it.
TEST(Broker, SeveralAreOfCallsThatFit) {
  const Named named;
  const auto question = [&](uint32_t call, size_t size) {
    return in_a_worker({.named = {named.pid()}}, [&] {
      const Turn turn{*asking()};
      std::array<std::byte, kRoomOfOne> room;
      wire::Writer one(room), all(turn.room);
      wire::put(one, call);
      wire::put(one, named.pid());
      wire::put(all, kSeveral);
      wire::put_bytes(all, std::span(room).first(std::min(size, one.used())));
      turn.asking.end(all);
      return 0;
    });
  };
  constexpr auto kFails = static_cast<int>(Status::failed);
  constexpr auto kHarmless = number_in<direct::live_thread>(Calls{});
  EXPECT_EQ(question(kHarmless, kRoomOfOne), 0);
  EXPECT_EQ(question(kHarmless, 6), kFails);
  EXPECT_EQ(question(kHarmless, 0), kFails);
  EXPECT_EQ(question(kSeveral, kRoomOfOne), kFails);
  EXPECT_EQ(question(UINT32_MAX, kRoomOfOne), kFails);
  EXPECT_EQ(question(number_in<direct::open_memory>(Calls{}), kRoomOfOne), kFails);
}

// Who says of a process that it is a child is not believed.
#ifndef MDL_SANITIZED  // whose allocator ends the process
// Memory for an answer is missing: that ends the call, and the next one has its turn.
TEST(Broker, AnAnswerWithoutRoomEndsTheTurn) {
  constexpr size_t kPages = 10'000, kPage = 4096;
  auto* pages =
      static_cast<std::byte*>(mmap(nullptr, kPages * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  for (size_t i = 0; i < kPages; i += 2)
    ASSERT_EQ(mprotect(pages + i * kPage, kPage, PROT_READ), 0);  // a line of its maps each
  const Named named;
  munmap(pages, kPages * kPage);
  EXPECT_EQ(in_a_worker({.named = {named.pid()}},
                        [&] {
                          if (proc_text(named.pid(), "maps").size() < 50 * kPages / 2) return 1;
                          rlimit limit;
                          if (getrlimit(RLIMIT_AS, &limit) != 0) return 2;
                          limit.rlim_cur = 1 << 20;  // less than it has
                          if (setrlimit(RLIMIT_AS, &limit) != 0) return 3;
                          std::vector<std::string> all;  // of what is left by other tests
                          try {
                            for (;;) all.emplace_back(100'000, ' ');
                          } catch (const std::bad_alloc&) {
                          }
                          try {
                            (void)proc_text(named.pid(), "maps");
                            return 4;
                          } catch (const std::bad_alloc&) {
                          }
                          return proc_text(named.pid(), "auxv").empty() ? 5 : 0;
                        }),
            0);
}
#endif

TEST(Broker, ChildrenAreThoseOfTheNamed) {
  const Named named, other;
  EXPECT_EQ(in_a_worker({.named = {named.pid()}, .children = {other.pid()}},
                        [&] { return is_refused(open_memory(other.pid())) ? 0 : 1; }),
            0);
}

TEST(Broker, OnlyFilesOfProcAndTheProgramAreOpened) {
  const Named named;
  EXPECT_EQ(
      in_a_worker({.named = {named.pid()}},
                  [&] {
                    int number = 0;
                    for (const char* name : {"mem", "task/1/mem", "root", "cwd", "environ", "clear_refs"})
                      if (number++; !is_refused(open_proc(named.pid(), name))) return number;
                    return 0;
                  }),
      0);
}

TEST(Broker, NothingIsStartedButTheCommandInItsFolder) {
  const std::array<std::string, 1> command = {"true"}, other = {"false"};
  EXPECT_EQ(in_a_worker({.command = command_words(command), .folder = "/"},
                        [&] {
                          if (start_program(command_words(other), "/").pid) return 1;
                          if (start_program(command_words(command), "/tmp").pid) return 2;
                          if (start_program("", "").pid) return 3;
                          const Started started = start_program(command_words(command), "/");
                          end_program();
                          return started.pid ? 0 : 4;
                        }),
            0);
}

TEST(Broker, AnyCommandIsOneAndTheFirst) {
  EXPECT_EQ(in_a_worker({.any_command = true},
                        [&] {
                          const std::array<std::string, 1> some = {"true"};
                          if (start_program("", "/").pid) return 1;
                          if (!start_program(command_words(some), "/").pid) return 2;
                          end_program();
                          return start_program(command_words(some), "/").pid ? 3 : 0;
                        }),
            0);
}

// Nobody traces it any more, soon.
bool is_left_alone(pid_t pid) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const auto is_traced = [pid] { return status_value(direct::proc_text(pid, "status"), "TracerPid") != "0"; };
  while (is_traced() && std::chrono::steady_clock::now() < until) usleep(10'000);
  return !is_traced();
}

TEST(Broker, NoThreadStandsForAWorkerThatAsksNothing) {
  const Named named;
  const auto forget = [&] {
    int status = 0;
    if (!seize(named.pid()) || !interrupt(named.pid())) return 1;
    while (next_event(named.pid(), kMoment, status) == 0) continue;
    sleep(20);  // the end of its broker is its own
    return 2;
  };
  EXPECT_EQ(in_a_worker({.named = {named.pid()}, .patience = std::chrono::milliseconds(100)}, forget),
            static_cast<int>(Status::failed));
  EXPECT_TRUE(is_left_alone(named.pid()));
}

TEST(Broker, NoThreadStandsForAWorkerThatIsStopped) {
  const Named named;
  const pid_t pid = fork();
  if (pid == 0) {
    int status = 0;
    if (!separate({.named = {named.pid()}}) || !seize(named.pid()) || !interrupt(named.pid())) _exit(1);
    while (next_event(named.pid(), kMoment, status) == 0) continue;
    raise(SIGSTOP);
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  EXPECT_TRUE(WIFSTOPPED(status));
  EXPECT_NE(status_value(direct::proc_text(named.pid(), "status"), "TracerPid"), "0");
  EXPECT_TRUE(is_left_alone(named.pid()));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

char changed_word = 'a';  // of the named process, which is a copy of this one

TEST(Broker, NothingIsChangedWithoutALine) {
  const std::byte other{'b'};
  const auto change = [&](pid_t pid) {
    const uint32_t writer = open_writer(pid);
    return overwrite(writer, reinterpret_cast<uint64_t>(&changed_word), std::span(&other, 1));
  };
  for (const bool says : {false, true}) {
    const Named named;
    int lines[2];
    ASSERT_EQ(pipe(lines), 0);
    const Log log = [&](pid_t process, std::string_view action, std::string_view) -> Result<void> {
      const std::string line = std::to_string(process == named.pid()) + std::string(action) + "\n";
      EXPECT_EQ(write(lines[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
      return {};
    };
    const auto measure = [&] {
      if (says && !kernel::log(named.pid(), "attach", "result=\"begins\"")) return 1;
      if (!change(named.pid()) || !change(named.pid())) return 2;
      return says && !kernel::log(named.pid(), "removal", "result=\"done\"") ? 3 : 0;
    };
    EXPECT_EQ(in_a_worker({.named = {named.pid()}, .log = log}, measure), 0);
    close(lines[1]);
    std::string said;
    for (char one; read(lines[0], &one, 1) == 1;) said += one;
    EXPECT_EQ(said, says ? "1attach\n1removal\n" : "1change\n1end\n");
    close(lines[0]);
  }
  const Named named;
  const Log none = [](pid_t, std::string_view, std::string_view) -> Result<void> { return Error{"no log"}; };
  EXPECT_EQ(in_a_worker({.named = {named.pid()}, .log = none}, [&] { return change(named.pid()) ? 1 : 0; }),
            0);
}

TEST(Broker, LinesAreOnlyAboutItsProcesses) {
  const Named named, other;
  const Log log = [](pid_t, std::string_view, std::string_view) -> Result<void> { return {}; };
  EXPECT_EQ(in_a_worker({.named = {named.pid()}, .log = log},
                        [&] {
                          if (!kernel::log(named.pid(), "attach", "result=\"done\"")) return 1;
                          return kernel::log(other.pid(), "attach", "result=\"done\"") ? 2 : 0;
                        }),
            0);
}

TEST(Broker, NoLockIsBrokenUnlessItWasTold) {
  const Named named, other;
  const BreakLock breaks = [](pid_t) -> Result<std::string> { return std::string("ended\n"); };
  const auto said = [](pid_t pid) {
    const auto out = break_lock(pid);
    return out ? *out : std::string("refused");
  };
  EXPECT_EQ(in_a_worker({.named = {named.pid()}}, [&] { return said(named.pid()).empty() ? 0 : 1; }), 0);
  EXPECT_EQ(in_a_worker({.named = {named.pid()}, .break_lock = breaks},
                        [&] {
                          if (said(named.pid()) != "ended\n") return 1;
                          return said(other.pid()) == "ended\n" ? 2 : 0;
                        }),
            0);
}

uint64_t start_of(pid_t pid) {
  return std::stoull(std::string(stat_field(direct::proc_text(pid, "stat"), 22)));
}

// Of one that is asked about, and comes each time.
Newcomers as_newcomer(pid_t pid, uint64_t start, As as) {
  return [=](const Admit& admit, std::string& refused) {
    if (admit(pid, start, as)) return std::vector<pid_t>{pid};
    refused = "not admitted";
    return std::vector<pid_t>();
  };
}

TEST(Broker, OnlyWhoIsChosenThereJoins) {
  const Named named, comes, other;
  const auto join = [&] {
    std::string refused = std::to_string(other.pid());  // whatever is asked
    if (!is_refused(open_memory(comes.pid()))) return 1;
    if (newcomers(refused) != std::vector<pid_t>{comes.pid()}) return 2;
    const int memory = open_memory(comes.pid());
    if (memory < 0 || proc_text(comes.pid(), "maps").empty()) return 3;
    if (!is_refused(open_memory(other.pid())) || seize(other.pid())) return 4;
    if (open_writer(other.pid()) != 0 || !proc_text(other.pid(), "maps").empty()) return 5;
    return 0;
  };
  const Newcomers comer = as_newcomer(comes.pid(), start_of(comes.pid()), As::peer);
  EXPECT_EQ(in_a_worker({.named = {named.pid()}, .newcomers = comer}, join), 0);
  EXPECT_EQ(in_a_worker({.newcomers = comer}, join), 0);  // the first of all
}

TEST(Broker, NobodyJoinsWhereNobodyIsChosen) {
  const Named named, other;
  EXPECT_EQ(in_a_worker({.named = {named.pid()}},
                        [&] {
                          std::string refused;
                          return newcomers(refused).empty() && is_refused(open_memory(other.pid())) ? 0 : 1;
                        }),
            0);
}

TEST(Broker, AnotherProcessWithTheIdDoesNotJoin) {
  const Named named, comes;
  for (const As as : {As::child, As::peer, As::member}) {
    const Newcomers comer = as_newcomer(comes.pid(), start_of(comes.pid()) - 1, as);
    EXPECT_EQ(in_a_worker({.named = {named.pid()}, .newcomers = comer},
                          [&] {
                            std::string refused;
                            if (!newcomers(refused).empty() || refused != "not admitted") return 1;
                            return is_refused(open_memory(comes.pid())) ? 0 : 2;
                          }),
              0);
  }
}

// One with other rights would get to the others, or they to him, by way of the worker.
TEST(Broker, ByANameOnlyEqualsJoin) {
  if (geteuid() != 0) GTEST_SKIP() << "root only";
  constexpr uid_t kNobody = 65534;
  const Named root(0), nobody(kNobody), another(kNobody), third(kNobody - 1);
  const auto joins = [](const Named& named, const Named& comes, As as) {
    const Newcomers comer = as_newcomer(comes.pid(), start_of(comes.pid()), as);
    return in_a_worker({.named = {named.pid()}, .newcomers = comer}, [&] {
             std::string refused;
             return newcomers(refused).empty() ? 1 : is_refused(open_memory(comes.pid())) ? 2 : 0;
           }) == 0;
  };
  EXPECT_FALSE(joins(root, nobody, As::peer));
  EXPECT_FALSE(joins(nobody, root, As::peer));
  EXPECT_FALSE(joins(nobody, third, As::peer));
  EXPECT_TRUE(joins(nobody, another, As::peer));
  EXPECT_TRUE(joins(nobody, third, As::member));
  EXPECT_FALSE(joins(nobody, another, As::child));
}

TEST(Broker, FilesAreNotMadeUnlessItWasTold) {
  EXPECT_EQ(in_a_worker({}, [] { return publish("text") ? 1 : 0; }), 0);
}

}  // namespace
}  // namespace mdl::kernel
