#include "runtime/kernel/judgement.h"

#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "base/proc_text.h"
#include "runtime/kernel/direct.h"
#include "runtime/kernel/rights.h"

namespace mdl::kernel {
namespace {

Trust trusted;

pid_t worker = 0;
std::vector<Family> families;  // of each that was named, or of the one that is started

std::optional<AsOwner> as_owner;    // while a call is made
std::set<pid_t> looked_at;          // threads that had no more rights than they may have when they stood
std::map<uint32_t, pid_t> written;  // heads of what is written through a writer
std::map<pid_t, pid_t> stood;       // and of threads that stood

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

bool is_public(std::string_view name) {
  return name == "stat" || name == "status" || name == "comm" || name == "schedstat";
}

bool is_private(std::string_view name) {
  constexpr std::string_view kNames[] = {"auxv",    "limits",   "cgroup",  "syscall",  "attr/current", "maps",
                                         "ns/user", "ns/mnt",   "exe",     "root",     "mem",          "io",
                                         "net/tcp", "net/tcp6", "net/udp", "net/udp6", "net/unix"};
  return std::ranges::count(kNames, name) != 0;
}

}  // namespace

void trust(Trust trust) {
  trusted = std::move(trust);
}

void begin_judging(pid_t of) {
  for (const int file : trusted.of_worker) close(file);
  worker = of;
  for (const pid_t named : trusted.named) families.emplace_back(named);
  if (families.empty()) families.emplace_back(0);
  for (const pid_t child : trusted.children) (void)may_touch(child);
}

std::chrono::milliseconds patience() {
  return trusted.patience;
}

void end_judging() {
  logged.end();
}

void begin_question() {
  known_in_question.clear(), touched_in_question = 0;
}

void end_call() {
  as_owner.reset();
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

// Anybody may give a program a name. So by a name those are admitted that have the rights of one that was there, no more
// and no less: who takes over the worker by one of them gains nothing by the others.
static bool admit(pid_t pid, uint64_t start, As as) {
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
         name == "mountinfo" || name == "timens_offsets";
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

void goes_on(pid_t tid) {
  looked_at.erase(tid);
}

bool may_change(pid_t tid) {
  return may_set(tid) && logged.may_change(stood[tid]);
}

void adopt(pid_t started) {
  families.front().adopt(started);
}

void note_writer(uint32_t writer, pid_t tid) {
  for (Family& one : families) one.take(tid);
  written[writer] = head_of(tid);
}

bool may_write(uint32_t writer) {
  return logged.may_change(written[writer]);
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

}  // namespace mdl::kernel
