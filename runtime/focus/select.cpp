#include "runtime/focus/select.h"

#include <fmt/format.h>

#include <algorithm>

namespace mdl::focus {
namespace {

bool covers(const std::vector<std::string>& path, const std::vector<std::string>& resource, bool prefix) {
  if (prefix ? path.size() > resource.size() : path.size() != resource.size()) return false;
  for (size_t i = 0; i < path.size(); ++i)
    if (path[i] != "*" && path[i] != resource[i]) return false;
  return true;
}

Error missing(const format::Metric& metric, const Resource& resource) {
  std::string path = "/" + resource.path[0];
  for (size_t i = 1; i < resource.path.size(); ++i)
    path += resource.path[0] == "SyncObject" && i == 1 ? "/" + resource.path[i] : "/*";
  return {
      fmt::format("metric `{}` cannot be restricted to {}: it has no constraint for {}; add one to its "
                  "definition (`constraint NAME;`, where NAME is a `constraint NAME {} is counter "
                  "{{...}}`)",
                  metric.id, resource.text, path, path)};
}

}  // namespace

Result<Selections> select(const format::Metric& metric, const ResolvedFocus& focus,
                          const Constraints& constraints) {
  Selections out;
  for (const Resource& resource : focus.resources) {
    bool found = false;
    for (const format::Constraint& inline_constraint : metric.replacements) {
      if (found || !covers(inline_constraint.path, resource.path, inline_constraint.is_default)) continue;
      if (out.replacement.constraint)
        return Error{fmt::format("metric `{}` has two replacements that {} selects; ask for one resource",
                                 metric.id, focus.text)};
      out.replacement = {0, &inline_constraint, &resource};
      found = true;
    }
    for (size_t i = 0; i < metric.constraints.size() && !found; ++i) {
      const auto constraint = constraints.find(metric.constraints[i]);
      if (constraint == constraints.end()) continue;
      if (!covers(constraint->second->path, resource.path, constraint->second->is_default)) continue;
      found = true;
      if (!constraint->second->is_default) out.constraints.push_back({i, constraint->second, &resource});
    }
    if (!found) return missing(metric, resource);
  }
  std::stable_sort(out.constraints.begin(), out.constraints.end(),
                   [](const Selection& a, const Selection& b) { return a.order < b.order; });
  return out;
}

bool has_constrained_code(const std::vector<format::Placement>& statements) {
  return std::any_of(statements.begin(), statements.end(), [](const format::Placement& statement) {
    return statement.kind == format::PlacementKind::insert ? statement.constrained
                                                           : has_constrained_code(statement.body);
  });
}

}  // namespace mdl::focus
