#include "runtime/process/seccomp.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <set>

#include "runtime/arch/description.h"
#include "runtime/kernel/trace.h"
#include "runtime/process/bpf.h"
#include "runtime/process/target.h"
#include "runtime/process/threads.h"

namespace mdl::process {
namespace {

using namespace std::chrono_literals;

constexpr long kMostFilters = 32768;  // the kernel has no more instructions than this on a thread

// The call as a filter sees it, and which of its words are known.
struct Question {
  seccomp_data data{};
  uint16_t known = 0;
};
static_assert(sizeof(seccomp_data) == 16 * sizeof(uint32_t));

Question question_of(const arch::PlannedCall& call) {
  Question out;
  out.data.nr = static_cast<int>(call.number);
  out.data.arch = arch::kMachine.audit;
  out.known = 0b11;  // the instruction pointer, words 2 and 3, is not known
  for (size_t i = 0; i < std::size(out.data.args); i++) {
    // A register of an argument that the call does not have may hold anything.
    if (i >= call.args.size() || call.args[i] == arch::kUnknown) continue;
    out.data.args[i] = call.args[i];
    out.known |= static_cast<uint16_t>(0b11 << (offsetof(seccomp_data, args) / sizeof(uint32_t) + 2 * i));
  }
  return out;
}

// The effect of an action on a call; "" when the call is made.
std::string describe(uint32_t value) {
  switch (value & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
      return {};
    case SECCOMP_RET_KILL_THREAD:
      return "kills the thread";
    case SECCOMP_RET_TRAP:
      return "sends SIGSYS";
    case SECCOMP_RET_ERRNO: {
      const char* name = strerrorname_np(static_cast<int>(value & SECCOMP_RET_DATA));
      return fmt::format("answers with {}", name ? name : "an error");
    }
    case SECCOMP_RET_USER_NOTIF:
      return "asks a supervisor";
    case SECCOMP_RET_TRACE:
      return "asks a tracer";
    default:  // also what the kernel does not know
      return "kills the process";
  }
}

// The filters of a thread, the newest first.
std::string read_filters(pid_t tid, std::vector<Filter>& out) {
  for (long index = 0; index < kMostFilters; index++) {
    Filter filter;
    if (kernel::read_filter(tid, index, filter)) {
      out.push_back(std::move(filter));
      continue;
    }
    switch (errno) {
      case ENOENT:
        return {};
      case EACCES:
        return "that takes CAP_SYS_ADMIN, and an mdl-inject that runs under no filter itself: run it as root";
      case EIO:
        return "the kernel cannot show it (CONFIG_CHECKPOINT_RESTORE is off)";
      case EMEDIUMTYPE:
        return "it is no classic BPF program";
      default:
        return fmt::format("PTRACE_SECCOMP_GET_FILTER fails: {}", std::strerror(errno));
    }
  }
  return "it has too many filters";
}

}  // namespace

std::optional<pid_t> find_self_caller(std::span<const pid_t> tids) {
  std::vector<kernel::CallDispatch> dispatch;
  const auto read = kernel::read_dispatch_each(tids, dispatch);
  for (size_t i = 0; i < tids.size(); i++)
    if (read[i].value && dispatch[i].mode != 0) return tids[i];
  return std::nullopt;
}

std::string why_denied(const Confinement& confinement, const arch::PlannedCall& call) {
  const std::string name = arch::call_name(call.number);
  if (confinement.dispatched)
    return fmt::format("its system calls come back to it as SIGSYS (PR_SET_SYSCALL_USER_DISPATCH), {} too",
                       name);
  if (confinement.strict) return fmt::format("seccomp's strict mode kills the process at {}", name);
  if (!confinement.unreadable.empty())
    return fmt::format("its seccomp filter cannot be read, so it is not known what it does at {}: {}", name,
                       confinement.unreadable);
  const Question question = question_of(call);
  uint32_t strictest = SECCOMP_RET_ALLOW;
  for (const Filter& filter : confinement.filters) {
    auto ruling = evaluate(filter, question.data);
    if (!ruling) return fmt::format("a seccomp filter cannot be understood, so {} is not made", name);
    if (ruling->looked_at & ~question.known)
      return fmt::format("what a seccomp filter does at {} depends on addresses that are not known before it",
                         name);
    if (is_stricter(ruling->value, strictest)) strictest = ruling->value;
  }
  const std::string what = describe(strictest);
  return what.empty() ? what : fmt::format("a seccomp filter {} at {}", what, name);
}

Confinement read_confinement(pid_t tid) {
  Confinement out;
  out.thread = tid;
  out.dispatched = find_self_caller(std::span(&tid, 1)).has_value();
  const int mode = read_status(tid).seccomp;
  out.strict = mode == SECCOMP_MODE_STRICT;
  if (mode == SECCOMP_MODE_FILTER) out.unreadable = read_filters(tid, out.filters);
  return out;
}

Result<Sandbox> Sandbox::read(pid_t pid, const TargetMemory& memory) {
  std::vector<Confinement> out;
  std::set<pid_t> seen;
  bool free = false;
  for (bool changed = true; changed;) {
    changed = false;
    for (pid_t tid : live_threads(pid)) {
      if (!seen.insert(tid).second) continue;
      changed = true;
      const ProcessStatus status = read_status(tid);
      if (!status.has_pid) continue;  // it has ended
      if (status.seccomp == SECCOMP_MODE_DISABLED) {
        free = true;
        continue;
      }
      Threads threads(pid, memory);
      auto stopped = threads.stop_one(tid, 2000ms);
      if (!stopped && !is_alive_thread(tid)) continue;
      if (!stopped) return stopped.error();
      out.push_back(read_confinement(tid));
    }
  }
  return Sandbox(std::move(out), free);
}

std::string Sandbox::why_denied(std::span<const arch::PlannedCall> calls) const {
  for (const Confinement& confinement : threads_)
    for (const arch::PlannedCall& call : calls)
      if (std::string why = process::why_denied(confinement, call); !why.empty())
        return fmt::format("thread {}: {}, which {} needs", confinement.thread, why, call.purpose);
  return {};
}

std::string Sandbox::why_denied_to_all(std::span<const arch::PlannedCall> calls) const {
  std::string first;
  for (const Confinement& confinement : threads_) {
    std::string why = Sandbox({confinement}).why_denied(calls);
    if (why.empty()) return {};
    if (first.empty()) first = why;
  }
  return free_ ? std::string() : first;
}

}  // namespace mdl::process
