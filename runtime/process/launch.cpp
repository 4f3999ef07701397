// The child lets itself be traced and executes the program. The kernel stops it behind execve; from there on
// it is brought to its entry as any program that is executed (arrival.h), and held there until it may run.
#include "runtime/process/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/nap.h"
#include "runtime/kernel/handle.h"
#include "runtime/kernel/trace.h"
#include "runtime/process/arrival.h"

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
  kernel::let_parent_trace();
  execvp(arguments[0], arguments.data());
  int problem = errno;
  [[maybe_unused]] ssize_t put = write(report, &problem, sizeof problem);
  _exit(127);
}

// Waits for the stop behind the execve; other signals are passed on. False when the process ended.
bool wait_executed(pid_t pid) {
  for (int status = 0;;) {
    if (kernel::wait_for(pid, &status) != pid || !WIFSTOPPED(status)) return false;
    if (WSTOPSIG(status) == SIGTRAP) return true;
    if (!kernel::go_on(pid, WSTOPSIG(status))) return false;
  }
}

constexpr std::chrono::seconds kLoading{60};  // libraries on a slow network, constructors that wait

Error failed(const std::string& program, std::string_view what) {
  return {fmt::format("cannot start {}: {}", program, what)};
}

Result<TargetMemory> run_to_entry(pid_t pid, const std::string& program) {
  const Error ended =
      failed(program, "it ended, or executed another program, before its entry: is a library missing?");
  if (!wait_executed(pid)) return failed(program, "it ended before its first instruction");
  auto arrival = Arrival::prepare(pid);
  if (!arrival) return failed(program, arrival.error().text);
  arrival->begin();
  for (const auto until = std::chrono::steady_clock::now() + kLoading;; nap(200)) switch (arrival->look()) {
      case Arrival::State::on_its_way:
        if (std::chrono::steady_clock::now() > until)
          return failed(program,
                        fmt::format("it has not come to its entry within {} s: what does it wait for "
                                    "while it is loaded?",
                                    kLoading.count()));
        continue;
      case Arrival::State::gone:
        return ended;
      case Arrival::State::here:
        auto memory = arrival->take();
        return memory ? std::move(memory) : ended;
    }
}

}  // namespace

Result<Launch> Launch::start(const std::vector<std::string>& command) {
  auto guard = Guard::start();
  if (!guard) return failed(command[0], guard.error().text);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return failed(command[0], std::strerror(errno));
  pid_t pid = fork();
  if (pid == 0) become(command, report[1], *guard);
  int problem = pid < 0 ? errno : 0;
  // It is our child and nobody has waited for it: the number is its own.
  const int handle = pid < 0 ? -1 : kernel::open_handle(pid);
  if (pid > 0 && handle < 0) problem = errno, kernel::kill_process(pid);
  close(report[1]);
  Launch launch(pid, handle, std::move(*guard));
  launch.waits_ = pid > 0;
  if (problem == 0 && read(report[0], &problem, sizeof problem) != sizeof problem) problem = 0;
  close(report[0]);
  if (problem) return failed(command[0], std::strerror(problem));
  auto memory = run_to_entry(pid, command[0]);
  if (!memory) return memory.error();
  memory->kill_at_end();
  launch.memory_.emplace(std::move(*memory));
  return launch;
}

Launch::Launch(Launch&& other) noexcept
    : pid_(other.pid_),
      handle_(std::exchange(other.handle_, -1)),
      guard_(std::move(other.guard_)),
      waits_(std::exchange(other.waits_, false)),
      memory_(std::move(other.memory_)) {}

Launch::~Launch() {
  if (waits_) {
    send(SIGKILL);
    memory_.reset();
    kernel::wait_for(pid_, nullptr);
  }
  if (handle_ >= 0) close(handle_);
}

void Launch::send(int signal) const {
  kernel::send_signal(handle_, signal);
}

TargetMemory Launch::take_memory() {
  TargetMemory out = std::move(*memory_);
  memory_.reset();
  return out;
}

void Launch::let_go() {
  waits_ = false;
  guard_.release();
}

}  // namespace mdl::process
