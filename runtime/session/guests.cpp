#include "runtime/session/guests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/nap.h"
#include "runtime/focus/request.h"
#include "runtime/output/series.h"
#include "runtime/plan/join.h"

namespace mdl::inject {

using namespace std::chrono_literals;
namespace wire = guest_wire;

namespace {

constexpr size_t kMostGuests = 8;
constexpr size_t kLongestRequest = size_t{16} << 20;
constexpr auto kGreeting = 60s;     // for a guest to compile and say what it wants
constexpr auto kReading = 30s;      // and to read what it has asked for
constexpr auto kFarewell = 1s;      // for all of them to read their last values, when the session ends
constexpr auto kLeastPause = 10ms;  // between two samples of one guest: and four times as long as one takes
constexpr auto kFirstRetry = 1s, kLastRetry = 60s;  // of a change that takes requests out

}  // namespace

class Guests::Guest {
 public:
  enum class State { calls, has_said_hello, measures, leaves, has_left };

  explicit Guest(const wire::Peer& peer)
      : line(peer.file, kLongestRequest), pid(peer.pid), tag(fmt::format(" (mdl-inject {})", pid)) {
    feed.add(std::make_unique<Points>(*this));
  }

  // Series and points as they are, but for the names and the time that are the guest's.
  void give(std::span<const output::Point> points, bool final) {
    wire::Points out{.final = final, .series = {}, .points = {}};
    for (const output::Point& point : points) {
      if (point.series->id >= told) {
        std::string& metric = out.series.emplace_back(*point.series).metric;
        if (const auto own = std::ranges::find(tagged, metric); own != tagged.end())
          metric = ids[static_cast<size_t>(own - tagged.begin())];
      }
      output::Point& own = out.points.emplace_back(point.series->id, point).second;
      own.elapsed_s -= began_s;
      own.anomalies = 0;
      for (const output::Anomaly& one : own.anomalies_of) own.anomalies += one.vanished + one.unmatched;
    }
    for (const output::Series& one : out.series) told = std::max(told, one.id + 1);
    line.send(wire::Kind::points, std::move(out));
  }
  void go_on_as(State next) { state = next, since = Clock::now(); }

  wire::Line line;
  pid_t pid;
  std::string tag;
  State state = State::calls;
  Clock::time_point since = Clock::now();  // of the state
  output::Feed feed;
  std::vector<std::string> ids, tagged;  // of its metrics: as it calls them, and as they are called here
  double began_s = 0;                    // in the session's time
  uint32_t told = 0;                     // series below that are known to it
  bool is_there = true;                  // it has not gone
  bool wants_sample = false;
  Clock::time_point next_sample, next_try, asked;
  Clock::duration retry = kFirstRetry;

 private:
  struct Points final : output::Consumer {
    explicit Points(Guest& guest) : guest(guest) {}
    Result<void> sample(std::span<const output::Point> points, bool final) override {
      guest.give(points, final);
      return {};
    }
    Guest& guest;
  };
};

Guests::Guests(int listener, uid_t own, Admit admit)
    : listener_(listener), own_(own), admit_(std::move(admit)) {}

Guests::~Guests() {
  if (listener_ >= 0) close(listener_);
}

bool Guests::is_quiet() const {
  const auto now = Clock::now();
  std::vector<pollfd> files = {{listener_, POLLIN, 0}};
  for (const auto& one : guests_) {
    const bool waits =
        one->state == Guest::State::leaves || (one->wants_sample && !one->line.has_more_to_send());
    if (waits && now >= std::max(one->next_sample, one->next_try)) return false;
    if (one->is_there) {
      const bool sends = one->line.has_more_to_send();
      files.push_back({one->line.file(), static_cast<short>(sends ? POLLIN | POLLOUT : POLLIN), 0});
    }
  }
  return poll(files.data(), files.size(), 0) <= 0;
}

// One at a time: whoever calls again and again gets no more of our time than that.
void Guests::take_calls() {
  const auto peer = wire::take_call(listener_);
  if (!peer) return;
  if (peer->user != own_) {
    close(peer->file);
    return;
  }
  auto guest = std::make_unique<Guest>(*peer);
  if (guests_.size() < kMostGuests) {
    guests_.push_back(std::move(guest));
    return;
  }
  guest->line.send(wire::Kind::refusal, wire::Refusal{fmt::format("it serves {} others", guests_.size())});
  (void)guest->line.flush();
}

void Guests::serve(AttachedProcess& process, const SessionOptions& options) {
  take_calls();
  for (const auto& one : guests_) serve(*one, process, options);
  std::erase_if(guests_, [](const auto& one) {
    return one->state == Guest::State::has_left && (!one->is_there || !one->line.has_more_to_send());
  });
}

void Guests::serve(Guest& guest, AttachedProcess& process, const SessionOptions& options) {
  using State = Guest::State;
  if (guest.is_there) guest.is_there = guest.line.receive();
  while (const auto message = guest.is_there ? guest.line.next() : std::nullopt) {
    if (guest.state <= State::has_said_hello)
      greet(guest, *message, process, options);
    else if (message->kind == wire::Kind::sample)
      guest.wants_sample = true, guest.asked = Clock::now();
    else if (message->kind == wire::Kind::leave && guest.state == State::measures)
      guest.go_on_as(State::leaves);
  }
  const auto now = Clock::now();
  const bool is_silent = guest.state <= State::has_said_hello && now - guest.since > kGreeting;
  const bool is_stuck = guest.line.has_more_to_send() && now - guest.asked > kReading;
  if (is_silent || is_stuck) guest.is_there = false;
  if (!guest.is_there && guest.state == State::measures) guest.go_on_as(State::leaves);
  if (!guest.is_there && guest.state <= State::has_said_hello) guest.go_on_as(State::has_left);
  if (guest.state == State::leaves && now >= guest.next_try) leave(guest, process);
  if (guest.state == State::measures) sample(guest, process);
  if (guest.is_there) guest.is_there = guest.line.flush();
}

// Asked for before the one before was read, there is none yet.
void Guests::sample(Guest& guest, AttachedProcess& process) {
  const auto begun = Clock::now();
  if (!guest.wants_sample || guest.line.has_more_to_send() || begun < guest.next_sample) return;
  std::vector<output::Point> points;
  process.measurement().sample(points, guest.feed);
  if (process.measurement().result()) return;  // the last ones have been given
  guest.wants_sample = false;
  (void)guest.feed.sample(points, false);
  const auto ended = Clock::now();
  guest.next_sample = ended + std::max<Clock::duration>(kLeastPause, 4 * (ended - begun));
}

void Guests::greet(Guest& guest, const wire::Message& message, AttachedProcess& process,
                   const SessionOptions& options) {
  const auto refuse = [&](const std::string& why) {
    guest.line.send(wire::Kind::refusal, wire::Refusal{why});
    guest.asked = Clock::now();
    guest.go_on_as(Guest::State::has_left);
  };
  if (guest.state == Guest::State::calls) {
    const auto hello = wire::unpack<wire::Hello>(message.fields);
    if (message.kind != wire::Kind::hello || !hello || hello->protocol != wire::kProtocol ||
        hello->build != wire::build_id())
      return refuse("it is another build of mdl-inject");
    guest.line.send(wire::Kind::welcome);
    guest.asked = Clock::now();
    return guest.go_on_as(Guest::State::has_said_hello);
  }
  auto requests = read(guest, message, options);
  if (!requests) return refuse(requests.error().text);
  const std::string change =
      fmt::format("mdl-inject {} comes with plan {}", guest.pid, requests->part.plan->checksum);
  if (auto ok = log_(change, "begins"); !ok) return refuse(ok.error().text);
  auto done = process.join(std::move(*requests));
  (void)log_(change, done ? "done" : done.error().text);
  if (!done && process.is_to_end()) return;  // it can measure by itself then
  if (!done) return refuse(done.error().text);
  guest.began_s = process.measurement().changed_s();
  guest.asked = Clock::now();
  guest.line.send(wire::Kind::joined, wire::Joined{*done});
  guest.go_on_as(Guest::State::measures);
}

Result<GuestRequests> Guests::read(Guest& guest, const wire::Message& message,
                                   const SessionOptions& options) const {
  auto request = wire::unpack<wire::Request>(message.fields);
  if (message.kind != wire::Kind::request || !request) return Error{"its request cannot be read"};
  if (request->raw_times != options.raw_times)
    return Error{
        fmt::format("its times are {} --raw-times", options.raw_times ? "those of" : "not those of")};
  if (request->max_pause_ms != static_cast<uint64_t>(options.max_pause.count()))
    return Error{fmt::format("its --max-pause is {} ms", options.max_pause.count())};
  auto plan = plan::read_plan(std::as_bytes(std::span(request->plan)));
  if (!plan) return plan.error();
  std::vector<format::Metric>& metrics = plan->manifest.metrics;
  if (request->ids.size() != metrics.size()) return Error{"its request cannot be read"};
  if (request->max_keys > resident::kMostKeys) return Error{"its request cannot be read"};
  GuestConsents consents{request->allow_calls, request->allow_reads, request->budget};
  if (auto ok = admit_(*plan, fmt::format("the plan of mdl-inject {}", guest.pid), consents); !ok)
    return ok.error();
  for (size_t i = 0; i < metrics.size(); i++) metrics[i].id = request->ids[i];
  plan::tag_metrics(*plan, guest.tag);
  guest.ids = std::move(request->ids);
  for (const format::Metric& metric : metrics) guest.tagged.push_back(metric.id);
  const auto tagged = [&](const std::string& id) {
    const auto known = std::ranges::find(guest.ids, id);
    return known == guest.ids.end() ? id + guest.tag
                                    : guest.tagged[static_cast<size_t>(known - guest.ids.begin())];
  };
  GuestRequests out;
  for (const std::string& text : request->metrics) {
    const size_t at = text.find('@');
    out.metrics.push_back(tagged(text.substr(0, at)) + (at == text.npos ? "" : text.substr(at)));
  }
  for (const std::string& id : request->queries) out.queries.push_back(tagged(id));
  for (const std::string& id : request->spare) out.spare.push_back(tagged(id));
  out.foci = std::move(request->foci);
  out.part = {.plan = std::make_shared<const plan::Plan>(std::move(*plan)),
              .tag = guest.tag,
              .flavor = request->flavor,
              .allow_calls = consents.allow_calls,
              .allow_reads = consents.allow_reads};
  out.max_keys = request->max_keys;
  out.budget = consents.budget;
  out.strict = request->strict;
  out.feed = &guest.feed;
  return out;
}

// Where it cannot be done now, it is tried again: later and later, when nobody waits for it any more.
void Guests::leave(Guest& guest, AttachedProcess& process) {
  const std::string change = fmt::format("mdl-inject {} goes", guest.pid);
  std::vector<output::Point> points;
  Result<std::string> done = log_(change, "begins") ? process.leave(guest.feed, points)
                                                    : Result<std::string>(Error{"no line could be logged"});
  (void)log_(change, done ? "done" : done.error().text);
  if (!done) {
    guest.next_try = Clock::now() + guest.retry;
    guest.retry = std::min<Clock::duration>(2 * guest.retry, kLastRetry);
    return;
  }
  if (guest.is_there) {
    guest.asked = Clock::now();
    (void)guest.feed.sample(points, true);
    guest.line.send(wire::Kind::farewell, wire::Farewell{});
  }
  guest.go_on_as(Guest::State::has_left);
}

void Guests::end(const wire::Farewell& farewell) {
  for (const auto& one : guests_) {
    using State = Guest::State;
    // Others find the line closed, and measure by themselves.
    if (one->state == State::measures || one->state == State::leaves)
      one->line.send(wire::Kind::farewell, farewell);
  }
  const auto until = Clock::now() + kFarewell;
  const auto sends = [](const auto& one) { return one->is_there && one->line.has_more_to_send(); };
  for (;; nap(1000)) {
    for (const auto& one : guests_)
      if (sends(one)) one->is_there = one->line.flush();
    if (Clock::now() > until || std::ranges::none_of(guests_, sends)) break;
  }
  guests_.clear();
  close(std::exchange(listener_, -1));
}

}  // namespace mdl::inject
