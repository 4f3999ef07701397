#include "base/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace mdl {
namespace {

constexpr char kTake = 't', kRelease = 'r';
constexpr int kPatienceMs = 2000;  // with the keeper

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool is_in_front(int file) {
  return isatty(file) == 1 && tcgetpgrp(file) == getpgrp();
}

bool gives_lines(const termios& how) {
  return (how.c_lflag & (ICANON | ECHO)) != 0;
}

bool same(const termios& a, const termios& b) {
  return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag &&
         a.c_lflag == b.c_lflag && std::equal(std::begin(a.c_cc), std::end(a.c_cc), std::begin(b.c_cc));
}

termios for_keys(const termios& before) {
  termios out = before;
  out.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  out.c_cc[VMIN] = 1, out.c_cc[VTIME] = 0;
  out.c_cc[VSUSP] = _POSIX_VDISABLE;  // a process that waits for mdl-inject would wait for who has stopped it
  return out;
}

// In a session of its own: what the terminal sends to those in front does not end it.
[[noreturn]] void keep(int asked, termios before) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  setsid();
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_NAME, "mdl-keeper");  // who kills all mdl-inject means others
  constexpr int kAsked = 1;
  if (dup2(asked, kAsked) < 0 || close_range(kAsked + 1, UINT_MAX, 0) != 0) _exit(1);
  const auto set = [](const termios& how) { return tcsetattr(STDIN_FILENO, TCSANOW, &how) == 0; };
  std::optional<termios> ours;
  for (;;) {
    char what = 0;
    const ssize_t got = read(kAsked, &what, 1);
    if (got < 0 && errno == EINTR) continue;
    termios now{};
    const bool known = tcgetattr(STDIN_FILENO, &now) == 0;
    if (got != 1) {
      // A shell may have been quicker: what it has set is its own.
      if (ours && known && same(now, *ours)) set(before);
      _exit(0);
    }
    if (what == kTake && known) {
      if (!ours || gives_lines(now)) before = now;
      if (set(for_keys(before)) && tcgetattr(STDIN_FILENO, &now) == 0) ours = now;
    } else if (what == kRelease && ours && set(before)) {
      ours.reset();
    }
    (void)!write(kAsked, &what, 1);
  }
}

}  // namespace

bool can_draw() {
  return is_in_front() && is_set("TERM") && std::string_view(std::getenv("TERM")) != "dumb";
}

bool is_in_front() {
  return is_in_front(STDOUT_FILENO);
}

TerminalSize size_of_terminal() {
  constexpr TerminalSize kUsual{24, 80};
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return kUsual;
  return {size.ws_row, size.ws_col};
}

bool shows_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (!is_set(name)) continue;
    const std::string value = lower(std::getenv(name));
    return value.find("utf-8") != value.npos || value.find("utf8") != value.npos;
  }
  return false;
}

std::optional<Keys> Keys::open() {
  struct stat in {
  }, out{};
  termios before{};
  if (!is_in_front(STDIN_FILENO) || fstat(STDIN_FILENO, &in) != 0 || fstat(STDOUT_FILENO, &out) != 0 ||
      in.st_rdev != out.st_rdev || tcgetattr(STDIN_FILENO, &before) != 0)
    return std::nullopt;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
  // The keeper is nobody's child here: who waits for processes does not see it.
  const pid_t between = fork();
  if (between == 0) {
    if (fork() == 0) {
      close(ends[0]);
      keep(ends[1], before);
    }
    _exit(0);
  }
  close(ends[1]);
  while (between > 0 && waitpid(between, nullptr, 0) < 0 && errno == EINTR) continue;
  return Keys(ends[0]);
}

Keys::Keys(Keys&& other) noexcept
    : keeper_(std::exchange(other.keeper_, -1)), taken_(std::exchange(other.taken_, false)) {}

Keys::~Keys() {
  if (keeper_ < 0) return;
  release();
  close(keeper_);
}

void Keys::ask(char what) const {
  pollfd answer{keeper_, POLLIN, 0};
  if (send(keeper_, &what, 1, MSG_NOSIGNAL) == 1 && poll(&answer, 1, kPatienceMs) == 1)
    (void)!::read(keeper_, &what, 1);
}

bool Keys::take() {
  termios now{};
  if (taken_ && (tcgetattr(STDIN_FILENO, &now) != 0 || !gives_lines(now))) return false;
  taken_ = true;
  std::signal(SIGTTIN, SIG_IGN);  // who is sent to the background gets no keys, and is not stopped
  ask(kTake);
  return true;
}

void Keys::release() {
  if (std::exchange(taken_, false)) ask(kRelease);
}

std::string Keys::read() {
  char bytes[256];
  pollfd typed{STDIN_FILENO, POLLIN, 0};
  if (!taken_ || poll(&typed, 1, 0) != 1 || (typed.revents & POLLIN) == 0) return "";
  const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
  return got > 0 ? std::string(bytes, static_cast<size_t>(got)) : "";
}

}  // namespace mdl
