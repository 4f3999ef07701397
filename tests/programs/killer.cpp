// Runs a command, stops it at each of its system calls, and sends it a signal at the one that was asked for.
//
//   killer REPORT STOP SIGNAL COMMAND ARGUMENTS...
//
// Every call is two stops, its entry and its exit; the first after execve is number 1. At stop number STOP
// the command gets SIGNAL and is let go (0: never); SIGKILL ends it right there, before the call is made or
// before the command learns of its result. STOP may be `writes:N`, too: the N-th stop at a pwrite64, with
// which mdl-inject writes its target's memory. SIGNAL may be `SIGNAL@PID`: then that process gets it, and the
// command goes on. REPORT is a file that gets one JSON object:
//
//   stops    how many there were, and `writes`, how many of these at a pwrite64
//   first    the first stop at which it touched another process (ptrace); 0 when it never did
//   sent     whether STOP was reached; then `call` and `request`: the call's number, and its first argument
//   mending  at that stop some thread of the command's own tracee had been interrupted and was not mended
//            yet: a call in which it slept may fail with EINTR now, and only then
//   status   of its end: an exit status, or minus the signal that ended it
//
// It ends with status 0, or 1 when it could not do its work.
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

namespace {

struct Report {
  unsigned long stops = 0, writes = 0, first = 0;
  bool sent = false, mending = false;
  long call = -1, request = -1;
  int status = 0;
};

// Which threads the command has interrupted and not yet looked after.
class Mending {
 public:
  void see(const user_regs_struct& regs, bool entry) {
    if (regs.orig_rax != SYS_ptrace) return;
    auto request = static_cast<long>(regs.rdi);
    auto tid = static_cast<long>(regs.rsi);
    // It asks in which stop the thread is before it sets anything.
    const bool mends = tid == looked_at_ && (request == PTRACE_GETSIGINFO || request == PTRACE_SETREGSET);
    if (entry && looked_at_ != 0 && !mends) close(looked_at_);
    if (entry && (request == PTRACE_INTERRUPT || request == PTRACE_SEIZE)) open_.insert(tid);
    if (!entry && request == PTRACE_GETREGSET) looked_at_ = tid;
    if (!entry && request == PTRACE_SETREGSET) close(tid);
  }
  bool any() const { return !open_.empty(); }

 private:
  void close(long tid) {
    open_.erase(tid);
    looked_at_ = 0;
  }
  std::set<long> open_;
  long looked_at_ = 0;
};

int wait_for(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, __WALL) != child) exit(1);
  return status;
}

int end_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

struct Where {
  unsigned long number = 0;
  bool of_writes = false;
};

Where where(const char* text) {
  constexpr const char kWrites[] = "writes:";
  bool of_writes = strncmp(text, kWrites, sizeof kWrites - 1) == 0;
  return {strtoul(of_writes ? text + sizeof kWrites - 1 : text, nullptr, 10), of_writes};
}

struct Blow {
  int signal;
  pid_t at;  // 0 = the command
};

Blow blow(const char* text) {
  char* rest = nullptr;
  const auto signal = static_cast<int>(strtol(text, &rest, 10));
  return {signal, *rest == '@' ? atoi(rest + 1) : 0};
}

void supervise(pid_t child, Where stop, Blow blow, Report& report) {
  Mending mending;
  bool entry = false;
  int deliver = 0;
  for (;;) {
    if (ptrace(PTRACE_SYSCALL, child, nullptr, deliver) != 0) exit(1);
    int status = wait_for(child);
    if (!WIFSTOPPED(status)) {
      report.status = end_of(status);
      return;
    }
    deliver = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
    if (deliver != 0) continue;
    entry = !entry;
    user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, child, nullptr, &regs) != 0) exit(1);
    ++report.stops;
    mending.see(regs, entry);
    if (report.first == 0 && regs.orig_rax == SYS_ptrace) report.first = report.stops;
    bool write = regs.orig_rax == SYS_pwrite64;
    if (write) ++report.writes;
    if (stop.of_writes ? !write || report.writes != stop.number : report.stops != stop.number) continue;
    report.sent = true, report.mending = mending.any();
    report.call = static_cast<long>(regs.orig_rax), report.request = static_cast<long>(regs.rdi);
    kill(blow.at ? blow.at : child, blow.signal);
    ptrace(PTRACE_DETACH, child, nullptr, nullptr);
    report.status = end_of(wait_for(child));
    return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 1;
  pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    execv(argv[4], argv + 4);
    _exit(127);
  }
  if (child < 0 || !WIFSTOPPED(wait_for(child))) return 1;
  if (ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) return 1;
  Report report;
  supervise(child, where(argv[2]), blow(argv[3]), report);
  FILE* out = fopen(argv[1], "w");
  if (!out) return 1;
  fprintf(out,
          "{\"stops\":%lu,\"writes\":%lu,\"first\":%lu,\"sent\":%s,\"mending\":%s,\"call\":%ld,\"request\":%"
          "ld,\"status\":%d}\n",
          report.stops, report.writes, report.first, report.sent ? "true" : "false",
          report.mending ? "true" : "false", report.call, report.request, report.status);
  return fclose(out) == 0 ? 0 : 1;
}
