#include "runtime/session/heartbeat.h"

#include <chrono>
#include <optional>
#include <set>
#include <span>

#include "runtime/arch/target_data.h"
#include "runtime/process/lock.h"

namespace mdl::inject {

using namespace std::chrono_literals;

constexpr auto kBeat = 100ms;

Heartbeat::Heartbeat()
    : until_(std::chrono::steady_clock::now() + 2s), thread_([this] {
        std::unique_lock lock(mutex_);
        while (!ended_.wait_for(lock, kBeat, [this] { return ends_; }))
          if (std::chrono::steady_clock::now() < until_) beat_all();
      }) {}

void Heartbeat::go_on_for(std::chrono::seconds time) {
  const std::lock_guard lock(mutex_);
  until_ = std::chrono::steady_clock::now() + time;
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
  beat_all();
}

void Heartbeat::add(const void* owner, const process::TargetMemory& memory, uint64_t word) {
  auto own = memory.duplicate();
  if (!own) return;  // it goes on by itself, and is not measured
  const std::lock_guard lock(mutex_);
  places_.push_back({owner, 0, std::move(*own), word, nullptr});
}

void Heartbeat::drop(const void* owner) {
  const std::lock_guard lock(mutex_);
  std::erase_if(places_, [owner](const Place& place) { return place.owner == owner; });
}

// The news are one page of all of a family: one of these is enough. Where an insertion or a removal is under
// way, or has been, nothing is written (measurement.h).
void Heartbeat::beat_all() {
  std::set<const resident::Journal*> done;
  beat_++;
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
