#include "runtime/process/exec_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "runtime/arch/description.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/kernel/trace.h"
#include "runtime/process/permission.h"
#include "runtime/process/target_memory.h"
#include "runtime/process/trace_stop.h"

namespace mdl::process {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kStops = 2s;     // a thread that sleeps for 0.1 ms at a time, on a busy machine
constexpr auto kExecutes = 5s;  // of its own, from one stop to the next, up to the execve
constexpr auto kLook = 1ms;

bool may_trace_privileged() {
  static const uint64_t ours = parse_credentials(kernel::own_text("status")).effective;
  return ours >> CAP_SYS_PTRACE & 1;
}

// The executed file: a path in the root of the thread that executes it, or a name below /proc/PID of that
// (relative paths).
struct Executed {
  pid_t by = 0;
  std::string path;
  bool is_relative = false;
};

int open_executed(const Executed& what) {
  if (!what.is_relative) return kernel::open_below_root(what.by, what.path);
  return kernel::open_regular(what.by, what.path);
}

// Whether a file gives rights to who executes it, or its interpreter does: true where that is not known.
bool gives_rights(const Executed& what, int depth = 0) {
  constexpr int kDepth = 5;  // as the kernel's, of interpreters that are scripts
  const int file = open_executed(what);
  if (file < 0) return errno != ENOENT && errno != ENOTDIR;  // the call will fail, too
  struct stat status {};
  std::array<char, 256> head{};
  const bool known = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const bool has_capabilities =
      fgetxattr(file, "security.capability", nullptr, 0) >= 0 || (errno != ENODATA && errno != ENOTSUP);
  const ssize_t size = known ? pread(file, head.data(), head.size() - 1, 0) : 0;
  close(file);
  if (!known || has_capabilities || size < 0 || status.st_mode & (S_ISUID | S_ISGID)) return true;
  const std::string_view text(head.data(), static_cast<size_t>(size));
  if (!text.starts_with("#!")) return false;
  const size_t begin = text.find_first_not_of(" \t", 2);
  if (begin == text.npos || text[begin] != '/' || depth == kDepth) return true;
  return gives_rights({what.by, std::string(text.substr(begin, text.find_first_of(" \t\n", begin) - begin))},
                      depth + 1);
}

bool same_root(pid_t tid) {
  struct stat ours {
  }, theirs{};
  return kernel::stat_own("root", ours) && kernel::stat_proc(tid, "root", theirs) &&
         ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

// The file of an execve or execveat that the thread enters.
std::optional<Executed> executed_file(pid_t tid, const __ptrace_syscall_info& call) {
  const bool at = call.entry.nr == SYS_execveat;
  const uint64_t address = call.entry.args[at ? 1 : 0];
  auto memory = TargetMemory::open(tid);
  if (!memory || !same_root(tid)) return std::nullopt;
  std::string path;
  for (std::byte next{}; path.size() < PATH_MAX; path.push_back(static_cast<char>(next))) {
    if (!memory->read(address + path.size(), std::span(&next, 1))) return std::nullopt;
    if (next == std::byte{0}) break;
  }
  if (path.starts_with('/')) return Executed{tid, path};
  const int folder = at ? static_cast<int>(call.entry.args[0]) : AT_FDCWD;
  const std::string from = folder == AT_FDCWD ? "cwd" : fmt::format("fd/{}", folder);
  return Executed{tid, path.empty() ? from : from + "/" + path, true};
}

}  // namespace

std::optional<ExecWatch> ExecWatch::begin(pid_t tid, pid_t process, const TargetMemory& memory,
                                          std::span<const image::Range> code) {
  if (!kernel::seize(tid)) return std::nullopt;
  ExecWatch out(tid, process);
  arch::ThreadRegisters registers{};
  if (!stop_in(tid, memory, code, true, kStops, registers)) {
    stop_tracing(tid);
    return std::nullopt;
  }
  kernel::go_to_system_call(tid, 0);
  out.until_ = Clock::now() + kExecutes;
  return out;
}

ExecWatch::State ExecWatch::leave(State out) {
  stop_tracing(tid_);
  return out;
}

// The state after a stop of the thread.
ExecWatch::State ExecWatch::after(int status) {
  if (status >> 8 == kExecuted) return State::executed;
  until_ = Clock::now() + kExecutes;
  if (is_signal(status)) {
    kernel::go_to_system_call(tid_, WSTOPSIG(status));
    return State::waiting;
  }
  if (status >> 16 != 0) {  // ours, or a group stop
    if (WSTOPSIG(status) != SIGTRAP) return leave(State::lost);
  } else {
    __ptrace_syscall_info call{};
    if (!kernel::read_system_call(tid_, call) || call.arch != arch::kMachine.audit) return leave(State::lost);
    if (call.op == PTRACE_SYSCALL_INFO_ENTRY &&
        (call.entry.nr == SYS_execve || call.entry.nr == SYS_execveat)) {
      executes_ = true;
      if (!may_trace_privileged()) {
        const auto file = executed_file(tid_, call);
        if (!file || gives_rights(*file)) return leave(State::privileged);
      }
    } else if (call.op == PTRACE_SYSCALL_INFO_EXIT && executes_) {
      executes_ = false;  // it failed
      if (--calls_ == 0) return leave(State::over);
    }
  }
  kernel::go_to_system_call(tid_, 0);
  return State::waiting;
}

ExecWatch::State ExecWatch::look() {
  for (const auto until = Clock::now() + kLook;;) {
    int status = 0;
    pid_t got = kernel::next_event(tid_, kLook, status);
    // A thread that executes a program gets the id of its process's first one.
    if (got < 0 && tid_ != process_ && (got = wait_now(process_, status)) >= 0) tid_ = process_;
    if (got < 0 || (got > 0 && !WIFSTOPPED(status))) return State::over;
    if (got > 0) {
      const State state = after(status);
      if (state != State::waiting) return state;
    } else if (!executes_ && Clock::now() > until_) {
      return leave(State::lost);
    }
    if (Clock::now() > until) return State::waiting;
  }
}

void ExecWatch::let_go() {
  stop_tracing(tid_);
}

}  // namespace mdl::process
