// Prometheus' text format, version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats): metrics are
// mdl_ID_total where they only grow, and mdl_ID; times are seconds (prometheus_names.h). What all processes have
// together is a metric of its own, mdl_all_ID, so that a sum over the others is right.
//
// The format describes one moment: a metric's HELP and TYPE may be there once, and a series once. So a file
// always holds the latest sample alone, and is replaced whole; a pipe or a terminal gets the last sample
// only, when the measurement ends. Series of a process that has ended keep their last value. There are no
// time stamps: the one who reads the file knows when, and its rules for series that vanish work only without.

#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "format/kinds.h"
#include "runtime/output/formats.h"
#include "runtime/output/prometheus_names.h"

namespace mdl::output {
namespace {

std::string_view type_of(Series::Kind kind) {
  constexpr std::string_view kTypes[] = {"counter", "gauge", "histogram"};
  return kTypes[static_cast<size_t>(kind)];
}

class Prometheus final : public Consumer {
 public:
  explicit Prometheus(Sink& sink) : sink_(sink) {}
  Result<void> sample(std::span<const Point> points, bool) override {
    for (const Point& point : points) {
      const Series& series = *point.series;
      if (point.overhead >= 0) overheads_[series.process] = point.overhead;
      auto [known, fresh] = values_.try_emplace(series.id, nullptr);
      if (fresh) known->second = &value_of(series);
      *known->second = point.value;
      if (point.suspect)
        suspect_.insert(
            fmt::format("{{metric=\"{}\",{}}}", escaped_text(series.metric, true), labels_of(series)));
    }
    return sink_.can_replace() ? sink_.replace(exposition()) : Result<void>{};
  }
  Result<void> end() override { return sink_.can_replace() ? Result<void>{} : sink_.write(exposition()); }

 private:
  struct Family {
    std::string metric, name, head;
    bool of_all;
    BaseUnit unit;
    std::deque<std::pair<std::string, Value>> values;  // with their labels, in the order in which they came
    std::map<std::string, Value*> places;              // by labels
  };

  // Where the series has its value; two with the same labels have one.
  Value& value_of(const Series& series) {
    Family& family = family_of(series);
    const std::string labels = labels_of(series);
    auto [place, fresh] = family.places.try_emplace(labels, nullptr);
    if (fresh) place->second = &family.values.emplace_back(labels, Number()).second;
    return *place->second;
  }

  Family& family_of(const Series& series) {
    const bool of_all = series.process == 0;
    std::string name = family_name(series);
    if (name.starts_with(kOwn)) name.insert(4, "_");
    for (size_t i = 0; i < families_.size(); i++) {
      if (families_[i].metric == series.metric && families_[i].of_all == of_all) return families_[i];
      // $a and _a: a series must not have values of both.
      if (families_[i].name == name) name.insert(4, "_"), i = SIZE_MAX;
    }
    const BaseUnit unit = base_unit(series);
    const std::string head =
        fmt::format("# HELP {0} {1} ({2})\n# TYPE {0} {3}\n", name,
                    escaped_text(series.name.empty() ? series.metric : series.name, false),
                    unit.name.empty() ? escaped_text(series.units, false) : unit.name, type_of(series.kind));
    return families_.emplace_back(Family{series.metric, name, head, of_all, unit, {}, {}});
  }

  static std::string lines(const Family& family, const std::string& labels, const Value& value) {
    const std::string& name = family.name;
    const auto* observed = std::get_if<Observed>(&value);
    if (!is_known(value)) return "";
    const auto* summary = std::get_if<Summary>(&value);
    if (summary && summary->mean())
      return fmt::format("{}{{{}}} {}\n", name, labels, *summary->mean() / std::pow(10, family.unit.digits));
    if (!observed)
      return fmt::format("{}{{{}}} {}\n", name, labels, in_base_unit(number(value).total, family.unit));
    std::string out;
    uint64_t count = 0;
    // The same bounds each time, from the beginning, or a rate would see what lies below a new one. The last
    // bucket has no end.
    auto bucket = observed->of.buckets.begin();
    for (uint32_t power = 0; power < format::kHistogramRange; power++) {
      const int64_t bound = int64_t{1} << power;
      while (bucket != observed->of.buckets.end() && values::bounds_of(bucket->index).high <= bound)
        count += (bucket++)->count;
      out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, in_base_unit(bound - 1, family.unit),
                         count);
    }
    for (; bucket != observed->of.buckets.end(); ++bucket) count += bucket->count;
    return out + fmt::format("{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n",
                             name, labels, count, in_base_unit(observed->of.sum, family.unit));
  }

  std::string exposition() const {
    std::string text;
    for (const Family& family : families_) {
      text += family.head;
      for (const auto& [labels, value] : family.values) text += lines(family, labels, value);
    }
    if (!overheads_.empty())
      text +=
          "# HELP mdl_inject_overhead_ratio Part of the process's CPU time that its instrumentation takes\n"
          "# TYPE mdl_inject_overhead_ratio gauge\n";
    for (const auto& [pid, overhead] : overheads_)
      text += fmt::format("mdl_inject_overhead_ratio{{pid=\"{}\"}} {:.4f}\n", pid, overhead);
    if (!suspect_.empty())
      text +=
          "# HELP mdl_inject_suspect Values for which exits of functions were missed\n"
          "# TYPE mdl_inject_suspect gauge\n";
    for (const std::string& labels : suspect_) text += fmt::format("mdl_inject_suspect{} 1\n", labels);
    return text;
  }

  static constexpr std::string_view kOwn = "mdl_inject_";  // of values about the measurement itself

  Sink& sink_;
  std::deque<Family> families_;        // in the order in which they came
  std::map<uint32_t, Value*> values_;  // by series
  std::map<pid_t, double> overheads_;
  std::set<std::string> suspect_;  // labels
};

}  // namespace

std::unique_ptr<Consumer> make_prometheus(Sink& sink, const Look&) {
  return std::make_unique<Prometheus>(sink);
}

}  // namespace mdl::output
