#include "runtime/session/heartbeat.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <set>
#include <span>

#include "runtime/arch/target_data.h"
#include "runtime/process/lock.h"

namespace mdl::inject {

using namespace std::chrono_literals;

constexpr auto kBeat = 100ms;
constexpr auto kQuiet =
    5s;  // after the last sign of somebody who waits; many looks of the session at all processes

Heartbeat::Heartbeat()
    : until_(std::chrono::steady_clock::now() + 2s), thread_([this] {
        std::unique_lock lock(mutex_);
        while (!ended_.wait_for(lock, kBeat, [this] { return ends_; }))
          if (std::chrono::steady_clock::now() < until_) beat_all(false);
      }) {}

void Heartbeat::go_on_for(std::chrono::seconds time) {
  const std::lock_guard lock(mutex_);
  until_ = std::chrono::steady_clock::now() + time;
}

void Heartbeat::begin_turn(std::chrono::seconds time, bool waits) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  until_ = now + time;
  turns_++;
  if (!waits) return;
  for (auto& [session, signs] : signs_) signs.when = now;
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Heartbeat::add(const void* owner, pid_t pid, const process::TargetMemory& memory,
                    const resident::Journal& session) {
  auto own = memory.duplicate();
  if (!own) return;  // the family's others have it
  const std::lock_guard lock(mutex_);
  places_.push_back({owner, pid, std::move(*own), session.news.start + kNewsBeat, &session});
  beat_all(true);
}

void Heartbeat::add(const void* owner, const process::TargetMemory& memory, uint64_t word) {
  auto own = memory.duplicate();
  if (!own) return;  // it goes on by itself, and is not measured
  const std::lock_guard lock(mutex_);
  places_.push_back({owner, 0, std::move(*own), word, nullptr});
}

void Heartbeat::drop(const void* owner) {
  const std::lock_guard lock(mutex_);
  std::erase_if(places_, [&](const Place& place) {
    if (place.owner != owner) return false;
    // It may wait yet while it is taken out, and is not looked at here any more.
    if (place.session) signs_[place.session] = {{}, turns_, std::chrono::steady_clock::now()};
    return true;
  });
  std::erase_if(signs_, [this](const auto& one) {
    return std::ranges::none_of(places_, [&](const Place& place) { return place.session == one.first; });
  });
}

// Whoever waits has counted up a word before, and has its entry in the news until the session has seen it. From then
// on it waits for a turn of the session to be over, and no longer than some turns where that has failed.
bool Heartbeat::may_wait(const resident::Journal& session) {
  constexpr size_t kAskers = kNewsAsking / sizeof(uint64_t), kRing = kNewsRing / sizeof(uint64_t);
  std::array<uint64_t, kAskers + kNewsAskers> news{};
  std::vector<uint64_t> counts;
  bool waits = false;
  for (const Place& place : places_) {
    if (place.session != &session) continue;
    if (counts.empty() && place.memory.read(session.news.start, std::as_writable_bytes(std::span(news))))
      counts = {news[kNewsMade / sizeof(uint64_t)], news[kNewsAsks / sizeof(uint64_t)]};
    std::array<uint64_t, 2> exits{};  // at its exit, and let go
    if (!place.memory.read(session.data.start + kHeaderExit, std::as_writable_bytes(std::span(exits))))
      continue;
    counts.push_back(exits[0]);
    waits = waits || exits[0] != exits[1];
  }
  const auto is_taken = [](uint64_t word) { return word != 0; };
  waits = waits || std::ranges::any_of(std::span(news).subspan(kRing, kNewsEntries), is_taken) ||
          std::ranges::any_of(std::span(news).subspan(kAskers), is_taken);
  const auto now = std::chrono::steady_clock::now();
  Signs& signs = signs_[&session];
  if (waits || counts != signs.counts) signs = {std::move(counts), turns_, now};
  return turns_ < signs.turn + 2 || now - signs.when < kQuiet;
}

// The news are one page of all of a family: one of these is enough. Where an insertion or a removal is under
// way, or has been, nothing is written (measurement.h).
void Heartbeat::beat_all(bool in_any_case) {
  std::set<const resident::Journal*> seen, done;
  beat_++;
  for (const Place& place : places_)
    if (place.session && seen.insert(place.session).second && !may_wait(*place.session) && !in_any_case)
      done.insert(place.session);
  for (const Place& place : places_) {
    if (place.session && done.contains(place.session)) continue;
    std::optional<Result<process::TransactionLock>> lock;
    if (place.session) {
      lock.emplace(process::TransactionLock::take(place.pid, 0ms));
      if (!*lock || !resident::is_in_place(*place.session, place.memory)) continue;
    }
    if (place.memory.write(place.word, std::as_bytes(std::span(&beat_, 1)))) done.insert(place.session);
  }
}

}  // namespace mdl::inject
