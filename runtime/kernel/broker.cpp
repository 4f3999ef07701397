#include "runtime/kernel/broker.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/aside.h"
#include "base/nap.h"
#include "base/proc_text.h"
#include "runtime/kernel/calls.h"
#include "runtime/kernel/judgement.h"

namespace mdl::kernel {
namespace {

// Threads that stand, and the last question: a worker that is stopped itself, or does not come to an end, must not hold
// them.
std::set<pid_t> standing;
bool holds_program = false;  // that has not begun: it has nothing to do
std::atomic<bool> any_stands = false;
std::atomic<std::chrono::steady_clock::rep> last_question = 0;

[[noreturn]] void end_broker() {
  end_judging();
  _exit(1);
}

void note_stand(pid_t tid, bool stands) {
  if (stands)
    standing.insert(tid);
  else
    standing.erase(tid);
  any_stands = !standing.empty() && !holds_program;
}

void note_question() {
  last_question = std::chrono::steady_clock::now().time_since_epoch().count();
}

bool is_stopped(pid_t process) {
  return status_value(direct::proc_text(process, "status"), "State").starts_with('T');
}

void watch_worker(pid_t worker) {
  run_aside([worker] {
    constexpr int kLooks = 5;
    int stopped = 0;  // looks in a row that saw it so
    for (;; nap(200'000)) {
      const std::chrono::steady_clock::duration last(last_question.load());
      stopped = any_stands && is_stopped(worker) ? stopped + 1 : 0;
      if (!any_stands ||
          (stopped < kLooks && std::chrono::steady_clock::now().time_since_epoch() - last < patience()))
        continue;
      std::fputs("mdl-inject: it has stopped threads and did nothing for seconds: they go on\n", stderr);
      end_broker();
    }
  });
}

// What must be true for each call. The kernel itself answers those about threads that are not our tracees (ESRCH) or no
// children of ours (ECHILD).
constexpr auto kAnybody = [](const auto&...) { return true; };
constexpr auto kFamily = [](pid_t tid, const auto&...) { return may_touch(tid); };
constexpr auto kSeizes = [](pid_t tid) { return may_seize(tid); };
constexpr auto kStands = [](pid_t tid, const auto&...) { return may_set(tid); };
constexpr auto kGoesOn = [](pid_t tid, const auto&...) {
  goes_on(tid);
  note_stand(tid, false);
  return true;
};
constexpr auto kChanges = [](pid_t tid, const auto&...) { return may_change(tid); };
constexpr auto kWrites = [](uint32_t writer, const auto&...) { return may_write(writer); };
constexpr auto kEdits = [](uint32_t writer, const auto&, bool only_look) {
  return only_look || may_write(writer);
};
constexpr auto kShows = [](pid_t tid, std::string_view name, const auto&...) { return may_show(tid, name); };
constexpr auto kOpens = [](pid_t tid, std::string_view name) {
  return (name == "exe" || name == "maps") && may_show(tid, name);
};
constexpr auto kOpensBelow = [](pid_t tid, std::string_view) { return may_look(tid) && is_owner(tid); };
constexpr auto kShowsOwn = [](std::string_view name, const auto&...) { return may_show_own(name); };
constexpr auto kLock = [](std::string_view name, const auto&...) { return is_lock(name); };
constexpr auto kHeaded = [](pid_t process, const auto&...) { return head_of(process) != 0; };
constexpr auto kLogs = [](pid_t process, const auto&...) { return process == 0 || head_of(process) != 0; };
constexpr auto kWorker = [](pid_t tid, bool) { return is_worker(tid); };

template <auto F, auto... All>
constexpr bool kIsOneOf = (std::is_same_v<Tag<F>, Tag<All>> || ...);

template <auto F>
constexpr auto check_of() {
  // Through a handle nothing can be sent; /proc lists processes for everybody; to compare memory gives a bit; newcomers
  // are named by nobody.
  if constexpr (kIsOneOf<F, direct::interrupt, direct::read_signal, direct::read_system_call,
                         direct::read_restartable, direct::read_dispatch, direct::read_filter,
                         direct::look_at_event, direct::open_handle, direct::stop_again, direct::own_id,
                         direct::let_program_go, direct::end_program, direct::end_program_with_us,
                         direct::duplicate_writer, direct::close_writer, direct::read_writer,
                         direct::compare_memory, direct::processes, direct::threads_of, direct::sharers_of,
                         direct::live_thread, direct::publish, direct::newcomers>)
    return kAnybody;
  else if constexpr (kIsOneOf<F, direct::open_memory, direct::open_writer, direct::read_memory_of>)
    return kFamily;
  else if constexpr (kIsOneOf<F, direct::seize>)
    return kSeizes;
  else if constexpr (kIsOneOf<F, direct::go_on, direct::go_to_system_call, direct::detach, direct::take_event,
                              direct::next_event, direct::step>)
    return kGoesOn;
  else if constexpr (kIsOneOf<F, direct::read_registers, direct::read_signal_mask, direct::write_signal_mask>)
    return kStands;
  else if constexpr (kIsOneOf<F, direct::write_registers>)
    return kChanges;
  else if constexpr (kIsOneOf<F, direct::overwrite>)
    return kWrites;
  else if constexpr (kIsOneOf<F, direct::apply_edits>)
    return kEdits;
  else if constexpr (kIsOneOf<F, direct::proc_text, direct::proc_link, direct::stat_proc,
                              direct::open_regular>)
    return kShows;
  else if constexpr (kIsOneOf<F, direct::open_proc>)
    return kOpens;
  else if constexpr (kIsOneOf<F, direct::open_below_root>)
    return kOpensBelow;
  else if constexpr (kIsOneOf<F, direct::own_text, direct::own_link, direct::stat_own>)
    return kShowsOwn;
  else if constexpr (kIsOneOf<F, direct::lock_file, direct::look_at_lock_file, direct::remove_lock_file>)
    return kLock;
  else if constexpr (kIsOneOf<F, direct::break_lock>)
    return kHeaded;
  else if constexpr (kIsOneOf<F, direct::log>)
    return kLogs;
  else if constexpr (kIsOneOf<F, direct::hurry>)
    return kWorker;
  else if constexpr (kIsOneOf<F, direct::system_text>)
    return is_setting;
  else if constexpr (kIsOneOf<F, direct::start_program>)
    return is_allowed_command;
}

// Once more behind calls that took hold of something: it may have executed a program meanwhile that has more rights.
// A thread that was seized is looked at when it stands (may_set).
template <auto F>
constexpr bool kTakesHold = kIsOneOf<F, direct::open_memory, direct::open_writer>;

template <auto F>  // its last parameter is the status
constexpr bool kTellsStop = kIsOneOf<F, direct::next_event, direct::take_event, direct::step>;

template <typename R>
void undo(R& out) {
  if constexpr (std::is_same_v<R, direct::Opened>) close(out.file);
  if constexpr (std::is_same_v<R, uint32_t>) direct::close_writer(out);
  out = R{};
  errno = EPERM;
}

template <auto F, typename R, typename... A>
bool serve_as(R (*)(A...), wire::Reader question, wire::Writer& answer, int& file) {
  std::tuple<typename wire::Parameter<A>::Kept...> kept;
  std::apply([&](auto&... one) { (wire::Parameter<A>::take(question, one), ...); }, kept);
  if (!question.is_whole()) return false;
  R out{};
  errno = EPERM;  // where the check gives no other reason
  if (std::apply([](auto&... one) { return check_of<F>()(wire::Parameter<A>::pass(one)...); }, kept)) {
    errno = 0;
    out = std::apply([](auto&... one) { return F(wire::Parameter<A>::pass(one)...); }, kept);
    if constexpr (kTakesHold<F>)
      if (out != R{} && !may_touch(std::get<0>(kept))) undo(out);
    if constexpr (kIsOneOf<F, direct::open_writer>)
      if (out != R{}) note_writer(out, std::get<0>(kept));
  }
  const int error = errno;
  if constexpr (kTellsStop<F>)
    if (out > 0 && WIFSTOPPED(std::get<sizeof...(A) - 1>(kept))) note_stand(out, true);
  std::apply([&](auto&... one) { (wire::Parameter<A>::answer(answer, one), ...); }, kept);
  if constexpr (std::is_same_v<R, direct::Opened>)
    file = out.file;
  else
    wire::put(answer, out);
  if constexpr (kIsOneOf<F, direct::start_program>)
    if (out.pid) adopt(out.pid), holds_program = true;
  if constexpr (kIsOneOf<F, direct::let_program_go>) holds_program = false;
  errno = error;
  return true;
}

using Serve = bool (*)(wire::Reader, wire::Writer&, int&);

template <auto... F>
constexpr auto servers(List<F...>) {
  static_assert((!std::is_void_v<decltype(check_of<F>())> && ...), "each call has a check");
  return std::array<Serve, sizeof...(F)>{[](wire::Reader question, wire::Writer& answer, int& file) {
    return serve_as<F>(F, question, answer, file);
  }...};
}

// errno says how it went.
bool serve_one(uint32_t call, wire::Reader question, wire::Writer& answer, int& file) {
  constexpr auto kServers = servers(Calls{});
  const bool is_one = call < kServers.size() && kServers[call](question, answer, file) && answer.fits();
  const int error = errno;
  note_question();
  end_call();
  errno = error;
  return is_one;
}

// Calls behind their sizes, each with its own check; none that gives a descriptor.
bool serve_several(wire::Reader questions, wire::Writer& answers) {
  static std::vector<std::byte> room(kRoomOfOne);
  while (!questions.is_whole()) {
    wire::Reader question{wire::get_bytes(questions)};
    wire::Writer answer(room);
    uint32_t call = UINT32_MAX;
    wire::get(question, call);
    int file = -1;
    const bool is_one = serve_one(call, question, answer, file);
    const int error = errno;
    if (file >= 0) close(file);
    if (!is_one || file >= 0) return false;
    wire::put(answers, error);
    wire::put_bytes(answers, std::span(room).first(answer.used()));
  }
  return answers.fits();
}

[[noreturn]] void serve_all(Channel& channel) {
  std::vector<std::byte> question(Channel::kRoom);
  while (const std::optional<size_t> size = channel.next(question)) {
    wire::Reader reader{std::span(question).first(*size)};
    wire::Writer answer(channel.room());
    uint32_t call = UINT32_MAX;
    wire::get(reader, call);
    int file = -1;
    begin_question();
    if (call == kSeveral ? !serve_several(reader, answer) : !serve_one(call, reader, answer, file)) break;
    channel.answer(answer.used(), errno, file);
    if (file >= 0) close(file);
  }
  end_broker();
}

// A signal at the end of the worker (PR_SET_PDEATHSIG) would not come: that counts as sent by it, who may not any more.
void end_with(pid_t parent) {
  const int handle = direct::open_handle(parent).file;
  if (handle < 0 || getppid() != parent) _exit(1);
  run_aside([handle] {
    pollfd end{handle, POLLIN, 0};
    while (poll(&end, 1, -1) != 1) continue;
    end_broker();
  });
}

}  // namespace

[[noreturn]] void be_broker(Channel& channel, pid_t worker) {
  prctl(PR_SET_DUMPABLE, 0);
  sigset_t held;  // those of a terminal and of whoever ends mdl-inject are the worker's
  sigemptyset(&held);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) sigaddset(&held, signal);
  sigprocmask(SIG_BLOCK, &held, nullptr);
  end_with(worker);
  channel.answers();
  begin_judging(worker);
  watch_worker(worker);
  serve_all(channel);
}

}  // namespace mdl::kernel
