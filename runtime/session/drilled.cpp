#include "runtime/session/drilled.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/say.h"
#include "runtime/focus/continuation.h"
#include "runtime/patch/change.h"
#include "runtime/session/callees.h"

namespace mdl::inject {
namespace {

bool changes(const plan::Plan& plan, const focus::BoundSnippet& snippet, focus::CellId value) {
  const auto& uses = plan.stencils[snippet.stencil].info.cells;
  for (size_t i = 0; i < uses.size(); i++)
    if (uses[i].writes && snippet.cells[i] == value) return true;
  return false;
}

// /Code/OBJECT/FUNCTION each: that of the focus, or those in which the metric changes its value.
Result<std::vector<std::string>> functions_of(const output::Drill& drill, const Measured& measured) {
  constexpr size_t kMost = 4;
  if (drill.focus.starts_with("/Code/"))
    return std::vector<std::string>{drill.focus.substr(0, drill.focus.find(",/"))};
  std::set<std::string> found;
  const focus::Binding& binding = measured.binding;
  for (const focus::BoundPoint& point : binding.points)
    for (const focus::BoundSnippet& snippet : point.snippets)
      for (const uint32_t request : snippet.requests)
        if (binding.requests[request].metric == drill.metric &&
            changes(measured.plan(), snippet, binding.requests[request].value))
          found.insert(fmt::format("/Code/{}/{}", point.object->name, point.function->name));
  if (found.size() <= kMost) return std::vector<std::string>(found.begin(), found.end());
  return Error{fmt::format(
      "it stands for {} functions: ask for a line for each (by function), and choose one", found.size())};
}

// Some request of the session's own has a distribution of just that function.
bool has_distribution(const Measured& measured, const std::string& focus) {
  const focus::Binding& binding = measured.binding;
  return std::ranges::any_of(binding.requests, [&](const focus::BoundRequest& request) {
    const format::Metric& metric = *request.definition;
    return !is_of_guest(measured, request.metric) && request.focus == focus &&
           (metric.keys.empty() ? binding.cells[request.value].kind : metric.keyed) ==
               format::CellKind::histogram;
  });
}

}  // namespace

Result<RequestChange> requests_for(const output::Drill& drill, const Measured& measured,
                                   const Measurement& measurement, const SessionOptions& options) {
  using Kind = output::Drill::Kind;
  RequestChange out;
  const auto add = [&](const std::vector<std::string>& metrics, const std::string& focus) {
    for (const std::string& metric : metrics)
      if (const std::string text = focus::request_text(metric, focus); std::ranges::none_of(
              measured.binding.requests, [&](const auto& known) { return focus::text_of(known) == text; }))
        out.add.push_back(text);
  };
  if (drill.kind == Kind::threads) {
    add({drill.metric}, drill.focus.empty() ? "/Thread/*" : drill.focus + ",/Thread/*");
    return out;
  }
  auto functions = functions_of(drill, measured);
  if (!functions) return functions.error();
  if (functions->empty()) return Error{"the functions that it is about are not known"};
  if (drill.kind == Kind::callers) {
    for (const std::string& function : *functions) add(options.drill.by_caller, function);
    return out;
  }
  auto image = image::read_image(measured.image.pid);
  if (!image) return image.error();
  const patch::OriginalMemory original(measurement.memory(), measurement.journal(), image->mappings);
  auto callees = find_callees(*functions, *image, measured.plan(), options.drill.of_callees, original);
  if (!callees) return callees.error();
  for (const BusyFunction& one : callees->refused)
    say(stderr, "left out: {}, which cannot be measured: {}\n", one.focus, one.refused);
  for (const std::string& metric : options.drill.of_callees)
    for (const BusyFunction& one : callees->chosen) add({metric}, one.focus);
  for (const std::string& function : *functions)
    if (!has_distribution(measured, function)) add(options.drill.of_function, function);
  return out;
}

}  // namespace mdl::inject
