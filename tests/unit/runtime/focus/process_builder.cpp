#include "tests/unit/runtime/focus/process_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <stdexcept>

namespace mdl::focus::test {

using namespace format;

image::Image process(const std::vector<std::string>& objects) {
  image::Image image;
  image.pid = 4711;
  uint64_t address = 0x400000;
  for (const std::string& line : objects) {
    image::Object object;
    const size_t colon = line.find(':');
    object.name = line.substr(0, colon);
    object.is_main = image.objects.empty();
    object.is_loader = object.name == "ld.so";
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word; address += 16) {
      image::Function function;
      std::istringstream parts(word);
      std::getline(parts, function.name, '=');
      for (std::string alias; std::getline(parts, alias, '=');) function.aliases.push_back(alias);
      function.is_ifunc = function.name.starts_with("ifunc_");
      function.address = address;
      function.size = 16;
      object.functions.list().push_back(std::move(function));
    }
    address += 0x100000;
    image.objects.own().push_back(std::move(object));
  }
  return image;
}

const image::Function& function(const image::Image& image, const std::string& object,
                                const std::string& name) {
  for (const image::Object& o : image.objects)
    for (const image::Function& f : o.functions)
      if (o.name == object && f.name == name) return f;
  throw std::out_of_range(name);
}

namespace {
Expr make(ExprKind kind, const std::string& text = "", int64_t number = 0, std::vector<Expr> operands = {}) {
  return {kind, text, number, std::move(operands), {0, 7, 1}};
}
}  // namespace

Expr variable(const std::string& name) {
  return make(ExprKind::variable, name);
}
Expr list(const std::string& name) {
  return make(ExprKind::list, name);
}
Expr text(const std::string& value) {
  return make(ExprKind::string, value);
}
Expr number(int64_t value) {
  return make(ExprKind::integer, "", value);
}
Expr procedures() {
  return make(ExprKind::procedures);
}
Expr modules() {
  return make(ExprKind::modules);
}
Expr selected(int64_t n) {
  return make(ExprKind::selected, "", n);
}
Expr field(Expr of, const std::string& name) {
  return make(ExprKind::field, name, 0, {std::move(of)});
}
Expr binary(Expr left, const std::string& op, Expr right) {
  return make(ExprKind::binary, op, 0, {std::move(left), std::move(right)});
}

Placement foreach_(const std::string& variable, Expr list, std::vector<Placement> body) {
  Placement placement;
  placement.kind = PlacementKind::foreach_;
  placement.variable = variable;
  placement.expr = std::move(list);
  placement.body = std::move(body);
  placement.position.line = 7;
  return placement;
}
Placement if_(Expr condition, std::vector<Placement> body) {
  Placement placement;
  placement.kind = PlacementKind::if_;
  placement.expr = std::move(condition);
  placement.body = std::move(body);
  return placement;
}
Placement append(Expr point, uint32_t stencil) {
  Placement placement;
  placement.kind = PlacementKind::insert;
  placement.expr = std::move(point);
  placement.stencil = stencil;
  placement.position.line = 8;
  return placement;
}
Placement prepend(Expr point, uint32_t stencil) {
  Placement placement = append(std::move(point), stencil);
  placement.order = Order::prepend;
  return placement;
}
Placement constrained(Placement placement) {
  placement.constrained = true;
  return placement;
}

uint32_t PlanMaker::stencil(const std::string& name, PointKind point, const std::string& cell, CellKind kind,
                            uint32_t constants) {
  StencilInfo info;
  info.name = name;
  info.point = point;
  info.cells = {{cell, kind, true, true}};
  for (uint32_t n = 0; n < constants; n++) {
    format::Expr selected;
    selected.kind = format::ExprKind::selected;
    selected.number = n;
    info.constants.push_back(selected);
  }
  plan.manifest.stencils.push_back(info);
  plan.stencils.push_back({info, {}, {}});
  return static_cast<uint32_t>(plan.stencils.size() - 1);
}

Metric& PlanMaker::metric(const std::string& id, std::vector<Placement> placement,
                          std::vector<std::string> constraints) {
  Metric metric;
  metric.id = id;
  metric.flavors = {"unix"};
  metric.cells = {{id, CellKind::counter}};
  metric.placement = std::move(placement);
  metric.constraints = std::move(constraints);
  plan.manifest.metrics.push_back(std::move(metric));
  return plan.manifest.metrics.back();
}

void PlanMaker::procedure_constraint() {
  Constraint constraint;
  constraint.name = "procedure";
  constraint.path = {"Code", "*", "*"};
  constraint.cells = {{"procedure", CellKind::flag}};
  const uint32_t enter = stencil("procedure_entry", PointKind::entry, "procedure", CellKind::flag);
  const uint32_t leave = stencil("procedure_return", PointKind::return_, "procedure", CellKind::flag);
  constraint.placement = {append(field(selected(0), "entry"), enter),
                          prepend(field(selected(0), "return"), leave)};
  plan.manifest.constraints.push_back(std::move(constraint));
}

void PlanMaker::module_constraint() {
  Constraint constraint;
  constraint.name = "module";
  constraint.path = {"Code", "*"};
  constraint.cells = {{"module", CellKind::flag}};
  const uint32_t enter = stencil("module_entry", PointKind::entry, "module", CellKind::flag);
  const uint32_t leave = stencil("module_return", PointKind::return_, "module", CellKind::flag);
  constraint.placement = {foreach_(
      "f", field(selected(0), "funcs"),
      {append(field(variable("f"), "entry"), enter), prepend(field(variable("f"), "return"), leave)})};
  plan.manifest.constraints.push_back(std::move(constraint));
}

void PlanMaker::list(const std::string& name, const std::string& type, std::vector<std::string> items) {
  ResourceList list;
  list.name = name;
  list.type = type;
  list.items = std::move(items);
  plan.manifest.lists.push_back(std::move(list));
}

PlanMaker standard() {
  PlanMaker maker;
  const uint32_t calls = maker.stencil("calls_entry", format::PointKind::entry, "calls");
  const uint32_t returns = maker.stencil("returns_return", format::PointKind::return_, "returns");
  maker.procedure_constraint();
  maker.module_constraint();
  maker.metric("calls",
               {foreach_("f", procedures(), {constrained(append(field(variable("f"), "entry"), calls))})},
               {"procedure", "module"});
  maker.metric("returns",
               {foreach_("f", procedures(), {constrained(prepend(field(variable("f"), "return"), returns))})},
               {"procedure", "module"});
  return maker;
}

std::string why(const plan::Plan& plan, const image::Image& image, const BindOptions& options) {
  const auto binding = bind(plan, image, options);
  return binding ? "" : binding.error().text;
}

std::string code_at(const Binding& binding, const plan::Plan& plan, const std::string& function,
                    PointKind kind) {
  std::string code;
  for (const BoundPoint& point : binding.points) {
    if (point.function->name != function || point.kind != kind) continue;
    for (const BoundSnippet& snippet : point.snippets) {
      if (!code.empty()) code += ' ';
      code += fmt::format("{}[{}]", plan.stencils[snippet.stencil].info.name, fmt::join(snippet.cells, ","));
      if (!snippet.guards.empty()) code += fmt::format("{{{}}}", fmt::join(snippet.guards, ","));
    }
  }
  return code;
}

}  // namespace mdl::focus::test
