#include "runtime/session/newcomers.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/say.h"
#include "runtime/process/target.h"

namespace mdl::inject {

using namespace std::chrono_literals;

namespace {

constexpr auto kLookEvery = 200ms;  // from look to look
constexpr int kQuietTimes = 50;     // as long as a look takes are between two
constexpr auto kNewFor = 1s;        // of a process, in which it may not be what it is to be

}  // namespace

std::vector<pid_t> Newcomers::look() {
  const Clock::time_point begun = Clock::now();
  std::string refused;
  for (const pid_t pid : source_.look(refused)) {
    drop(pid);
    const uint64_t start = process::start_time(pid);
    waiting_.push_back({pid, start, begun, begun});
    if (source_.ends_with_the_last) source_.there.emplace_back(pid, start);
  }
  std::istringstream lines(refused);
  for (std::string line; std::getline(lines, line);) say(stderr, "warning: {}\n", line);
  std::erase_if(waiting_, [&](const Waiting& one) {
    const bool has_ended = !process::is_running(one.pid, one.start);
    if (has_ended && !one.why.empty()) last_missed_ = one.why;
    return has_ended;
  });
  std::erase_if(source_.there, [](const auto& one) { return !process::is_running(one.first, one.second); });
  const Clock::time_point now = Clock::now();
  next_look_ = now + std::max<Clock::duration>(kLookEvery, kQuietTimes * (now - begun));
  std::vector<pid_t> out;
  for (const Waiting& one : waiting_)
    if (one.next <= now) out.push_back(one.pid);
  return out;
}

std::unique_ptr<AttachedProcess> Newcomers::attach(pid_t pid, double began_s) {
  const std::string name = process::read_status(pid).name;  // it may end meanwhile
  auto process = source_.attach(pid, began_s);
  if (process) {
    drop(pid);
    return std::move(*process);
  }
  const std::string why = fmt::format("process {} ({}) is not measured: {}", pid, name, process.error().text);
  const auto one = std::ranges::find(waiting_, pid, &Waiting::pid);
  const Clock::time_point now = Clock::now();
  const bool is_left = process.error().status == Status::left_inert;
  const bool is_running = process::is_running(pid, one == waiting_.end() ? 0 : one->start);
  if (one != waiting_.end() && (is_running || one->why.empty())) one->why = why;
  if (one != waiting_.end() && now - one->since < kNewFor && !is_left) {
    one->next = now + (now - one->since);  // a look at a large program takes its time
    return nullptr;
  }
  if (is_left || is_running)
    say(stderr, "warning: {}\n", why);
  else if (one != waiting_.end())
    last_missed_ = one->why;
  drop(pid);
  return nullptr;
}

void Newcomers::drop(pid_t pid) {
  std::erase_if(waiting_, [&](const Waiting& one) { return one.pid == pid; });
}

}  // namespace mdl::inject
