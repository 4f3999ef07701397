// syslog(3) does not say whether a line has reached anybody, so the datagram is sent here, in the form in which
// the C library sends it.
#include "mdl-inject/audit.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/kernel/proc_file.h"
#include "runtime/process/permission.h"
#include "runtime/process/target.h"

namespace mdl::inject {
namespace {

constexpr char kLog[] = "/dev/log";
constexpr size_t kLongestText = 512;

std::string quoted(const std::string& text) {
  return nlohmann::json(text.substr(0, kLongestText))
      .dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

// Of the login, which stays through sudo and su.
std::string login_user() {
  std::string out = kernel::own_text("loginuid");
  const std::string unset = std::to_string(UINT32_MAX);
  return out.empty() || out == unset || out.find_first_not_of("0123456789") != std::string::npos ? "unset"
                                                                                                 : out;
}

}  // namespace

Result<Audit> Audit::open(bool required, bool separate) {
  Audit out(required, separate);
  out.socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct sockaddr_un to {};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, kLog, sizeof kLog);
  if (out.socket_ >= 0 && connect(out.socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0)
    return out;
  if (required)
    return Error{fmt::format("the policy requires an audit, and {} cannot be reached: {}", kLog,
                             std::strerror(errno))};
  if (out.socket_ >= 0) close(std::exchange(out.socket_, -1));
  return out;
}

Audit::Audit(Audit&& other) noexcept
    : required_(other.required_),
      separate_(other.separate_),
      user_(other.user_),
      socket_(std::exchange(other.socket_, -1)),
      about_(std::move(other.about_)) {}

Audit::~Audit() {
  if (socket_ >= 0) close(socket_);
}

void Audit::is_about(const std::vector<pid_t>& pids, const std::string& plan, const std::string& signer,
                     const std::vector<std::string>& requests) {
  about_.clear();
  for (const pid_t pid : pids) {
    const std::string status = kernel::proc_text(pid, "status");
    about_.emplace_back(pid, fmt::format("pid={} program={} target_uid={} plan={} signer={} requests={}", pid,
                                         quoted(process::parse_status(status).name),
                                         process::parse_credentials(status).uid[1],
                                         plan.empty() ? "none" : plan, signer.empty() ? "none" : signer,
                                         quoted(fmt::format("{}", fmt::join(requests, " ")))));
  }
}

void Audit::is_only_about(const std::vector<pid_t>& pids) {
  std::erase_if(about_, [&](const auto& one) { return std::ranges::count(pids, one.first) == 0; });
}

Result<void> Audit::say(std::string_view action, const std::string& result) {
  for (const auto& [pid, about] : about_)
    if (auto ok = say(action, about, result); !ok) return ok;
  return {};
}

Result<void> Audit::say_of(pid_t pid, std::string_view action, const std::string& result) {
  for (const auto& [one, about] : about_)
    if (one == pid)
      if (auto ok = say(action, about, result); !ok) return ok;
  return {};
}

Result<void> Audit::say(std::string_view action, const std::string& about, const std::string& result) {
  if (socket_ < 0) return {};
  const std::string line =
      fmt::format("<{}>{:%b %e %H:%M:%S} mdl-inject[{}]: {} uid={} loginuid={} separate={} {} result={}",
                  LOG_AUTHPRIV | LOG_NOTICE, fmt::localtime(std::time(nullptr)), getpid(), action, user_,
                  login_user(), separate_ ? "yes" : "no", about, quoted(result));
  // A log that nobody empties must not hold a process that is instrumented.
  if (send(socket_, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
          static_cast<ssize_t>(line.size()) ||
      !required_)
    return {};
  return Error{
      fmt::format("the policy requires an audit, and {} takes no line: {}", kLog, std::strerror(errno))};
}

}  // namespace mdl::inject
