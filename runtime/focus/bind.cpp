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
#include "runtime/focus/bind_joined.h"
#include "runtime/focus/bind_keys.h"
#include "runtime/focus/clones.h"
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

// What a metric's own keys are of a focus, such as a mutex.
struct KeyFocus {
  std::string text;
  Focus functions;  // the key that is a function
};

bool has_constraint_of_code(const format::Metric& metric, const Constraints& constraints) {
  const auto is_of_code = [](const format::Constraint& one) {
    return !one.path.empty() && one.path[0] == "Code";
  };
  return std::ranges::any_of(metric.replacements, is_of_code) ||
         std::ranges::any_of(metric.constraints, [&](const std::string& name) {
           const auto known = constraints.find(name);
           return known != constraints.end() && is_of_code(*known->second);
         });
}

// Takes that out of the focus: no code is restricted to it, but the lines are chosen (session/request_values.h). Where
// the key is the function that the code stands in, code stands in no other.
KeyFocus take_keys(const format::Metric& metric, const Constraints& constraints, Focus& focus) {
  KeyFocus out;
  const bool restricts_code = has_constraint_of_code(metric, constraints);
  std::erase_if(focus.resources, [&](const std::vector<std::string>& path) {
    const std::string resource = fmt::format("/{}", fmt::join(path, "/"));
    const auto is_key = [&](std::string_view hierarchy) {
      return resource == hierarchy || resource.starts_with(fmt::format("{}/", hierarchy));
    };
    for (const format::MetricKey& key : metric.keys) {
      if (key.name == format::KeyName::path && restricts_code) continue;
      const auto hierarchies = format::hierarchies_of(key.name);
      const auto of = std::ranges::find_if(hierarchies, is_key);
      if (of == hierarchies.end()) continue;
      if (key.name == format::KeyName::path) out.functions.resources.push_back(path);
      out.text += fmt::format("{}{}{}", out.text.empty() ? "" : ",", resource, resource == *of ? "/*" : "");
      return true;
    }
    return false;
  });
  return out;
}

// The functions that these resources name.
Result<std::vector<Resource>> functions_of_keys(const Focus& functions, const Names& names, bool await) {
  std::vector<Resource> out;
  if (functions.resources.empty()) return out;
  auto foci = resolve(functions, names, await);
  if (!foci) return foci.error();
  for (const ResolvedFocus& one : *foci) out.insert(out.end(), one.resources.begin(), one.resources.end());
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
  if (!plan.parts.empty()) return bind_joined(plan, image, options, codes);
  auto wanted = read_options(plan, options);
  if (!wanted) return wanted.error();
  auto exclusions = Exclusions::make(plan.manifest.excludes);
  if (!exclusions) return exclusions.error();
  const Names names(image, std::move(*exclusions));
  Requests requests(plan, names, options, codes);
  if (auto laid = lay_statements(requests, plan); !laid) return laid.error();
  std::vector<std::string> lost, absent;
  for (WantedMetric& one : *wanted) {
    const KeyFocus keys = take_keys(*one.metric, requests.constraints(), one.focus);
    auto foci = resolve(one.focus, names, options.may_come());
    auto only = functions_of_keys(keys.functions, names, options.may_come());
    if (foci && !only) foci = only.error();
    if (!foci && options.again) lost.push_back(foci.error().text);
    absent.push_back(foci ? "" : foci.error().text);
    if (!foci && (options.again || options.elsewhere)) continue;
    if (!foci) return foci.error();
    for (ResolvedFocus& focus : *foci) {
      if (!keys.text.empty()) focus.text = focus.text.empty() ? keys.text : keys.text + "," + focus.text;
      focus.only = *only;
    }
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
  binding.clones = clones_left_out(binding, names);
  return binding;
}

}  // namespace mdl::focus
