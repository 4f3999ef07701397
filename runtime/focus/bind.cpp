// Requests to bindings.
//
// Each request is evaluated by itself (constraints in the metric's order, then the base) and
// then laid onto the points: append after what is there, prepend before it.
//
// A request whose metric was not named is left out when the process has none of the
// procedures that it looks for; one that was named is then an error.
//
// Manifest::statements are laid first, so that they run before what requests add at the same point. All that
// such code can do is call the application: what does not call is not laid. It belongs to no request.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/focus/bind_alone.h"
#include "runtime/focus/bind_children.h"
#include "runtime/focus/bind_keys.h"
#include "runtime/focus/every_point.h"
#include "runtime/focus/request.h"

namespace mdl::focus {
namespace {

Result<void> bind_foci(Requests& requests, const WantedMetric& wanted, std::vector<ResolvedFocus> foci) {
  if (std::none_of(foci.begin(), foci.end(), has_keys)) {
    auto others = bind_children(requests, wanted, std::move(foci));
    if (!others) return others.error();
    foci = std::move(*others);
  }
  for (const ResolvedFocus& focus : foci) {
    auto bound = has_keys(focus) ? bind_keys(requests, wanted, focus)
                                 : bind_alone(requests, wanted, focus, foci.size());
    if (!bound) return bound;
  }
  return {};
}

// Code outside metrics. A list of it that this process has nothing of is dropped like any other.
Result<void> lay_statements(Requests& requests, const plan::Plan& plan) {
  const Scope scope = requests.scope(nullptr, "code outside metrics");
  auto code = evaluate(scope, plan.manifest.statements);
  if (!code) return code.error();
  std::erase_if(code->insertions, [&](const Insertion& insertion) {
    return plan.stencils[insertion.stencil].info.cells.empty();
  });
  if (code->insertions.empty()) return {};
  Cells cells;
  for (const format::Cell& c : plan.manifest.statement_cells)
    cells.emplace_back(c.name, requests.draft().cell(c, c.name));
  return requests.lay(code->insertions, scope.owner, cells, {}, Draft::kNoInstance, std::nullopt);
}

// Takes out of the focus what the metric's own keys are, such as a mutex: no code is restricted to it, but the lines are
// chosen (session/request_values.h). Its text.
std::string take_keys(const format::Metric& metric, Focus& focus) {
  std::string out;
  std::erase_if(focus.resources, [&](const std::vector<std::string>& path) {
    const std::string resource = fmt::format("/{}", fmt::join(path, "/"));
    const auto is_key = [&](std::string_view hierarchy) {
      return resource == hierarchy || resource.starts_with(fmt::format("{}/", hierarchy));
    };
    for (const format::MetricKey& key : metric.keys) {
      const auto hierarchies = format::hierarchies_of(key.name);
      const auto of = std::ranges::find_if(hierarchies, is_key);
      if (of == hierarchies.end()) continue;
      out += fmt::format("{}{}{}", out.empty() ? "" : ",", resource, resource == *of ? "/*" : "");
      return true;
    }
    return false;
  });
  return out;
}

bool names_start(const format::Expr& expr) {
  return expr.kind == format::ExprKind::start ||
         std::any_of(expr.operands.begin(), expr.operands.end(),
                     [](const format::Expr& operand) { return names_start(operand); });
}

bool names_start(const std::vector<format::Placement>& statements) {
  return std::any_of(statements.begin(), statements.end(), [](const format::Placement& statement) {
    return names_start(statement.expr) || names_start(statement.body);
  });
}

}  // namespace

bool uses_start(const format::Manifest& manifest) {
  const auto constraint = [](const format::Constraint& c) { return names_start(c.placement); };
  return names_start(manifest.statements) ||
         std::any_of(manifest.constraints.begin(), manifest.constraints.end(), constraint) ||
         std::any_of(manifest.metrics.begin(), manifest.metrics.end(), [&](const format::Metric& metric) {
           return names_start(metric.placement) ||
                  std::any_of(metric.replacements.begin(), metric.replacements.end(), constraint);
         });
}

Result<Binding> bind(const plan::Plan& plan, const image::Image& image, const BindOptions& options,
                     image::Codes* codes) {
  auto wanted = read_options(plan, options);
  if (!wanted) return wanted.error();
  auto exclusions = Exclusions::make(plan.manifest.excludes);
  if (!exclusions) return exclusions.error();
  const Names names(image, std::move(*exclusions));
  Requests requests(plan, names, options, codes);
  if (auto laid = lay_statements(requests, plan); !laid) return laid.error();
  std::vector<std::string> lost, absent;
  for (WantedMetric& one : *wanted) {
    const std::string keys = take_keys(*one.metric, one.focus);
    auto foci = resolve(one.focus, names, options.may_come());
    if (!foci && options.again) lost.push_back(foci.error().text);
    absent.push_back(foci ? "" : foci.error().text);
    if (!foci && (options.again || options.elsewhere)) continue;
    if (!foci) return foci.error();
    if (!keys.empty())
      for (ResolvedFocus& focus : *foci) focus.text = focus.text.empty() ? keys : keys + "," + focus.text;
    if (auto bound = bind_foci(requests, one, std::move(*foci)); !bound) return bound.error();
  }
  if (requests.draft().next() == 0 && !options.elsewhere) {
    if (requests.left_out()) return *requests.left_out();
    if (!lost.empty()) return Error{lost.front()};
    return Error{fmt::format("the plan has no metric of flavor `{}`", flavor_of(options))};
  }
  const std::vector<EverySnippet> every = requests.draft().take_every();
  Binding binding = requests.draft().take();
  binding.lost = std::move(lost);
  binding.absent = std::move(absent);
  if (auto laid = lay_everywhere(plan, every, options.ps_per_cycle, binding); !laid) return laid.error();
  return binding;
}

}  // namespace mdl::focus
