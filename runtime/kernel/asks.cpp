// Each call goes to the broker, or is made here where there is none.
#include <unistd.h>

#include <algorithm>

#include "base/read_text.h"
#include "base/watchdog.h"
#include "runtime/kernel/broker.h"
#include "runtime/kernel/calls.h"

namespace mdl::kernel {
namespace {

constexpr size_t kMost = size_t{1} << 20;  // of bytes at once
constexpr size_t kMostEdits = 2048;        // their code is at most a page each

// Calls it for one part after the other, until it fails.
template <typename Bytes, typename Call>
bool in_parts(uint64_t address, Bytes bytes, Call call) {
  while (!bytes.empty()) {
    const Watched watched;
    const size_t size = std::min(kMost, bytes.size());
    if (!call(address, bytes.first(size))) return false;
    address += size;
    bytes = bytes.subspan(size);
  }
  return true;
}

}  // namespace

bool seize(pid_t tid) {
  return ask<direct::seize>(tid);
}
bool interrupt(pid_t tid) {
  return ask<direct::interrupt>(tid);
}
bool go_on(pid_t tid, int signal) {
  return ask<direct::go_on>(tid, signal);
}
bool go_to_system_call(pid_t tid, int signal) {
  return ask<direct::go_to_system_call>(tid, signal);
}
bool detach(pid_t tid, int signal) {
  return ask<direct::detach>(tid, signal);
}
size_t read_registers(pid_t tid, std::span<std::byte> block) {
  return ask<direct::read_registers>(tid, block);
}
bool write_registers(pid_t tid, std::span<const std::byte> block) {
  return ask<direct::write_registers>(tid, block);
}
bool read_signal_mask(pid_t tid, uint64_t& mask) {
  return ask<direct::read_signal_mask>(tid, mask);
}
bool write_signal_mask(pid_t tid, uint64_t mask) {
  return ask<direct::write_signal_mask>(tid, mask);
}
bool read_signal(pid_t tid, siginfo_t& info) {
  return ask<direct::read_signal>(tid, info);
}
bool read_system_call(pid_t tid, __ptrace_syscall_info& call) {
  return ask<direct::read_system_call>(tid, call);
}
bool read_restartable(pid_t tid, RestartableSequences& out) {
  return ask<direct::read_restartable>(tid, out);
}
bool read_filter(pid_t tid, long number, std::vector<sock_filter>& out) {
  return ask<direct::read_filter>(tid, number, out);
}
bool look_at_event(pid_t tid, int kinds, siginfo_t& info) {
  return ask<direct::look_at_event>(tid, kinds, info);
}
pid_t take_event(pid_t tid, int& status) {
  return ask<direct::take_event>(tid, status);
}
pid_t next_event(pid_t tid, std::chrono::microseconds patience, int& status) {
  return ask<direct::next_event>(tid, patience, status);
}
pid_t step(pid_t tid, bool to_signals, __ptrace_syscall_info& call, int& status) {
  return ask<direct::step>(tid, to_signals, call, status);
}

std::vector<Outcome<bool>> seize_each(std::span<const pid_t> tids) {
  return ask_each<direct::seize>(tids.size(), [&](size_t i) { return std::tuple(tids[i]); });
}
void interrupt_each(std::span<const pid_t> tids) {
  ask_each<direct::interrupt>(tids.size(), [&](size_t i) { return std::tuple(tids[i]); });
}
std::vector<Outcome<pid_t>> next_events(std::span<const pid_t> tids, std::vector<int>& statuses) {
  constexpr std::chrono::microseconds kNone{0};
  statuses.assign(tids.size(), 0);
  return ask_each<direct::next_event>(tids.size(), [&](size_t i) {
    return std::tuple<pid_t, std::chrono::microseconds, int&>(tids[i], kNone, statuses[i]);
  });
}
std::vector<Outcome<bool>> read_signals(std::span<const pid_t> tids, std::vector<siginfo_t>& infos) {
  infos.assign(tids.size(), {});
  return ask_each<direct::read_signal>(
      tids.size(), [&](size_t i) { return std::tuple<pid_t, siginfo_t&>(tids[i], infos[i]); });
}
std::vector<Outcome<size_t>> read_registers_each(std::span<const pid_t> tids, std::span<std::byte> blocks) {
  const size_t size = tids.empty() ? 0 : blocks.size() / tids.size();
  return ask_each<direct::read_registers>(
      tids.size(), [&](size_t i) { return std::tuple(tids[i], blocks.subspan(i * size, size)); });
}
std::vector<Outcome<bool>> read_dispatch_each(std::span<const pid_t> tids, std::vector<CallDispatch>& out) {
  out.assign(tids.size(), {});
  return ask_each<direct::read_dispatch>(
      tids.size(), [&](size_t i) { return std::tuple<pid_t, CallDispatch&>(tids[i], out[i]); });
}
std::vector<Outcome<bool>> detach_each(std::span<const pid_t> tids, std::span<const int> signals) {
  return ask_each<direct::detach>(tids.size(), [&](size_t i) { return std::tuple(tids[i], signals[i]); });
}

int open_handle(pid_t pid) {
  return ask<direct::open_handle>(pid).file;
}
bool stop_again(pid_t process, pid_t tid) {
  return ask<direct::stop_again>(process, tid);
}
pid_t own_id() {
  static const pid_t id = ask<direct::own_id>();
  return id;
}
bool hurry(bool on) {
  static thread_local int times = 0;
  if (on ? times > 0 : times > 1) {
    times += on ? 1 : -1;
    return true;
  }
  const bool done = ask<direct::hurry>(gettid(), on);
  times = on && done ? 1 : 0;
  return done;
}

Started start_program(std::string_view words, std::string_view folder) {
  return ask<direct::start_program>(words, folder);
}
std::string command_words(std::span<const std::string> command) {
  std::string out;
  for (const std::string& word : command) out.append(word.c_str(), word.size() + 1);
  return out;
}
void let_program_go() {
  ask<direct::let_program_go>();
}
void end_program() {
  ask<direct::end_program>();
}
void end_program_with_us() {
  ask<direct::end_program_with_us>();
}

int open_memory(pid_t tid) {
  return ask<direct::open_memory>(tid).file;
}
uint32_t open_writer(pid_t tid) {
  return ask<direct::open_writer>(tid);
}
bool duplicate_writer(uint32_t writer) {
  return ask<direct::duplicate_writer>(writer);
}
void close_writer(uint32_t writer) {
  ask<direct::close_writer>(writer);
}
bool read_writer(uint32_t writer, uint64_t address, std::span<std::byte> into) {
  const Watched watched;
  return ask<direct::read_writer>(writer, address, into);
}
bool overwrite(uint32_t writer, uint64_t address, std::span<const std::byte> bytes) {
  target_changes();
  return in_parts(address, bytes,
                  [&](uint64_t at, auto part) { return ask<direct::overwrite>(writer, at, part); });
}
Edited apply_edits(uint32_t writer, std::span<const Edit> edits, bool only_look) {
  Edited out;
  if (!only_look) target_changes();
  for (size_t first = 0; first < edits.size() && !out.failed;) {
    size_t last = std::min(edits.size(), first + kMostEdits / 2);
    while (last < edits.size() && last < first + kMostEdits &&
           page_of(edits[last]) == page_of(edits[last - 1]))
      last++;
    const Watched watched;
    const Edited some = ask<direct::apply_edits>(writer, edits.subspan(first, last - first), only_look);
    for (size_t at : some.changed) out.changed.push_back(first + at);
    for (size_t at : some.foreign) out.foreign.push_back(first + at);
    out.failed = some.failed;
    first = last;
  }
  return out;
}
bool read_memory_of(pid_t tid, uint64_t address, std::span<std::byte> into) {
  return in_parts(address, into,
                  [&](uint64_t at, auto part) { return ask<direct::read_memory_of>(tid, at, part); });
}
std::optional<bool> compare_memory(pid_t tid, pid_t other) {
  return ask<direct::compare_memory>(tid, other);
}
std::vector<std::optional<bool>> compare_memory_each(pid_t tid, std::span<const pid_t> others) {
  std::vector<std::optional<bool>> out;
  const auto with = [&](size_t i) { return std::tuple(tid, others[i]); };
  for (const auto& one : ask_each<direct::compare_memory>(others.size(), with)) out.push_back(one.value);
  return out;
}

std::string proc_text(pid_t pid, std::string_view name) {
  std::string out;
  read_proc(pid, name, out);
  return out;
}
int read_proc(pid_t pid, std::string_view name, std::string& out) {
  if (name != "maps") {
    out += ask<direct::proc_text>(pid, name);
    return out.empty() ? errno : 0;
  }
  // As long as the process wants it to be: it is read here.
  const int file = open_proc(pid, name);
  return file < 0 ? errno : read_open(file, out, kMostMaps);
}
std::string proc_link(pid_t pid, std::string_view name) {
  return ask<direct::proc_link>(pid, name);
}
bool stat_proc(pid_t pid, std::string_view name, struct stat& out) {
  const Watched watched(Watched::Of::file);
  return ask<direct::stat_proc>(pid, name, out);
}
int open_proc(pid_t pid, std::string_view name) {
  const Watched watched(Watched::Of::file);
  return ask<direct::open_proc>(pid, name).file;
}
int open_regular(pid_t pid, std::string_view name) {
  const Watched watched(Watched::Of::file);
  return ask<direct::open_regular>(pid, name).file;
}
int open_below_root(pid_t pid, std::string_view path) {
  const Watched watched(Watched::Of::file);
  return ask<direct::open_below_root>(pid, path).file;
}
std::string own_text(std::string_view name) {
  return ask<direct::own_text>(name);
}
std::string own_link(std::string_view name) {
  return ask<direct::own_link>(name);
}
bool stat_own(std::string_view name, struct stat& out) {
  return ask<direct::stat_own>(name, out);
}
std::string system_text(std::string_view path) {
  return ask<direct::system_text>(path);
}
std::vector<pid_t> processes() {
  return ask<direct::processes>();
}
std::vector<pid_t> threads_of(pid_t pid, bool also_ended) {
  return ask<direct::threads_of>(pid, also_ended);
}
std::vector<pid_t> sharers_of(pid_t tid, bool only_new) {
  return ask<direct::sharers_of>(tid, only_new);
}
pid_t live_thread(pid_t pid) {
  return ask<direct::live_thread>(pid);
}

int lock_file(std::string_view name, int operation, std::string_view text) {
  return ask<direct::lock_file>(name, operation, text).file;
}
int look_at_lock_file(std::string_view name) {
  return ask<direct::look_at_lock_file>(name).file;
}
void remove_lock_file(std::string_view name) {
  ask<direct::remove_lock_file>(name);
}

Result<int> publish(std::string_view text) {
  std::string problem;
  const int file = ask<direct::publish>(text, problem).file;
  if (file < 0) return Error{std::move(problem)};
  return file;
}
Result<void> log(pid_t process, std::string_view action, std::string_view text) {
  std::string problem;
  if (!ask<direct::log>(process, action, text, problem)) return Error{std::move(problem)};
  return {};
}
Result<std::string> break_lock(pid_t pid) {
  std::string problem, ended = ask<direct::break_lock>(pid, problem);
  if (!problem.empty()) return Error{std::move(problem)};
  return ended;
}
std::vector<pid_t> newcomers(std::string& refused) {
  return ask<direct::newcomers>(refused);
}

}  // namespace mdl::kernel
