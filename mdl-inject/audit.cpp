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
constexpr size_t kLongestText = 512, kLongestLine = 4096;

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
      own_(other.own_),
      socket_(std::exchange(other.socket_, -1)),
      writer_(std::move(other.writer_)),
      pids_(std::move(other.pids_)),
      plan_(std::move(other.plan_)),
      about_(std::move(other.about_)) {}

Audit::~Audit() {
  if (socket_ >= 0) close(socket_);
}

void Audit::write_through(Writer writer) {
  if (socket_ < 0) return;
  close(std::exchange(socket_, -1));  // the broker has it
  writer_ = std::move(writer);
}

const std::string& Audit::about(pid_t pid) {
  auto [known, is_new] = about_.try_emplace(pid);
  if (!is_new || pid == 0) return known->second;
  const std::string status = kernel::proc_text(pid, "status");
  return known->second =
             fmt::format("pid={} program={} target_uid={} ", pid, quoted(process::parse_status(status).name),
                         process::parse_credentials(status).uid[1]);
}

void Audit::is_about(const std::vector<pid_t>& pids, const std::string& plan, const std::string& signer,
                     const std::vector<std::string>& requests) {
  pids_ = pids;
  plan_ = fmt::format("plan={} signer={} requests={} ", plan.empty() ? "none" : plan,
                      signer.empty() ? "none" : signer, quoted(fmt::format("{}", fmt::join(requests, " "))));
  if (!writer_)
    for (const pid_t pid : pids) (void)about(pid);
}

void Audit::is_only_about(const std::vector<pid_t>& pids) {
  std::erase_if(pids_, [&](pid_t one) { return std::ranges::count(pids, one) == 0; });
}

void Audit::is_also_about(pid_t pid) {
  if (std::ranges::count(pids_, pid) == 0) pids_.push_back(pid);
  if (!writer_) forget(pid), (void)about(pid);
}

Result<void> Audit::say(std::string_view action, const std::string& result) {
  for (const pid_t pid : pids_)
    if (auto ok = say_of(pid, action, result); !ok) return ok;
  return {};
}

Result<void> Audit::say_of(pid_t pid, std::string_view action, const std::string& result) {
  if ((socket_ < 0 && !writer_) || std::ranges::count(pids_, pid) == 0) return {};
  const std::string text = fmt::format("{}result={}", plan_, quoted(result));
  return writer_ ? writer_(pid, action, text) : write(pid, action, text);
}

// The action and the text may be anybody's who has taken over the worker.
Result<void> Audit::write(pid_t pid, std::string_view action, std::string_view text) {
  if (socket_ < 0) return {};
  std::string plain = fmt::format("{} {}", action, text).substr(0, kLongestLine);
  for (char& one : plain)
    if (one < ' ' || one > '~') one = '?';
  const size_t end = plain.find(' ');
  const std::string line =
      fmt::format("<{}>{:%b %e %H:%M:%S} mdl-inject[{}]: {} uid={} loginuid={} separate={} {}{}",
                  LOG_AUTHPRIV | LOG_NOTICE, fmt::localtime(std::time(nullptr)), own_, plain.substr(0, end),
                  user_, login_user(), separate_ ? "yes" : "no", about(pid), plain.substr(end + 1));
  // A log that nobody empties must not hold a process that is instrumented.
  if (send(socket_, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
          static_cast<ssize_t>(line.size()) ||
      !required_)
    return {};
  return Error{
      fmt::format("the policy requires an audit, and {} takes no line: {}", kLog, std::strerror(errno))};
}

}  // namespace mdl::inject
