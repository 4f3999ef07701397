#include "base/confined.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/aside.h"
#include "base/read_text.h"

namespace mdl {
namespace {

constexpr uint64_t kMostBytes = uint64_t{256} << 20;  // of a question or an answer
constexpr int kConnection = 3;  // the other process's only file, but for the standard ones

// Without SIGPIPE where the other side is gone.
bool send_all(int connection, const void* bytes, size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t sent = send(connection, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool send_text(int connection, const std::string& text) {
  const uint64_t size = text.size();
  return size <= kMostBytes && send_all(connection, &size, sizeof size) &&
         send_all(connection, text.data(), text.size());
}

bool receive_text(int connection, std::string& text) {
  uint64_t size = 0;
  if (!read_all(connection, &size, sizeof size) || size > kMostBytes) return false;
  text.resize(size);
  return read_all(connection, text.data(), size);
}

// A signal at `most`, the end at `more`.
void limit(int resource, rlim_t most, rlim_t more) {
  rlimit now{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &now) != 0) return;
  const rlimit less{std::min(now.rlim_cur, most), std::min(now.rlim_max, more)};
  setrlimit(static_cast<__rlimit_resource>(resource), &less);
}

// Of addresses. /proc says it, too, but the worker of --separate opens nothing: a page more is had above a limit.
[[maybe_unused]] uint64_t own_memory() {
  constexpr uint64_t kPage = 4096;
  rlimit before{};
  if (getrlimit(RLIMIT_AS, &before) != 0) return 0;
  uint64_t less = 0, more = uint64_t{1} << 47;
  while (more - less > kPage) {
    const uint64_t middle = less + (more - less) / 2;
    const rlimit now{std::min<rlim_t>(middle, before.rlim_max), before.rlim_max};
    setrlimit(RLIMIT_AS, &now);
    void* page = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (page == MAP_FAILED ? less : more) = middle;
    if (page != MAP_FAILED) munmap(page, kPage);
  }
  setrlimit(RLIMIT_AS, &before);
  return more;
}

// Resets all that a child inherits and that must not act in it (signals, descriptors), and limits it.
void confine(int connection, unsigned seconds, [[maybe_unused]] uint64_t memory) {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  signal(SIGINT, SIG_IGN);  // a terminal sends it to both; this process decides
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(connection, kConnection) < 0) _exit(1);
  closefrom(kConnection + 1);  // locks among them, which would outlive their owner
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_CPU, seconds, seconds + 1);
#ifndef MDL_SANITIZED  // whose shadow is larger than any limit
  const uint64_t most = own_memory() + memory;
  limit(RLIMIT_AS, most, most);
#endif
}

// Whoever asks cannot end this process by a signal where it is confined itself. PR_SET_PDEATHSIG is no help: that
// signal comes when the thread ends that made this process.
void end_with(int connection) {
  run_aside([connection] {
    pollfd other{connection, POLLRDHUP, 0};
    while (poll(&other, 1, -1) < 0 && errno == EINTR) continue;
    _exit(0);
  });
}

// Nothing is thrown out of it: the frames below are the other process's, and what they own is not this one's to give
// back. Memory is limited, so an answer may well throw.
[[noreturn]] void serve(const Confined::Answer& answer) {
  try {
    std::string question;
    while (receive_text(kConnection, question) && send_text(kConnection, answer(question))) continue;
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

}  // namespace

Result<Confined> Confined::start(Answer answer, unsigned seconds, uint64_t memory) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error{fmt::format("no connection to another process: {}", std::strerror(errno))};
  const pid_t pid = fork();
  if (pid == 0) {
    confine(ends[1], seconds, memory);
    end_with(kConnection);
    serve(answer);
  }
  const int failed = errno;
  close(ends[1]);
  if (pid > 0) return Confined(pid, ends[0]);
  close(ends[0]);
  return Error{fmt::format("no other process can be started: {}", std::strerror(failed))};
}

Confined::Confined(Confined&& other) noexcept {
  *this = std::move(other);
}

Confined& Confined::operator=(Confined&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(connection_, other.connection_);
  std::swap(why_, other.why_);
  return *this;
}

Confined::~Confined() {
  if (pid_ > 0) ended();
}

Error Confined::ended() {
  close(std::exchange(connection_, -1));
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
  if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
    why_ = fmt::format("it was ended by {}", strsignal(WTERMSIG(status)));
  else
    why_ = "it did not answer";
  return Error{why_};
}

Result<std::string> Confined::ask(const std::string& question) {
  if (auto ok = send(question); !ok) return ok.error();
  return receive();
}

Result<void> Confined::send(const std::string& question) {
  if (pid_ <= 0) return Error{why_};
  if (!send_text(connection_, question)) return ended();
  return {};
}

bool Confined::has_answer() const {
  pollfd answer{connection_, POLLIN, 0};
  return pid_ <= 0 || poll(&answer, 1, 0) != 0;
}

Result<std::string> Confined::receive() {
  if (pid_ <= 0) return Error{why_};
  std::string text;
  if (!receive_text(connection_, text)) return ended();
  return text;
}

}  // namespace mdl
