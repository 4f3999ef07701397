// Runs mdl-inject, stops it at each of the system calls that it makes with privilege, and sends it a signal at the one
// that was asked for. With --separate these are the calls of its broker, its first child; what the two wait for each
// other with (futex) is not counted, and neither are the calls of the worker, which cannot touch anybody.
//
//   killer REPORT STOP SIGNAL COMMAND ARGUMENTS...
//
// Every call is two stops, its entry and its exit; the first of the broker is number 1. At stop number STOP the command
// gets SIGNAL and is let go (0: never). SIGKILL ends it right there, before the call is made or before anybody learns
// of its result; of two processes both, but at even stops only the worker, whose end the broker has to notice. STOP may be
// `writes:N`, too: the N-th stop at a pwrite64, with which mdl-inject writes its target's memory; or `touches:N`: the N-th
// entry of a call that concerns another process (ptrace, kcmp, waits, signals, memory and files of /proc); or `seizes:N`, of a
// PTRACE_SEIZE, or `sets:N`, of one that sets registers or a signal mask. SIGNAL may be
// `SIGNAL@PID`: then that process gets it, and the command goes on. Or it is `ask`: then this says "stopped" in a line on
// standard output, and the command goes on when there is a line on standard input.
// REPORT is a file that gets one JSON object:
//
//   stops    how many there were, and `writes`, how many of these at a pwrite64, `touches`, `seizes`, `sets`
//   first    the first stop at which it touched another process (ptrace); 0 when it never did
//   sent     whether STOP was reached; then `call` and `request`: the call's number, and its first argument
//   mending  at that stop some thread of the command's own tracee had been interrupted and was not mended
//            yet: a call in which it slept may fail with EINTR now, and only then
//   status   of its end: an exit status, or minus the signal that ended it
//
// It ends with status 0, or 1 when it could not do its work, and never before the broker has ended.
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

namespace {

struct Report {
  unsigned long stops = 0, writes = 0, touches = 0, seizes = 0, sets = 0, first = 0;
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
  std::string of;  // "" = all
};

Where where(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == text.npos) return {std::stoul(text), ""};
  return {std::stoul(text.substr(colon + 1)), text.substr(0, colon)};
}

struct Blow {
  int signal;
  pid_t at;  // 0 = the command
  bool asks;
};

Blow blow(const char* text) {
  char* rest = nullptr;
  const auto signal = static_cast<int>(strtol(text, &rest, 10));
  return {signal, *rest == '@' ? atoi(rest + 1) : 0, strcmp(text, "ask") == 0};
}

// Whoever reads does what he wants to do while the command stands.
void ask() {
  if (write(STDOUT_FILENO, "stopped\n", 8) != 8) exit(1);
  for (char c = 0; c != '\n';)
    if (read(STDIN_FILENO, &c, 1) != 1) exit(1);
}

std::string text_of(pid_t pid, unsigned long address) {
  char out[256] = {};
  iovec here{out, sizeof out - 1}, there{reinterpret_cast<void*>(address), sizeof out - 1};
  const size_t room = 4096 - address % 4096;
  if (room < there.iov_len) here.iov_len = there.iov_len = room;
  process_vm_readv(pid, &here, 1, &there, 1, 0);
  return out;
}

bool is_file_of_process(const std::string& path) {
  return path.size() > 6 && path.starts_with("/proc/") && isdigit(path[6]);
}

bool is_memory(pid_t pid, unsigned long descriptor) {
  char out[64] = {};
  const std::string link = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  if (readlink(link.c_str(), out, sizeof out - 1) <= 0) return false;
  return is_file_of_process(out) && std::string_view(out).ends_with("/mem");
}

// At its entry.
bool touches(pid_t pid, const user_regs_struct& regs) {
  switch (regs.orig_rax) {
    case SYS_ptrace:
    case SYS_process_vm_readv:
    case SYS_kcmp:
    case SYS_pidfd_open:
    case SYS_pidfd_send_signal:
    case SYS_waitid:
    case SYS_wait4:
    case SYS_tgkill:
    case SYS_openat2:
      return true;
    case SYS_pread64:
    case SYS_pwrite64:
      return is_memory(pid, regs.rdi);
    case SYS_readlink:
      return is_file_of_process(text_of(pid, regs.rdi));
    case SYS_openat:
    case SYS_newfstatat:
      return is_file_of_process(text_of(pid, regs.rsi));
    default:
      return false;
  }
}

class Supervisor {
 public:
  // `caller`: who makes the calls; 0 = a child of the worker that there is not yet.
  Supervisor(pid_t worker, pid_t caller, Where stop, Blow blow, Report& report)
      : worker_(worker),
        broker_(caller),
        had_broker_(caller != 0),
        stop_(stop),
        blow_(blow),
        report_(report) {}

  void run() {
    ptrace(worker_ == broker_ ? PTRACE_SYSCALL : PTRACE_CONT, worker_, nullptr, nullptr);
    while (worker_ != 0 || broker_ != 0) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, __WALL);
      if (pid < 0) exit(1);
      if (!WIFSTOPPED(status))
        ended(pid, status);
      else if (pid == broker_ || (pid != worker_ && !had_broker_))
        look_at_broker(pid, status);
      else if (pid == worker_)
        look_at_worker(status);
      else
        ptrace(PTRACE_DETACH, pid, nullptr, nullptr);  // another child of one of the two
    }
  }

 private:
  void ended(pid_t pid, int status) {
    if (pid == worker_) report_.status = end_of(status), worker_ = 0;
    if (pid == broker_) broker_ = 0;
  }

  void look_at_worker(int status) {
    unsigned long child = 0;
    const bool forked = status >> 16 == PTRACE_EVENT_FORK;
    if (forked && !had_broker_ && ptrace(PTRACE_GETEVENTMSG, worker_, nullptr, &child) == 0)
      broker_ = static_cast<pid_t>(child), had_broker_ = true;
    ptrace(PTRACE_CONT, worker_, nullptr, status >> 16 ? 0 : WSTOPSIG(status));
  }

  // Its first stop may be told before the fork.
  void look_at_broker(pid_t pid, int status) {
    broker_ = pid, had_broker_ = true;
    const int signal = WSTOPSIG(status);
    const bool call = signal == (SIGTRAP | 0x80);
    if (call && !report_.sent) look_at_call();
    const int deliver = call || status >> 16 || (signal == SIGSTOP && worker_ != broker_)
                            ? 0
                            : signal;  // which begins with ours
    ptrace(report_.sent ? PTRACE_CONT : PTRACE_SYSCALL, broker_, nullptr, deliver);
  }

  void look_at_call() {
    entry_ = !entry_;
    user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, broker_, nullptr, &regs) != 0) return;
    if (worker_ != broker_ && regs.orig_rax == SYS_futex) return;
    mending_.see(regs, entry_);
    const bool there = is_there(regs);
    if (report_.first == 0 && regs.orig_rax == SYS_ptrace) report_.first = report_.stops;
    if (!there) return;
    report_.sent = true, report_.mending = mending_.any();
    report_.call = static_cast<long>(regs.orig_rax), report_.request = static_cast<long>(regs.rdi);
    if (blow_.asks) return ask();
    if (blow_.signal == SIGKILL && !blow_.at && stop_.number % 2) kill(broker_, SIGKILL);
    kill(blow_.at ? blow_.at : worker_, blow_.signal);
  }

  // Counts the stop for each kind that it is of.
  bool is_there(const user_regs_struct& regs) {
    const bool touch = entry_ && touches(broker_, regs);
    const bool trace = touch && regs.orig_rax == SYS_ptrace;
    const struct {
      std::string_view name;
      bool is_one;
      unsigned long& count;
    } kinds[] = {
        {"", true, report_.stops},
        {"writes", regs.orig_rax == SYS_pwrite64, report_.writes},
        {"touches", touch, report_.touches},
        {"seizes", trace && regs.rdi == PTRACE_SEIZE, report_.seizes},
        {"sets", trace && (regs.rdi == PTRACE_SETREGSET || regs.rdi == PTRACE_SETSIGMASK), report_.sets}};
    bool there = false;
    for (const auto& kind : kinds)
      if (kind.is_one && ++kind.count == stop_.number && kind.name == stop_.of) there = true;
    return there;
  }

  pid_t worker_, broker_;
  bool had_broker_, entry_ = false;
  Where stop_;
  Blow blow_;
  Report& report_;
  Mending mending_;
};

bool separates(char** words) {
  for (; *words; words++)
    if (strcmp(*words, "--separate") == 0) return true;
  return false;
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
  if (ptrace(PTRACE_SETOPTIONS, child, nullptr,
             PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL) != 0)
    return 1;
  Report report;
  Supervisor(child, separates(argv) ? 0 : child, where(argv[2]), blow(argv[3]), report).run();
  FILE* out = fopen(argv[1], "w");
  if (!out) return 1;
  fprintf(
      out,
      "{\"stops\":%lu,\"writes\":%lu,\"touches\":%lu,\"seizes\":%lu,\"sets\":%lu,\"first\":%lu,\"sent\":%s,"
      "\"mending\":%s,\"call\":%ld,"
      "\"request\":%ld,\"status\":%d}\n",
      report.stops, report.writes, report.touches, report.seizes, report.sets, report.first,
      report.sent ? "true" : "false", report.mending ? "true" : "false", report.call, report.request,
      report.status);
  return fclose(out) == 0 ? 0 : 1;
}
