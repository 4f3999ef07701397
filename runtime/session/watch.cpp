#include "runtime/session/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/nap.h"
#include "base/proc_text.h"
#include "runtime/kernel/handle.h"
#include "runtime/kernel/proc_file.h"

namespace mdl::inject {
namespace {

std::optional<int> signal_of(int status) {
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

Result<ProcessHandle> ProcessHandle::open(pid_t pid) {
  const int file = kernel::open_handle(pid);
  if (file < 0) return Error{fmt::format("there is no process {} to watch: {}", pid, std::strerror(errno))};
  return ProcessHandle(pid, file);
}

ProcessHandle::~ProcessHandle() {
  if (file_ >= 0) close(file_);
}

ProcessHandle::ProcessHandle(ProcessHandle&& other) noexcept
    : pid_(other.pid_), file_(std::exchange(other.file_, -1)) {}

bool ProcessHandle::ends_within(std::chrono::milliseconds time) const {
  pollfd file{file_, POLLIN, 0};
  return poll(&file, 1, static_cast<int>(time.count())) == 1;
}

std::vector<int> ending_signals() {
  std::vector<int> out = {SIGINT, SIGTERM};
  struct sigaction now {};
  if (sigaction(SIGHUP, nullptr, &now) != 0 || now.sa_handler != SIG_IGN) out.push_back(SIGHUP);
  return out;
}

Watch Watch::open() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : ending_signals()) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return Watch(signalfd(-1, &set, SFD_CLOEXEC));
}

Watch::~Watch() {
  if (signals_ >= 0) close(signals_);
}

Watch::Watch(Watch&& other) noexcept : signals_(std::exchange(other.signals_, -1)) {}

std::vector<pollfd> Watch::files(std::span<const ProcessHandle* const> processes) const {
  std::vector<pollfd> out = {{signals_, POLLIN, 0}};
  for (const ProcessHandle* process : processes) out.push_back({process->file(), POLLIN, 0});
  return out;
}

Watch::Event Watch::wait_until(std::chrono::steady_clock::time_point when, std::vector<pollfd>& files) const {
  for (;;) {
    auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(when - std::chrono::steady_clock::now()).count();
    if (left < 0) left = 0;
    timespec time{left / 1'000'000'000, left % 1'000'000'000};
    int ready = ppoll(files.data(), files.size(), &time, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (std::any_of(files.begin() + 1, files.end(), [](const pollfd& file) { return file.revents != 0; }))
      return Event::ended;
    return files[0].revents ? Event::interrupted : Event::due;
  }
}

// While its parent waits for it, for a moment, neither is there.
std::optional<int> ProcessHandle::killed_by() const {
  constexpr int kLooks = 10;
  for (int look = 0; look < kLooks; look++, nap(500)) {
    if (const std::optional<int> end = kernel::end_of(file_)) return signal_of(*end);
    // Not waited for yet.
    constexpr int kState = 3, kExitCode = 52;
    const std::string text = kernel::proc_text(pid_, "stat");
    if (stat_field(text, kState) != "Z") continue;
    const std::string code(stat_field(text, kExitCode));
    return code.empty() ? std::nullopt : signal_of(std::atoi(code.c_str()));
  }
  return std::nullopt;
}

}  // namespace mdl::inject
