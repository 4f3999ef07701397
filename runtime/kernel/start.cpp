#include "runtime/kernel/start.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>
#include <vector>

#include "base/read_text.h"
#include "runtime/kernel/direct.h"

namespace mdl::kernel::direct {
namespace {

constexpr char kKnown = 'k', kRelease = 'r';

void reap(pid_t child) {
  while (waitpid(child, nullptr, __WALL) < 0 && errno == EINTR) continue;
}

class Guard {
 public:
  static std::optional<Guard> start();
  Guard(Guard&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), connection_(std::exchange(other.connection_, -1)) {}
  Guard& operator=(Guard&&) = delete;
  ~Guard();  // ends the program

  // Called by the program's process itself, before it executes the program. Returns when the guard knows it.
  void guard_this();
  void release() { [[maybe_unused]] const ssize_t put = write(connection_, &kRelease, 1); }

 private:
  Guard(pid_t pid, int connection) : pid_(pid), connection_(connection) {}
  pid_t pid_;
  int connection_;  // closed at an execve
};

[[noreturn]] void watch(int connection) {
  setsid();  // a terminal's interrupt is not for it
  for (int signal : {SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
  dup2(connection, 3);
  closefrom(4);
  pid_t program = 0;
  if (!read_all(3, &program, sizeof program)) _exit(0);
  const int handle = open_handle(program).file;  // so that its number cannot become another's
  char word = kKnown;
  if (write(3, &word, 1) != 1) _exit(0);
  if (!read_all(3, &word, 1) && handle >= 0) send_signal(handle, SIGKILL);
  _exit(0);
}

std::optional<Guard> Guard::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    watch(ends[0]);
  }
  const int failed = errno;
  close(ends[0]);
  if (pid > 0) return Guard(pid, ends[1]);
  close(ends[1]);
  errno = failed;
  return std::nullopt;
}

Guard::~Guard() {
  if (pid_ < 0) return;
  close(connection_);
  reap(pid_);
}

void Guard::guard_this() {
  const pid_t self = getpid();
  char word = 0;
  // It is there for as long as it waits, so the guard opens it and no other that has got its number.
  if (write(connection_, &self, sizeof self) == sizeof self) read_all(connection_, &word, 1);
}

struct Program {
  Program(Guard its) : guard(std::move(its)) {}
  ~Program();
  pid_t pid = -1;
  int handle = -1;  // a pidfd (pidfd_open(2)): what is sent through it reaches this program or nobody
  Guard guard;
  bool waits = true;
};

Program::~Program() {
  if (waits && pid > 0) {
    // It is our child and nobody has waited for it: the number is its own.
    if (handle < 0 || !send_signal(handle, SIGKILL)) kill(pid, SIGKILL);
    reap(pid);
  }
  if (handle >= 0) close(handle);
}

std::optional<Program>& held() {
  static std::optional<Program> program;
  return program;
}

std::vector<char*> arguments_of(std::string_view words) {
  std::vector<char*> out;
  for (size_t at = 0; at < words.size(); at = words.find('\0', at) + 1)
    out.push_back(const_cast<char*>(words.data() + at));
  out.push_back(nullptr);
  return out;
}

// In the child; the pipe closes at execve, or carries the error.
[[noreturn]] void become(std::string_view words, const std::string& folder, int report, Guard& guard) {
  guard.guard_this();
  const std::vector<char*> arguments = arguments_of(words);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_DFL);  // those that mdl-inject ignores
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  if (folder.empty() || chdir(folder.c_str()) == 0) execvp(arguments[0], arguments.data());
  int problem = errno;
  [[maybe_unused]] ssize_t put = write(report, &problem, sizeof problem);
  _exit(127);
}

// Waits for the stop behind the execve; other signals are passed on. False when the process ended.
bool wait_executed(pid_t pid) {
  for (int status = 0;;) {
    const pid_t got = waitpid(pid, &status, __WALL);
    if (got < 0 && errno == EINTR) continue;
    if (got != pid || !WIFSTOPPED(status)) return false;
    if (WSTOPSIG(status) == SIGTRAP) return true;
    if (!go_on(pid, WSTOPSIG(status))) return false;
  }
}

// An errno; 0 when it runs.
int begin(Program& program, std::string_view words, const std::string& folder) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return errno;
  program.pid = fork();
  if (program.pid == 0) become(words, folder, report[1], program.guard);
  int problem = program.pid < 0 ? errno : 0;
  program.handle = program.pid < 0 ? -1 : open_handle(program.pid).file;
  if (program.pid > 0 && program.handle < 0) problem = errno;
  close(report[1]);
  if (problem == 0 && !read_all(report[0], &problem, sizeof problem)) problem = 0;
  close(report[0]);
  return problem;
}

}  // namespace

Started start_program(std::string_view words, std::string_view folder) {
  held().reset();
  if (words.empty() || words.back() != '\0') return {.problem = ENOENT};
  auto guard = Guard::start();
  if (!guard) return {.problem = errno};
  Program& program = held().emplace(std::move(*guard));
  const int problem = begin(program, words, std::string(folder));
  if (problem == 0 && wait_executed(program.pid)) return {.pid = program.pid};
  held().reset();
  return {.problem = problem};
}

bool let_program_go() {
  if (!held()) return false;
  held()->waits = false;
  held()->guard.release();
  held().reset();
  return true;
}

bool end_program() {
  held().reset();
  return true;
}

bool end_program_with_us() {
  return held() && ptrace(PTRACE_SETOPTIONS, held()->pid, nullptr, kTraceOptions | PTRACE_O_EXITKILL) == 0;
}

}  // namespace mdl::kernel::direct
