#include "mdl-inject/drill_queries.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace mdl::inject {
namespace {

// The patterns are never looked for: a drill names functions in their place.
struct DrillQuery {
  std::string_view query, name;
  std::vector<std::string> DrillMetrics::*role;
};
constexpr DrillQuery kQueries[] = {
    {"calls /Code/busiest/*", "calls", &DrillMetrics::of_callees},
    {"self /Code/busiest/*", "self_time", &DrillMetrics::of_callees},
    {"latency \"*\" by function", "latency", &DrillMetrics::of_function},
    {"calls \"*\" by caller", "calls by caller", &DrillMetrics::by_caller},
    {"latency \"*\" by caller", "latency by caller", &DrillMetrics::by_caller}};

}  // namespace

void ask_for_drills(Options& options) {
  if (options.busiest) options.drill.of_callees = {"calls", "self_time"};  // its own
  for (const DrillQuery& one : kQueries)
    if (!options.busiest || one.role != &DrillMetrics::of_callees)
      options.drill_queries.emplace_back(one.query);
}

// A query that was typed may have such a name already.
void name_drills(plan::Plan& plan, Options& options) {
  std::vector<format::Metric>& metrics = plan.manifest.metrics;
  const auto first = metrics.end() - static_cast<std::ptrdiff_t>(options.drill_queries.size());
  for (auto metric = first; metric != metrics.end(); ++metric) {
    const std::string& compiled = options.drill_queries[static_cast<size_t>(metric - first)];
    const DrillQuery& query = *std::ranges::find(kQueries, compiled, &DrillQuery::query);
    const auto is_taken = [&](const format::Metric& one) { return one.id == query.name; };
    metric->name = query.name;
    metric->id = std::any_of(metrics.begin(), first, is_taken) ? query.query : query.name;
    metric->focus.clear();
    (options.drill.*query.role).push_back(metric->id);
  }
}

}  // namespace mdl::inject
