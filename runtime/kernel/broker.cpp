#include "runtime/kernel/broker.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/aside.h"
#include "base/nap.h"
#include "base/proc_text.h"
#include "base/watchdog.h"
#include "runtime/kernel/calls.h"
#include "runtime/kernel/confine.h"
#include "runtime/kernel/rights.h"

namespace mdl::kernel {
namespace {

Trust trusted;  // as of separate(); the broker's, or of who has no broker

// In the broker.

pid_t worker = 0;
std::vector<Family> families;  // of each that was named, or of the one that is started

std::optional<AsOwner> as_owner;  // while a call is made
std::set<pid_t> looked_at;        // threads that had no more rights than they may have when they stood

// Of several calls in one question: their threads' rights are compared each time, the descent of their process once.
std::set<pid_t> known_in_question;
pid_t touched_in_question = 0;  // a process of which a thread may be touched, the last one that was asked for

bool is_known(const Family& family, pid_t process) {
  if (known_in_question.contains(process)) return family.has(process);
  const bool is_known = family.is_known(process);
  if (is_known) known_in_question.insert(process);
  return is_known;
}

// The process that was named, of the family that may be touched with this thread; nothing, and EPERM, where none may.
// Each family has its own measure of rights. Those that have known the process answer first, and alone where there are
// some: the others would look for its descent in vain, for each call, while threads may stand.
std::optional<pid_t> head_if_may_touch(pid_t tid) {
  const std::string status = direct::proc_text(tid, "status");
  const pid_t process = group_of(status);
  bool any = false;
  for (const Family& one : families)
    if (is_known(one, process)) {
      any = true;
      if (one.are_within(tid, status)) return touched_in_question = process, one.head();
    }
  errno = EPERM;
  for (Family& one : families)
    if (!any && one.may_touch(tid)) return one.head();
  return std::nullopt;
}

bool may_touch(pid_t tid) {
  return head_if_may_touch(tid).has_value();
}

// Of several threads of one process the rights of one are compared: all others' are when they stand, before anything of
// them is read or set (may_set), and while many are seized those that stand wait.
bool may_seize(pid_t tid) {
  struct stat status {};
  if (touched_in_question && direct::stat_proc(touched_in_question, "task/" + std::to_string(tid), status))
    return true;
  return may_touch(tid);
}

// For what is only looked at, an answer holds for a moment: most of the questions of an attach come in a row.
bool may_look(pid_t tid) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kMoment{10};
  static pid_t last = 0;
  static Clock::time_point when;
  if (tid == last && Clock::now() - when < kMoment) return true;
  if (!may_touch(tid)) return false;
  last = tid, when = Clock::now();
  return true;
}

// The process that was named, of a thread of it or of its family; 0 for others.
pid_t head_of(pid_t tid) {
  const pid_t process = group_of(direct::proc_text(tid, "status"));
  for (const Family& one : families)
    if (one.is_known(process)) return one.head();
  return 0;
}

// Whoever has taken over the worker may change its process, but not without a line of that: of which processes the audit
// has a line that somebody changes them, and none of an end.
class Logged {
 public:
  bool begins(pid_t process, std::string_view action, std::string_view text, std::string& problem) {
    const std::lock_guard lock(mutex_);
    const bool is_end = action == "removal" || action == "detach" || action == "attach";
    const bool is_at_work =
        text.ends_with("result=\"begins\"") || (action == "attach" && text.ends_with("result=\"done\""));
    if (auto ok = trusted.log(process, action, text); !ok) return problem = ok.error().text, false;
    if (process == 0) return true;
    if (is_end && !is_at_work)
      open_.erase(process);
    else
      open_[process] = head_of(process);
    return true;
  }
  bool may_change(pid_t head) {
    const std::lock_guard lock(mutex_);
    if (!trusted.log || std::ranges::any_of(open_, [&](const auto& one) { return one.second == head; }))
      return true;
    if (!trusted.log(head, "change", "result=\"begins\"")) return false;
    open_[head] = head;
    return true;
  }
  void forget(pid_t process) {  // whose id another one has by now
    const std::lock_guard lock(mutex_);
    open_.erase(process);
  }
  void end() {
    const std::lock_guard lock(mutex_);
    for (const auto& [process, head] : open_)
      (void)trusted.log(process, "end", "result=\"mdl-inject has ended without a line of it\"");
    open_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<pid_t, pid_t> open_;  // with their heads
};
Logged logged;
std::map<uint32_t, pid_t> written;  // heads of what is written through a writer
std::map<pid_t, pid_t> stood;       // and of threads that stood

// Anybody may give a program a name. So by a name those are admitted that have the rights of one that was there, no more
// and no less: who takes over the worker by one of them gains nothing by the others.
bool admit(pid_t pid, uint64_t start, As as) {
  if (may_touch(pid)) return true;
  if (as == As::child) return false;
  Family family(pid);
  const auto is_peer = [&](const Family& one) { return family.is_peer(one); };
  const bool is_first = std::ranges::all_of(families, &Family::is_empty);
  if (family.since() != start) return false;
  if (as == As::peer && !is_first && std::ranges::none_of(families, is_peer)) return false;
  constexpr size_t kMany = 64;  // of which some may have children that are not known yet
  if (families.size() >= kMany)
    std::erase_if(families, [&](const Family& one) { return is_peer(one) && one.is_over(); });
  logged.forget(pid);
  families.push_back(std::move(family));
  return true;
}

[[noreturn]] void end_broker() {
  logged.end();
  _exit(1);
}

bool is_public(std::string_view name) {
  return name == "stat" || name == "status" || name == "comm" || name == "schedstat";
}

bool is_private(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "auxv", "limits", "cgroup", "syscall", "attr/current", "maps",    "ns/user",  "exe",
      "root", "mem",    "io",     "net/tcp", "net/tcp6",     "net/udp", "net/udp6", "net/unix"};
  return std::ranges::count(kNames, name) != 0;
}

// True from here to the end of the call. A broker that may not become others opens files as itself.
bool is_owner(pid_t tid) {
  static const bool becomes_others = (own_capabilities() & kSetsUser) && (own_capabilities() & kSetsGroup);
  as_owner.emplace(tid);
  if (as_owner->has_worked() || !becomes_others) return true;
  errno = EACCES;
  return false;
}

// /proc shows some of it to everybody. Files are opened as the process's owner could: he is to be shown nothing that
// he may not see.
bool may_show(pid_t tid, std::string_view name) {
  std::string_view plain = name;
  if (name.find("..") != name.npos) return false;  // it would lead out of the process's own
  if (name.starts_with("task/")) plain.remove_prefix(std::min(name.size(), name.find('/', 5) + 1));
  if (is_public(plain)) return true;
  if (is_private(plain) || name.starts_with("map_files/")) return may_look(tid);
  const bool is_file = name.starts_with("root/") || name.starts_with("cwd") || name.starts_with("fd/");
  return is_file && may_look(tid) && is_owner(tid);
}

bool may_show_own(std::string_view name) {
  return name == "status" || name == "root" || name == "loginuid" || name.starts_with("ns/") ||
         name == "mountinfo";
}

bool is_setting(std::string_view path) {
  constexpr std::string_view kSettings[] = {"/proc/sys/kernel/yama/ptrace_scope",
                                            "/proc/sys/vm/max_map_count",
                                            "/proc/sys/vm/overcommit_memory",
                                            "/sys/kernel/security/lsm",
                                            "/proc/meminfo",
                                            "/proc/locks"};
  if (std::ranges::find(kSettings, path) != std::end(kSettings)) return true;
  if (path.find("..") != path.npos) return false;
  if (path.starts_with("/sys/devices/system/clocksource/")) return true;
  struct statfs file {};
  constexpr decltype(file.f_type) kGroups = 0x27e0eb, kUnifiedGroups = 0x63677270;  // linux/magic.h
  return path.substr(path.rfind('/') + 1).starts_with("memory.") &&
         statfs(std::string(path).c_str(), &file) == 0 &&
         (file.f_type == kGroups || file.f_type == kUnifiedGroups);
}

bool is_worker(pid_t tid) {
  struct stat status {};
  return direct::stat_proc(worker, "task/" + std::to_string(tid), status);
}

// PID-START-NAMESPACE, of process/lock.h.
bool is_lock(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789-") == name.npos;
}

bool is_allowed_command(std::string_view words, std::string_view folder) {
  if (trusted.any_command) return !words.empty() && families.front().is_empty();
  return !words.empty() && words == trusted.command && folder == trusted.folder;
}

// A thread that stands does not change its rights; before, it may have.
bool may_set(pid_t tid) {
  if (looked_at.contains(tid)) return true;
  siginfo_t info{};
  if (!direct::read_signal(tid, info)) return false;
  const auto head = head_if_may_touch(tid);
  if (!head) return false;
  looked_at.insert(tid);
  stood[tid] = *head;
  return true;
}

// Threads that stand, and the last question: a worker that is stopped itself, or does not come to an end, must not hold
// them.
std::set<pid_t> standing;
bool holds_program = false;  // that has not begun: it has nothing to do
std::atomic<bool> any_stands = false;
std::atomic<std::chrono::steady_clock::rep> last_question = 0;

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

void watch_worker() {
  run_aside([] {
    constexpr int kLooks = 5;
    int stopped = 0;  // looks in a row that saw it so
    for (;; nap(200'000)) {
      const std::chrono::steady_clock::duration last(last_question.load());
      stopped = any_stands && is_stopped(worker) ? stopped + 1 : 0;
      if (!any_stands ||
          (stopped < kLooks && std::chrono::steady_clock::now().time_since_epoch() - last < trusted.patience))
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
  looked_at.erase(tid);
  note_stand(tid, false);
  return true;
};
constexpr auto kChanges = [](pid_t tid, const auto&...) {
  return may_set(tid) && logged.may_change(stood[tid]);
};
constexpr auto kWrites = [](uint32_t writer, const auto&...) { return logged.may_change(written[writer]); };
constexpr auto kEdits = [](uint32_t writer, const auto&, bool only_look) {
  return only_look || logged.may_change(written[writer]);
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
      if (out != R{}) {
        for (Family& one : families) one.take(std::get<0>(kept));
        written[out] = head_of(std::get<0>(kept));
      }
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
    if (out.pid) families.front().adopt(out.pid), holds_program = true;
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
  as_owner.reset();
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
    known_in_question.clear(), touched_in_question = 0;
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

[[noreturn]] void be_broker(Channel& channel, pid_t parent) {
  prctl(PR_SET_DUMPABLE, 0);
  sigset_t held;  // those of a terminal and of whoever ends mdl-inject are the worker's
  sigemptyset(&held);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) sigaddset(&held, signal);
  sigprocmask(SIG_BLOCK, &held, nullptr);
  end_with(parent);
  channel.answers();
  direct::take_short_turns();
  worker = parent;
  for (const pid_t named : trusted.named) families.emplace_back(named);
  if (families.empty()) families.emplace_back(0);
  for (const pid_t child : trusted.children) (void)may_touch(child);
  watch_worker();
  serve_all(channel);
}

// In the worker.

constexpr const char* kGone = "the process that has its privileges has ended";

class Worker final : public Asking {
 public:
  explicit Worker(Channel channel) : channel_(std::move(channel)) { channel_.asks(); }
  std::span<std::byte> begin() override {
    turn_.lock();
    return channel_.room();
  }
  Channel::Answer end(const wire::Writer& question) override {
    if (!question.fits()) give_up("a question is too long");
    auto answer = channel_.ask(question.used());
    if (!answer) give_up(kGone);
    return *answer;
  }
  void done() override { turn_.unlock(); }
  // A measurement may have no question for a long time.
  void end_with_broker() {
    run_aside([this] {
      channel_.wait_gone();
      give_up(kGone);
    });
  }

 private:
  std::mutex turn_;
  Channel channel_;
};

Worker* worker_side = nullptr;  // for good: a thread looks at it to the end

}  // namespace

Asking* asking() {
  return worker_side;
}

// The broker ends with us, and what it has stopped goes on.
void give_up(const char* why) {
  std::fputs(
      has_changed_target()
          ? "mdl-inject: it cannot go on, and has left what it did not take out (see mdl-inject --status): "
          : "mdl-inject: it cannot go on, and has changed nothing: ",
      stderr);
  std::fputs(why, stderr);
  std::fputs("\n", stderr);
  std::_Exit(static_cast<int>(has_changed_target() ? Status::left_inert : Status::failed));
}

namespace direct {

Opened publish(std::string_view text, std::string& problem) {
  if (!trusted.publish) return {};
  auto file = trusted.publish(text);
  if (!file) problem = file.error().text;
  return {file ? *file : -1};
}

bool log(pid_t process, std::string_view action, std::string_view text, std::string& problem) {
  return !trusted.log || logged.begins(process, action, text, problem);
}

std::string break_lock(pid_t pid, std::string& problem) {
  if (!trusted.break_lock) return {};
  auto ended = trusted.break_lock(pid);
  if (!ended) problem = ended.error().text;
  return ended ? *ended : "";
}

std::vector<pid_t> newcomers(std::string& refused) {
  return trusted.newcomers ? trusted.newcomers(admit, refused) : std::vector<pid_t>();
}

}  // namespace direct

bool has_privileges() {
  return geteuid() == 0 || own_capabilities() != 0;
}

Result<void> separate(Trust trust) {
  trusted = std::move(trust);
  tzset();  // of the log's lines, while files can be opened
  auto channel = Channel::make();
  const pid_t parent = getpid();
  const pid_t broker = channel ? fork() : -1;
  const auto failed = [](const char* what) {
    return Error{std::string("cannot ") + what + ": " + std::strerror(errno) +
                 ": nothing was read; --no-separate reads it with all privileges (docs/security.md)"};
  };
  if (broker < 0) return failed("separate its privileges");
  if (broker == 0) be_broker(*channel, parent);
  worker_side = new Worker(std::move(*channel));
  direct::take_short_turns();
#ifndef MDL_SANITIZED
  if (!confine_worker()) return failed("confine the process that reads");
#endif
  worker_side->end_with_broker();
  return {};
}

}  // namespace mdl::kernel
