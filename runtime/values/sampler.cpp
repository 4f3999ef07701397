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

Sampler::Sampler(BlockLayout layout, Moment start) : collector_(layout), start_(start), last_at_(start) {
  last_.cells.resize(layout.cells.size());
  last_.each.resize(layout.cells.size());
  last_.counts.resize(layout.cells.size());
  last_each_.resize(layout.cells.size());
}

Sample Sampler::make(const Snapshot& snapshot, Moment at) const {
  Sample sample;
  sample.at = at;
  sample.elapsed_s = seconds(start_.steady_ns, at.steady_ns);
  const double interval = seconds(last_at_.steady_ns, at.steady_ns);
  const auto value_of = [&](int64_t total, int64_t before) {
    Value value;
    value.total = total;
    value.delta = static_cast<int64_t>(static_cast<uint64_t>(total) - static_cast<uint64_t>(before));
    if (!is_first_ && interval >= kShortest) value.rate = static_cast<double>(value.delta) / interval;
    return value;
  };
  for (size_t i = 0; i < snapshot.cells.size(); ++i) {
    sample.values.push_back(value_of(snapshot.cells[i], last_.cells[i]));
    std::map<uint64_t, Value>& each = sample.each.emplace_back();
    for (const ThreadValue& thread : snapshot.each[i]) {
      const auto before = last_each_[i].find(thread.thread);
      each[thread.thread] = value_of(thread.value, before == last_each_[i].end() ? 0 : before->second);
    }
  }
  sample.counts = snapshot.counts;
  sample.anomalies = snapshot.anomalies;
  sample.anomaly_words = snapshot.anomaly_words;
  sample.threads = snapshot.threads;
  sample.overflows = snapshot.overflows;
  sample.unrecorded = snapshot.unrecorded;
  sample.taken_ns = snapshot.taken_ns;
  return sample;
}

Result<Sample> Sampler::sample(const image::Memory& memory, Clocks& clocks, Moment at) {
  auto snapshot = collector_.read(memory, clocks);
  if (!snapshot) return snapshot.error();
  for (const size_t i : snapshot->unsettled) snapshot->cells[i] = last_.cells[i];
  Sample sample = make(*snapshot, at);
  last_ = std::move(*snapshot);
  for (size_t i = 0; i < last_.each.size(); ++i)
    for (const ThreadValue& thread : last_.each[i]) last_each_[i][thread.thread] = thread.value;
  last_at_ = at;
  is_first_ = false;
  return sample;
}

Sample Sampler::repeat(Moment at) const {
  Sample sample = make(last_, at);
  sample.complete = false;
  return sample;
}

}  // namespace mdl::values
