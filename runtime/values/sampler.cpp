#include "runtime/values/sampler.h"

#include <chrono>

namespace mdl::values {
namespace {

double seconds(uint64_t from_ns, uint64_t to_ns) {
  return to_ns > from_ns ? static_cast<double>(to_ns - from_ns) / 1e9 : 0;
}

constexpr double kShortest = 0.001;  // seconds: over less than that a rate says nothing

}  // namespace

Moment now() {
  const auto ns = [](auto since) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  };
  return {ns(std::chrono::system_clock::now().time_since_epoch()),
          ns(std::chrono::steady_clock::now().time_since_epoch())};
}

Sampler::Sampler(BlockLayout layout, Moment start)
    : layout_(std::move(layout)), start_(start), last_at_(start) {
  last_.cells.resize(layout_.cells.size());
}

Sample Sampler::make(const std::vector<int64_t>& totals, Moment at) const {
  Sample sample;
  sample.at = at;
  sample.elapsed_s = seconds(start_.steady_ns, at.steady_ns);
  const double interval = seconds(last_at_.steady_ns, at.steady_ns);
  for (size_t i = 0; i < totals.size(); ++i) {
    Value value;
    value.total = totals[i];
    value.delta =
        static_cast<int64_t>(static_cast<uint64_t>(totals[i]) - static_cast<uint64_t>(last_.cells[i]));
    value.rate = interval >= kShortest ? static_cast<double>(value.delta) / interval : 0;
    sample.values.push_back(value);
  }
  return sample;
}

Result<Sample> Sampler::sample(const image::Memory& memory, Moment at) {
  auto snapshot = read_values(layout_, memory);
  if (!snapshot) return snapshot.error();
  for (const size_t i : snapshot->unsettled) snapshot->cells[i] = last_.cells[i];
  Sample sample = make(snapshot->cells, at);
  sample.anomalies = snapshot->anomalies;
  sample.threads = snapshot->threads;
  sample.overflows = snapshot->overflows;
  last_ = std::move(*snapshot);
  last_at_ = at;
  return sample;
}

Sample Sampler::repeat(Moment at) const {
  Sample sample = make(last_.cells, at);
  sample.anomalies = last_.anomalies;
  sample.threads = last_.threads;
  sample.overflows = last_.overflows;
  sample.complete = false;
  return sample;
}

}  // namespace mdl::values
