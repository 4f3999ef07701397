#include "runtime/values/sampler.h"

#include <chrono>
#include <map>

namespace mdl::values {

double seconds(Moment from, Moment to) {
  return to.steady_ns > from.steady_ns ? static_cast<double>(to.steady_ns - from.steady_ns) / 1e9 : 0;
}

Moment now() {
  const auto ns = [](auto since) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  };
  return {ns(std::chrono::system_clock::now().time_since_epoch()),
          ns(std::chrono::steady_clock::now().time_since_epoch())};
}

Sampler::Sampler(BlockLayout layout, Moment start) : collector_(layout), start_(start) {
  last_.cells.resize(layout.cells.size());
  last_.each.resize(layout.cells.size());
  last_.counts.resize(layout.cells.size());
}

Result<Sample> Sampler::sample(const image::Memory& memory, Clocks& clocks, Moment at) {
  auto snapshot = collector_.read(memory, clocks);
  if (!snapshot) return snapshot.error();
  for (const size_t i : snapshot->unsettled) snapshot->cells[i] = last_.cells[i];
  last_ = std::move(*snapshot);
  return Sample{at, seconds(start_, at), last_};
}

void Sampler::change(BlockLayout layout, const std::vector<std::optional<uint32_t>>& kept,
                     const std::vector<std::pair<uint64_t, uint64_t>>& cleared) {
  Snapshot next = last_;
  next.cells.assign(kept.size(), 0);
  next.each.assign(kept.size(), {});
  next.counts.assign(kept.size(), 0);
  next.distributions.clear();
  next.unsettled.clear();
  std::map<size_t, size_t> now;  // by the index before
  for (size_t i = 0; i < kept.size(); i++) {
    if (!kept[i]) continue;
    now.emplace(*kept[i], i);
    next.cells[i] = last_.cells[*kept[i]];
    next.each[i] = last_.each[*kept[i]];
    next.counts[i] = last_.counts[*kept[i]];
  }
  for (const auto& [of, distribution] : last_.distributions)
    if (const auto one = now.find(of.first); one != now.end())
      next.distributions[{one->second, of.second}] = distribution;
  last_ = std::move(next);
  collector_.change(std::move(layout), kept, cleared);
}

Sample Sampler::repeat(Moment at) const {
  return {at, seconds(start_, at), last_, false};
}

}  // namespace mdl::values
