#include "mdl-inject/guest.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <utility>
#include <vector>

#include "base/proc_text.h"
#include "base/say.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/session/watch.h"

namespace mdl::inject {

using namespace std::chrono_literals;
namespace wire = guest_wire;

namespace {

constexpr size_t kLongestAnswer = size_t{256} << 20;
constexpr auto kWelcome = 10s;   // for the host to answer at all: it may be about to begin, or be held up
constexpr auto kAnswer = 120s;   // for the host to take the requests in, or out
constexpr auto kKeyLook = 10ms;  // from look to look at the keys of a terminal

bool is_alone(const Options& options) {
  return options.alone || options.start || options.follow || options.dry_run || options.names_several();
}

class Visit {
 public:
  Visit(Host host, const Options& options, output::Feed& feed)
      : line_(std::move(host.line)), host_(host.pid), options_(options), feed_(feed), watch_(Watch::open()) {}

  void ask(const PlanFile& file, const plan::Plan& plan) {
    wire::Request request;
    request.plan = file.bytes;
    for (const format::Metric& metric : plan.manifest.metrics) request.ids.push_back(metric.id);
    request.metrics = options_.metrics, request.foci = options_.foci, request.queries = options_.queries;
    request.spare = options_.drill.all();
    request.flavor = options_.flavor;
    request.allow_calls = options_.allow_calls, request.allow_reads = options_.allow_reads;
    request.strict = options_.strict;
    request.raw_times = options_.raw_times;
    request.max_pause_ms = static_cast<uint64_t>(options_.max_pause.count());
    request.budget = options_.budget;
    request.max_keys = options_.max_keys;
    line_.send(wire::Kind::hello, wire::Hello{wire::kProtocol, wire::build_id()});
    line_.send(wire::Kind::request, std::move(request));
  }

  // What the host has done, in words; nothing where it has gone, or serves nobody yet.
  Result<std::optional<std::string>> wait_joined() {
    auto until = Clock::now() + kWelcome;
    bool is_welcome = false;
    for (bool is_there = true;;) {
      const auto message = line_.next();
      if (message && message->kind == wire::Kind::joined)
        if (auto joined = wire::unpack<wire::Joined>(message->fields))
          return std::optional(std::move(joined->done));
      if (message && message->kind == wire::Kind::refusal)
        if (auto refusal = wire::unpack<wire::Refusal>(message->fields))
          return Error{
              fmt::format("process {} is being measured by mdl-inject {}, which does not take this one's "
                          "requests: {}. What does not fit beside them can be asked for when that one has "
                          "ended (mdl-inject --status {} shows what it measures)",
                          options_.pid, host_, refusal->why, options_.pid)};
      if (message && (message->kind != wire::Kind::welcome || is_welcome)) return not_understood();
      if (message) is_welcome = true, until = Clock::now() + kAnswer;
      if (message) continue;
      if (!is_there || (!is_welcome && Clock::now() > until)) return std::optional<std::string>();
      if (Clock::now() > until)
        return Error{fmt::format(
            "process {} is being measured by mdl-inject {}, which does not answer: end that one first",
            options_.pid, host_)};
      if (look_until(until) == Watch::Event::interrupted)
        return Error{"interrupted before anything was changed"};
      is_there = line_.receive();
    }
  }

  Result<int> run() {
    if (auto ok = feed_.begin(); !ok) return ok.error();
    started_ = next_ = Clock::now();
    const auto in = [](double seconds) {
      return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    };
    const auto interval = in(options_.interval);
    if (options_.duration) end_ = started_ + in(*options_.duration);
    while (!status_) {
      const Clock::time_point now = Clock::now();
      if (!left_ && end_ && now >= *end_) leave();
      if (!left_ && !asked_ && now >= next_) {
        next_ += interval * (1 + (now - next_) / interval);
        asked_ = true;
        line_.send(wire::Kind::sample);
      }
      if (left_ && now > *left_ + kAnswer)
        return Error{
            fmt::format("mdl-inject {} does not take the requests out of process {}: it will, or they go "
                        "when it ends",
                        host_, options_.pid)};
      if (look_until(left_ ? now + kAnswer
                           : std::min(end_.value_or(next_), asked_ ? now + kAnswer : next_)) ==
          Watch::Event::interrupted)
        leave();
      const bool is_there = line_.receive();
      while (const auto message = status_ ? std::nullopt : line_.next())
        if (auto ok = take(*message); !ok) return ok.error();
      if (!status_ && !is_there)
        if (auto ok = take_death(); !ok) return ok.error();
      if (auto ok = feed_.look(); !ok) return ok.error();
    }
    if (auto ok = feed_.end(); !ok) return ok.error();
    return *status_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  Error not_understood() const { return {fmt::format("what mdl-inject {} answers cannot be read", host_)}; }

  Watch::Event look_until(Clock::time_point until) {
    (void)line_.flush();  // that it has gone is read
    if (line_.has_more_to_send() || options_.look.keys) until = std::min(until, Clock::now() + kKeyLook);
    std::vector<pollfd> files = watch_.files({});
    files.push_back({line_.file(), POLLIN, 0});
    return watch_.wait_until(until, files);
  }

  void leave() {
    if (left_) return;
    left_ = Clock::now();
    line_.send(wire::Kind::leave);
  }

  Result<void> take(const wire::Message& message) {
    if (message.kind == wire::Kind::points) {
      auto points = wire::unpack<wire::Points>(message.fields);
      return points ? take(std::move(*points)) : not_understood();
    }
    const auto farewell =
        message.kind == wire::Kind::farewell ? wire::unpack<wire::Farewell>(message.fields) : std::nullopt;
    if (!farewell) return not_understood();
    status_ = farewell->status;
    if (!farewell->why.empty()) say(stderr, "mdl-inject: {}\n", farewell->why);
    if (farewell->host_ends) say_host_ended("these are the values until then");
    if (farewell->host_ends || left_ || !farewell->why.empty()) return {};
    say(stderr, "mdl-inject: process {} {}\n", options_.pid,
        *status_ == static_cast<int>(Status::target_killed) ? "was killed by a signal" : "has ended");
    return {};
  }

  void say_host_ended(std::string_view what) {
    say(stderr,
        "mdl-inject: mdl-inject {}, which measured process {} for this one, has ended: {}; ask again\n",
        host_, options_.pid, what);
    status_ = static_cast<int>(Status::failed);
  }

  Result<void> take(wire::Points message) {
    asked_ = false;
    for (output::Series& series : message.series) {
      const uint32_t id = series.id;
      if (series.process != options_.pid || !series_.emplace(id, nullptr).second) return not_understood();
      series_[id] = &feed_.add(std::move(series));
    }
    std::vector<output::Point> points;
    for (auto& [id, point] : message.points) {
      const auto series = series_.find(id);
      if (series == series_.end()) return not_understood();
      point.series = series->second;
      points.push_back(std::move(point));
    }
    if (auto ok = feed_.sample(points, message.final); !ok) return ok;
    last_ = std::move(points);
    return {};
  }

  // It was killed: what was read last are the last values that are known.
  Result<void> take_death() {
    for (output::Point& point : last_) {
      output::Number& number = std::visit(
          [](auto& value) -> output::Number& {
            if constexpr (requires { value.number; })
              return value.number;
            else if constexpr (requires { value.of; })
              return value.sum;
            else
              return value;
          },
          point.value);
      number.delta = 0;
      if (number.rate) number.rate = 0;
      point.complete = false;
    }
    say_host_ended("what came behind the last sample is not known");
    return feed_.sample(last_, true);
  }

  wire::Line line_;
  const pid_t host_;
  const Options& options_;
  output::Feed& feed_;
  const Watch watch_;
  Clock::time_point started_, next_;
  std::optional<Clock::time_point> end_, left_;
  bool asked_ = false;
  std::map<uint32_t, const output::Series*> series_;  // by the host's ids
  std::vector<output::Point> last_;
  std::optional<int> status_;
};

}  // namespace

std::optional<Host> find_host(const Options& options) {
  if (is_alone(options)) return std::nullopt;
  const auto peer = wire::call_host_of(options.pid);
  if (!peer) return std::nullopt;
  Host out{wire::Line(peer->file, kLongestAnswer), peer->pid};
  constexpr int kState = 3;
  const bool is_stopped = stat_field(kernel::proc_text(peer->pid, "stat"), kState) == "T";
  if (peer->user != geteuid() || is_stopped) return std::nullopt;
  return out;
}

std::optional<int> listen_for_guests(const Options& options) {
  if (is_alone(options) || options.follow_fork || options.await || options.detach) return std::nullopt;
  const int file = wire::listen_for(options.pid);
  return file < 0 ? std::nullopt : std::optional(file);
}

std::string needs_own_session(const Options& options) {
  return options.busiest             ? "top"
         : options.detach            ? "--detach"
         : options.follow_fork       ? "--follow-fork"
         : options.await             ? "--await"
         : !options.commands.empty() ? "--commands"
         : options.check             ? "--check"
         : options.explain           ? "--explain"
                                     : "";
}

Result<std::optional<int>> measure_as_guest(Host host, const Options& options, const PlanFile& file,
                                            const plan::Plan& plan, output::Feed& feed, Audit& audit) {
  const pid_t pid = host.pid;
  if (const std::string option = needs_own_session(options); !option.empty())
    return Error{
        fmt::format("process {} is being measured by mdl-inject {}, and {} needs a session of its own: end "
                    "that one first, or see mdl-inject --status {}",
                    options.pid, pid, option, options.pid)};
  Visit visit(std::move(host), options, feed);
  if (auto ok = audit.say("attach", "begins"); !ok) return ok.error();
  visit.ask(file, plan);
  auto joined = visit.wait_joined();
  if (!joined) return joined.error();
  if (!*joined) return std::optional<int>();
  (void)audit.say("attach", "done");
  say(stderr, "process {} is being measured by mdl-inject {}, which takes this in: inserted {}\n",
      options.pid, pid, **joined);
  auto status = visit.run();
  (void)audit.say("removal", !status        ? status.error().text
                             : *status == 0 ? "done"
                                            : fmt::format("exit status {}", *status));
  if (!status) return status.error();
  return std::optional(*status);
}

}  // namespace mdl::inject
