#include "runtime/focus/wanted.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/focus/nearest.h"

namespace mdl::focus {
namespace {

bool has_flavor(const format::Metric& metric, const std::string& flavor) {
  return metric.flavors.empty() ||
         std::find(metric.flavors.begin(), metric.flavors.end(), flavor) != metric.flavors.end();
}

bool is_query(const BindOptions& options, const format::Metric& metric) {
  return std::find(options.queries.begin(), options.queries.end(), metric.id) != options.queries.end();
}

bool is_spare(const BindOptions& options, const format::Metric& metric) {
  return std::ranges::find(options.spare, metric.id) != options.spare.end();
}

Result<const format::Metric*> find_metric(const plan::Plan& plan, const std::string& wanted,
                                          const std::string& flavor) {
  const auto& metrics = plan.manifest.metrics;
  const auto metric =
      std::find_if(metrics.begin(), metrics.end(), [&](const auto& m) { return m.id == wanted; });
  if (metric == metrics.end()) {
    std::vector<std::string> known;
    for (const format::Metric& m : metrics) known.push_back(m.id);
    return Error{fmt::format("the plan has no metric `{}`{}", wanted,
                             known.empty() ? std::string("; it has none")
                             : nearest(wanted, known).empty()
                                 ? fmt::format("; it has {}", fmt::join(known, ", "))
                                 : did_you_mean(wanted, known))};
  }
  if (!has_flavor(*metric, flavor))
    return Error{fmt::format("metric `{}` is of flavor {}, not `{}`; select one with --flavor", metric->id,
                             fmt::join(metric->flavors, ", "), flavor)};
  return &*metric;
}

}  // namespace

std::string flavor_of(const BindOptions& options) {
  return options.flavor.empty() ? "unix" : options.flavor;
}

Result<std::vector<WantedMetric>> read_options(const plan::Plan& plan, const BindOptions& options) {
  const std::string flavor = flavor_of(options);
  std::vector<Focus> foci;
  for (const std::string& text : options.foci) {
    auto focus = parse_focus(text);
    if (!focus) return focus.error();
    foci.push_back(std::move(*focus));
  }
  // Where a request names no focus.
  const auto foci_of = [&](const format::Metric& metric) -> Result<std::vector<Focus>> {
    if (!foci.empty()) return foci;
    auto own = parse_focus(metric.focus);
    if (!own)
      return Error{fmt::format("metric `{}`: {}", metric.id, own.error().text), Status::plan_rejected};
    return std::vector<Focus>{std::move(*own)};
  };
  std::vector<WantedMetric> wanted;
  for (const format::Metric& metric : plan.manifest.metrics) {
    if (!is_query(options, metric)) continue;
    auto where = foci_of(metric);
    if (!where) return where.error();
    for (Focus& focus : *where) wanted.push_back({&metric, std::move(focus), true, true});
  }
  for (const std::string& text : options.metrics) {
    const RequestText request = split_request(text);
    auto metric = find_metric(plan, request.metric, flavor);
    if (!metric) return metric.error();
    if (text.find('@') == std::string::npos) {
      auto where = foci_of(**metric);
      if (!where) return where.error();
      for (Focus& focus : *where) wanted.push_back({*metric, std::move(focus), true});
      continue;
    }
    auto focus = parse_focus(request.focus);
    if (!focus) return focus.error();
    wanted.push_back({*metric, std::move(*focus), true});
  }
  if (!options.metrics.empty()) return wanted;
  for (const format::Metric& metric : plan.manifest.metrics) {
    if (!has_flavor(metric, flavor) || is_query(options, metric) || is_spare(options, metric)) continue;
    auto where = foci_of(metric);
    if (!where) return where.error();
    for (Focus& focus : *where) wanted.push_back({&metric, std::move(focus), false});
  }
  return wanted;
}

}  // namespace mdl::focus
