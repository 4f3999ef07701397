#include "base/program_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/read_text.h"

namespace mdl {
namespace {

constexpr uid_t kNobody = 65534;
constexpr int kStandardInput = 0, kStandardOutput = 1;
constexpr int kNotStarted = 127;

// In the child. What cannot be given up, because this process has not got the right to, is nothing that others lack.
void give_up(ProgramRights rights, int program) {
  if (rights == ProgramRights::own) return;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (geteuid() != 0) return;
  // Else an execve by root gives all capabilities back.
  prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, 0, 0, 0);
  struct stat about {};
  if (rights == ProgramRights::none && fstat(program, &about) == 0 && (about.st_mode & S_IXOTH) != 0) {
    (void)!setgroups(0, nullptr);
    (void)!setresgid(kNobody, kNobody, kNobody);
    (void)!setresuid(kNobody, kNobody, kNobody);
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  syscall(SYS_capset, &header, none);
}

[[noreturn]] void execute(int program, const std::vector<std::string>& words, int output,
                          ProgramRights rights, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNotStarted);
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, kStandardInput) < 0 || dup2(output, kStandardOutput) < 0)
    _exit(kNotStarted);
  give_up(rights, program);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of the user has cleared it
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  fexecve(program, arguments.data(), environ);
  _exit(kNotStarted);
}

}  // namespace

Result<RunningProgram> RunningProgram::start(const std::vector<std::string>& words, ProgramRights rights) {
  const auto failed = [&] { return Error{fmt::format("cannot run {}: {}", words[0], std::strerror(errno))}; };
  // Opened before the rights are given up, since folders above it may be closed to others.
  const int program = open(words[0].c_str(), O_PATH | O_CLOEXEC);
  if (program < 0) return failed();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return close(program), failed();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) execute(program, words, ends[1], rights, parent);
  const int problem = errno;
  close(program);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    errno = problem;
    return failed();
  }
  return RunningProgram(words[0], pid, ends[0]);
}

RunningProgram::RunningProgram(RunningProgram&& other) noexcept
    : name_(std::move(other.name_)), pid_(other.pid_), output_(std::exchange(other.output_, -1)) {}

RunningProgram::~RunningProgram() {
  if (output_ >= 0) close(output_);
}

Result<ProgramOutput> RunningProgram::finish() {
  ProgramOutput out;
  const int unread = read_open(std::exchange(output_, -1), out.bytes);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  if (unread != 0) return Error{fmt::format("cannot run {}: {}", name_, std::strerror(unread))};
  out.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (out.status == kNotStarted && out.bytes.empty()) return Error{fmt::format("cannot run {}", name_)};
  return out;
}

Result<ProgramOutput> run_program(const std::vector<std::string>& words, ProgramRights rights) {
  auto program = RunningProgram::start(words, rights);
  if (!program) return program.error();
  return program->finish();
}

}  // namespace mdl
