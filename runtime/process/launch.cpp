// The child lets itself be traced and executes the program. When the kernel stops it behind execve, a
// breakpoint is put at the program's entry (AT_ENTRY of its auxiliary vector); the loader runs up to there.
// Then the breakpoint is taken out and tracing ends, with the process stopped as by SIGSTOP: from there on it
// is a target like any other, until SIGCONT.
#include "runtime/process/launch.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/read_text.h"
#include "runtime/arch/arch.h"
#include "runtime/process/target_memory.h"

namespace mdl::process {
namespace {

// In the child; the pipe closes at execve, or carries the error.
[[noreturn]] void become(const std::vector<std::string>& command, int report, Guard& guard) {
  guard.guard_this();
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_DFL);
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  execvp(arguments[0], arguments.data());
  int problem = errno;
  [[maybe_unused]] ssize_t put = write(report, &problem, sizeof problem);
  _exit(127);
}

uint64_t entry_of(pid_t pid) {
  return auxiliary_value(read_text(fmt::format("/proc/{}/auxv", pid)), AT_ENTRY).value_or(0);
}

bool read_registers(pid_t pid, arch::ThreadRegisters& registers) {
  iovec io{&registers, sizeof registers};
  return ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &io) == 0;
}

// Waits for the stop behind the execve; other signals are passed on. False when the process ended.
bool wait_executed(pid_t pid) {
  for (int status = 0;;) {
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return false;
    if (WSTOPSIG(status) == SIGTRAP) return true;
    if (ptrace(PTRACE_CONT, pid, nullptr, WSTOPSIG(status)) != 0) return false;
  }
}

// Waits for the stop behind the breakpoint, at `pc`; what else stops it is passed on. Its libraries'
// constructors run meanwhile, and may do anything: raise SIGTRAP, or execute another program. False when it
// comes to no such stop of the program that was started.
bool wait_breakpoint(pid_t pid, uint64_t pc, const TargetMemory& memory, arch::ThreadRegisters& registers) {
  for (int status = 0;;) {
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return false;
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
      ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
      return false;
    }
    if (WSTOPSIG(status) == SIGTRAP && memory.runs(pid) == Runs::here && read_registers(pid, registers) &&
        arch::pc(registers) == pc)
      return true;
    if (ptrace(PTRACE_CONT, pid, nullptr, WSTOPSIG(status)) != 0) return false;
  }
}

Error failed(const std::string& program, const char* what) {
  return {fmt::format("cannot start {}: {}", program, what)};
}

Result<void> run_to_entry(pid_t pid, const std::string& program) {
  if (!wait_executed(pid) || ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACEEXEC) != 0)
    return failed(program, "it ended before its first instruction");
  uint64_t entry = entry_of(pid);
  auto memory = TargetMemory::open(pid);
  if (!memory) return memory.error();
  arch::Bytes trap = arch::breakpoint();
  std::vector<std::byte> original(trap.size());
  if (entry == 0 || !memory->read(entry, original) || !memory->write(entry, std::as_bytes(std::span(trap))))
    return failed(program, "its entry cannot be found");
  arch::ThreadRegisters registers{};
  if (ptrace(PTRACE_CONT, pid, nullptr, nullptr) != 0 ||
      !wait_breakpoint(pid, entry + trap.size(), *memory, registers))
    return failed(program, "it ended, or executed another program, before its entry: is a library missing?");
  if (!memory->write(entry, original)) return failed(program, std::strerror(errno));
  // It has been in this stop since its program was compared.
  arch::set_pc(registers, entry);
  iovec io{&registers, sizeof registers};
  if (ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &io) != 0 ||
      ptrace(PTRACE_DETACH, pid, nullptr, SIGSTOP) != 0)
    return failed(program, std::strerror(errno));
  int status = 0;
  if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status)) return failed(program, "it ended");
  return {};
}

}  // namespace

Result<Launch> Launch::start(const std::vector<std::string>& command) {
  auto guard = Guard::start();
  if (!guard) return failed(command[0], guard.error().text.c_str());
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return failed(command[0], std::strerror(errno));
  pid_t pid = fork();
  if (pid == 0) become(command, report[1], *guard);
  int problem = pid < 0 ? errno : 0;
  // It is our child and nobody has waited for it: the number is its own.
  const int handle = pid < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pid > 0 && handle < 0) problem = errno, kill(pid, SIGKILL);
  close(report[1]);
  Launch launch(pid, handle, std::move(*guard));
  launch.waits_ = pid > 0;
  if (problem == 0 && read(report[0], &problem, sizeof problem) != sizeof problem) problem = 0;
  close(report[0]);
  if (problem) return failed(command[0], std::strerror(problem));
  if (auto ok = run_to_entry(pid, command[0]); !ok) return ok.error();
  return launch;
}

Launch::Launch(Launch&& other) noexcept
    : pid_(other.pid_),
      handle_(std::exchange(other.handle_, -1)),
      guard_(std::move(other.guard_)),
      waits_(std::exchange(other.waits_, false)) {}

Launch::~Launch() {
  if (waits_) {
    send(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (handle_ >= 0) close(handle_);
}

void Launch::send(int signal) const {
  syscall(SYS_pidfd_send_signal, handle_, signal, nullptr, 0);
}

void Launch::go() {
  waits_ = false;
  send(SIGCONT);
  guard_.release();
}

}  // namespace mdl::process
