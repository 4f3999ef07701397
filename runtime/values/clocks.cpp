#include "runtime/values/clocks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/proc_text.h"
#include "runtime/arch/clock.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/process/target.h"
#include "runtime/values/cell_kinds.h"

namespace mdl::values {
namespace {

constexpr uint64_t kBlockBytes = 512;  // ru_inblock and ru_oublock count these

std::string task_file(pid_t pid, pid_t tid, const char* name) {
  return kernel::proc_text(pid, fmt::format("task/{}/{}", tid, name));
}

// The number behind `key` in a file of "key: number" lines.
std::optional<uint64_t> number_of(const std::string& text, std::string_view key) {
  size_t at = text.find(key);
  if (at == std::string::npos) return std::nullopt;
  return std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

std::optional<uint64_t> event_count(format::Event event, pid_t pid, pid_t tid) {
  auto sum = [&](format::Event a, format::Event b) -> std::optional<uint64_t> {
    const auto first = event_count(a, pid, tid), second = event_count(b, pid, tid);
    if (first && second) return *first + *second;
    return std::nullopt;
  };
  auto blocks = [&](std::string_view key) -> std::optional<uint64_t> {
    auto bytes = number_of(task_file(pid, tid, "io"), key);
    if (bytes) return *bytes / kBlockBytes;
    return std::nullopt;
  };
  switch (event) {
    case format::Event::minor_faults:
      return stat_number(task_file(pid, tid, "stat"), 10);
    case format::Event::major_faults:
      return stat_number(task_file(pid, tid, "stat"), 12);
    case format::Event::blocks_in:
      return blocks("\nread_bytes:");
    case format::Event::blocks_out:
      return blocks("\nwrite_bytes:");
    case format::Event::voluntary_switches:
      return number_of(task_file(pid, tid, "status"), "\nvoluntary_ctxt_switches:");
    case format::Event::involuntary_switches:
      return number_of(task_file(pid, tid, "status"), "\nnonvoluntary_ctxt_switches:");
    case format::Event::page_faults:
      return sum(format::Event::minor_faults, format::Event::major_faults);
    case format::Event::context_switches:
      return sum(format::Event::voluntary_switches, format::Event::involuntary_switches);
  }
  return std::nullopt;
}

std::optional<uint64_t> thread_clock(const ClockOf& clock, pid_t pid, pid_t tid) {
  std::optional<uint64_t> count;
  if (clock.clock == format::CellClock::cpu) {
    std::string text = task_file(pid, tid, "schedstat");  // the first number is the CPU time in nanoseconds
    if (!text.empty()) count = std::strtoull(text.c_str(), nullptr, 10);
  } else {
    count = event_count(clock.event, pid, tid);
  }
  if (count) *count += kAbove;
  return count;
}

}  // namespace

uint64_t nanoseconds(uint64_t ticks, uint64_t ticks_per_second) {
  __extension__ using Wide = unsigned __int128;
  return ticks_per_second ? static_cast<uint64_t>(Wide{ticks} * 1'000'000'000 / ticks_per_second) : 0;
}

Result<uint64_t> clock_now(const ClockOf& clock, pid_t pid, pid_t tid) {
  if (clock.clock == format::CellClock::wall) return arch::wall_ticks();
  if (auto now = thread_clock(clock, pid, tid)) return *now;
  return Error{fmt::format("cannot read the clocks of thread {} of process {} in /proc", tid, pid)};
}

const std::map<uint64_t, pid_t>& TargetClocks::threads() {
  if (threads_) return *threads_;
  threads_.emplace();
  // In a pid namespace of its own, a process knows its threads by other ids than we do.
  bool same = process::read_status(pid_).inner_pid == pid_;
  for (pid_t tid : process::live_threads(pid_)) {
    pid_t own = same ? tid : process::read_status(tid).inner_pid;
    threads_->emplace(static_cast<uint64_t>(own), tid);
  }
  return *threads_;
}

uint64_t TargetClocks::wall() {
  threads_.reset();
  return arch::wall_ticks();
}

bool TargetClocks::alive(uint64_t thread) {
  return threads().contains(thread);
}

std::optional<uint64_t> TargetClocks::of_thread(const ClockOf& clock, uint64_t thread) {
  auto found = threads().find(thread);
  if (found == threads().end()) return std::nullopt;
  return thread_clock(clock, pid_, found->second);
}

}  // namespace mdl::values
