#include "runtime/output/sums.h"

#include <algorithm>
#include <utility>

#include "runtime/values/fold.h"

namespace mdl::output {
namespace {

constexpr double kNanosecond = 1e-9;

void add(std::vector<Anomaly>& all, const Anomaly& one) {
  const auto same = std::ranges::find(all, one.function, &Anomaly::function);
  if (same == all.end()) {
    all.push_back(one);
    return;
  }
  same->vanished += one.vanished;
  same->unmatched += one.unmatched;
}

}  // namespace

Sums::Sum& Sums::sum_of(const Series& series) {
  Sum*& known = of_[series.id];
  if (known) return *known;
  auto metric = std::ranges::find(metrics_, series.metric, &std::pair<std::string, Metric>::first);
  if (metric == metrics_.end()) metric = metrics_.insert(metrics_.end(), {series.metric, Metric()});
  Metric& of = metric->second;
  Sum*& place = of.places[{series.asked, series.focus, series.key}];
  if (!place) {
    place = &of.sums.emplace_back();
    place->series = series;
    place->series.process = 0;
  }
  return *(known = place);
}

void Sums::take(std::span<const Point> points) {
  for (const Point& point : points)
    if (point.series->process != 0 && point.series->aggregate)
      sum_of(*point.series).parts.insert_or_assign(point.series->id, point);
}

Point Sums::fold(Sum& sum) {
  Point out;
  values::Fold total;
  std::optional<values::Distribution> distribution;
  std::optional<Summary> summary;
  bool is_anywhere = false;  // measured
  for (const auto& [id, part] : sum.parts) {
    is_anywhere = is_anywhere || is_measured(part.value);
    if (is_known(part.value)) total.add(number(part.value).total);
    if (const auto* one = std::get_if<Summary>(&part.value)) {
      if (!summary) summary.emplace();
      summary->count += one->count;
      if (one->sum)
        summary->sum = static_cast<int64_t>(static_cast<uint64_t>(summary->sum.value_or(0)) +
                                            static_cast<uint64_t>(*one->sum));
    }
    if (const auto* observed = std::get_if<Observed>(&part.value)) {
      if (!distribution) distribution.emplace();
      distribution->add(observed->of);
    }
    out.time_ns = std::max(out.time_ns, part.time_ns);
    out.elapsed_s = std::max(out.elapsed_s, part.elapsed_s);
    out.refused += part.refused;
    out.complete = out.complete && part.complete;
    out.suspect = out.suspect || part.suspect;
    out.anomalies += part.anomalies;
    for (const Anomaly& one : part.anomalies_of) add(out.anomalies_of, one);
  }
  out.processes = sum.parts.size();
  if (!sum.added) sum.added = &feed_.add(sum.series);
  out.series = sum.added;
  const auto before = std::exchange(sum.before_ns, out.time_ns);
  const auto interval_s =
      before ? std::optional(static_cast<double>(out.time_ns - *before) * kNanosecond) : std::nullopt;
  int64_t result = total.result(*sum.series.aggregate);
  if (summary && summary->mean()) result = static_cast<int64_t>(*summary->mean());
  const Number all = feed_.next(*out.series, result, interval_s);
  if (!is_anywhere)
    out.value = Unknown{};
  else if (summary)
    summary->number = all, out.value = *summary;
  else if (distribution)
    out.value = Observed{all, std::move(*distribution)};
  else
    out.value = all;
  return out;
}

void Sums::append(std::vector<Point>& points) {
  for (auto& [name, metric] : metrics_)
    for (Sum& sum : metric.sums) points.push_back(fold(sum));
}

}  // namespace mdl::output
