#include "runtime/session/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/say.h"
#include "runtime/process/target.h"
#include "runtime/process/trace_stop.h"

namespace mdl::inject {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLoading = 60s;  // libraries on a slow network, constructors that wait

namespace {

// What is said of a process whose thread was let go in front of its execve; "" where nothing is missing.
std::string_view why_let_go(process::ExecWatch::State state) {
  if (state == process::ExecWatch::State::privileged)
    return "executes a program that may get more rights than it has, which it would not get while it is "
           "traced: it is not measured";
  if (state == process::ExecWatch::State::lost)
    return "was stopped, or held up, in front of an execve: a program that it executes is not measured";
  return "";
}

}  // namespace

void say_unmeasured(pid_t pid, const std::string& why) {
  const std::string program = process::program_of(pid);
  say(stderr, "warning: process {} executes {} and is not measured: {}\n", pid,
      program.empty() ? "another program" : program, why);
}

bool Programs::watches(pid_t process) const {
  return std::ranges::any_of(watches_, [&](const process::ExecWatch& one) { return one.pid() == process; });
}

bool Programs::watch_again(pid_t tid) {
  const auto found =
      std::ranges::find_if(watches_, [&](const process::ExecWatch& one) { return one.thread() == tid; });
  if (found != watches_.end()) found->expect_another();
  return found != watches_.end();
}

bool Programs::watch(pid_t tid, pid_t process, const process::TargetMemory& memory,
                     std::span<const image::Range> code) {
  auto watch = process::ExecWatch::begin(tid, process, memory, code);
  if (watch) watches_.push_back(std::move(*watch));
  return watch.has_value();
}

// It is in the stop behind its execve.
void Programs::begin(pid_t pid) {
  auto arrival = process::Arrival::prepare(pid);
  if (!arrival) {
    say_unmeasured(pid, arrival.error().text);
    process::let_go_or_reap(pid, 0);
    return;
  }
  Loading& loading = arrivals_.emplace_back(Loading{std::move(*arrival), Clock::now()});
  heart_.add(&loading, loading.arrival.memory(), loading.arrival.beat_at());
  loading.arrival.begin();
}

// True when nothing is to be done with it any more.
bool Programs::look_at(Loading& loading, News& news) {
  const pid_t pid = loading.arrival.pid();
  const auto state = loading.arrival.look();
  if (state == process::Arrival::State::on_its_way && Clock::now() - loading.since < kLoading) return false;
  heart_.drop(&loading);
  if (state == process::Arrival::State::on_its_way)
    say_unmeasured(pid, "it has not come to its entry for 60 s");
  if (state == process::Arrival::State::gone)
    say(stderr,
        "warning: process {} executed a program that ended before its entry, or ran without being seen\n",
        pid);
  if (state != process::Arrival::State::here) return true;
  if (auto memory = loading.arrival.take())
    news.arrived.push_back({pid, std::move(*memory)});
  else
    say_unmeasured(pid, memory.error().text);
  return true;
}

Programs::News Programs::look() {
  News news;
  process::stop_tracing_all();
  std::erase_if(watches_, [&](process::ExecWatch& watch) {
    const auto state = watch.look();
    switch (state) {
      case process::ExecWatch::State::waiting:
        return false;
      case process::ExecWatch::State::executed:
        news.executed.push_back(watch.pid());
        begin(watch.pid());
        return true;
      case process::ExecWatch::State::privileged:
      case process::ExecWatch::State::lost:
      case process::ExecWatch::State::over:
        if (const std::string_view why = why_let_go(state); !why.empty())
          say(stderr, "warning: process {} {}\n", watch.pid(), why);
        news.stayed.push_back(watch.pid());
        return true;
    }
    return true;
  });
  std::erase_if(arrivals_, [&](Loading& loading) { return look_at(loading, news); });
  return news;
}

void Programs::let_go() {
  for (process::ExecWatch& watch : watches_) watch.let_go();
  watches_.clear();
  for (const Loading& loading : arrivals_) {
    heart_.drop(&loading);
    say_unmeasured(loading.arrival.pid(), "the measurement has ended before its entry");
  }
  // Those that wait at their entries are stopped there, and let go as they were: nothing of ours is left.
  while (!arrivals_.empty()) {
    process::Arrival& arrival = arrivals_.front().arrival;
    if (arrival.look() == process::Arrival::State::here) (void)arrival.take().operator bool();
    arrivals_.pop_front();
  }
}

}  // namespace mdl::inject
