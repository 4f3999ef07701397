#include "runtime/session/dearest.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace mdl::inject {
namespace {

using namespace std::chrono_literals;
using WatchClock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kWatched = 20ms, kBetweenLooks = 50us;
constexpr size_t kEnough = 20;

}  // namespace

void DearestRequest::watch(const values::Collector& values, const image::Memory& memory) {
  for (const auto end = WatchClock::now() + kWatched; WatchClock::now() < end;) {
    look(values, memory);
    std::this_thread::sleep_for(kBetweenLooks);
  }
  last_.clear();
}

void DearestRequest::look(const values::Collector& values, const image::Memory& memory) {
  for (const values::Collector::Hit& hit : values.hits(memory)) {
    const auto [last, fresh] = last_.try_emplace(hit.slot, hit);
    if (!fresh && hit.taken > last->second.taken && hit.request && hit.request == last->second.request) {
      ++seen_;
      of_[*hit.request] += hit.taken - last->second.taken;
    }
    last->second = hit;
  }
}

std::optional<uint32_t> DearestRequest::request() const {
  if (seen_ < kEnough) return std::nullopt;
  const auto most = std::ranges::max_element(of_, {}, [](const auto& one) { return one.second; });
  return most == of_.end() ? std::nullopt : std::optional(most->first);
}

}  // namespace mdl::inject
