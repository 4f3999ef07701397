#include "runtime/focus/expressions.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/arch/description.h"
#include "runtime/focus/exclusion.h"
#include "runtime/focus/name_pattern.h"
#include "runtime/focus/resource.h"
#include "runtime/image/flow_graph.h"

namespace mdl::focus {

using format::Expr;
using format::ExprKind;

namespace {

constexpr size_t kMostSteps = 4'000'000;         // values made and statements run
constexpr size_t kMostStepsInAll = 100'000'000;  // for all requests

}  // namespace

Error Expressions::wrong(const format::Position& where, const std::string& what) const {
  return {fmt::format("{}, line {}: {}", scope_.owner, where.line, what), Status::failed};
}

Result<void> Expressions::spend(const format::Position& where, size_t steps) {
  steps_ += steps;
  if (scope_.steps != nullptr) *scope_.steps += steps;
  const bool is_too_much_in_all = scope_.steps != nullptr && *scope_.steps > kMostStepsInAll;
  if (steps_ <= kMostSteps && !is_too_much_in_all) return {};
  return wrong(where, "its loops are too long for this process");
}

void Expressions::miss(const std::string& name) {
  if (missed_.insert(name).second) missing_.push_back(name);
}

Value Expressions::all(const std::vector<Procedure>& procedures) const {
  Values values;
  values.reserve(procedures.size());
  for (const Procedure& procedure : procedures) values.push_back({procedure});
  return {std::move(values)};
}

// Those that may be instrumented; the others are missing, with the reason.
Value Expressions::usable(const std::vector<Procedure>& procedures, const std::string& name) {
  Values values;
  std::string obstacle;
  for (const Procedure& procedure : procedures) {
    const std::string why = scope_.names.obstacle(procedure);
    if (why.empty()) values.push_back({procedure});
    if (!why.empty()) obstacle = why;
  }
  if (values.empty()) miss(obstacle.empty() ? name : fmt::format("{} ({})", name, obstacle));
  return {std::move(values)};
}

Result<Value> Expressions::list(const Expr& expr) {
  const auto& lists = scope_.plan.manifest.lists;
  const auto found =
      std::find_if(lists.begin(), lists.end(), [&](const auto& l) { return l.name == expr.text; });
  if (found == lists.end()) return wrong(expr.position, fmt::format("there is no list `{}`", expr.text));
  const auto& flavors = found->flavors;
  if (!flavors.empty() && std::find(flavors.begin(), flavors.end(), scope_.flavor) == flavors.end())
    return Value{Values{}};
  Values values;
  for (const std::string& item : found->items) {
    if (found->type == "procedure") {
      std::vector<Procedure> named = scope_.names.named(item);
      if (named.empty() && is_pattern(item)) named = scope_.names.fitting(item);
      const Value functions = usable(named, item);
      for (const Value& function : *get<Values>(functions)) values.push_back(function);
    } else if (found->type == "module") {
      const auto modules = scope_.names.modules_of(item);
      if (modules.empty()) miss(item);
      // Several items may mean one object, whose functions are visited once.
      for (const Module& module : modules)
        if (std::ranges::none_of(values, [&](const Value& one) { return *get<Module>(one) == module; }))
          values.push_back({module});
    } else if (found->type == "int") {
      const auto number = to_integer(item);
      if (!number)
        return wrong(found->position, fmt::format("`{}` in list `{}` is no integer", item, found->name));
      values.push_back({*number});
    } else {
      values.push_back({item});
    }
  }
  return Value{std::move(values)};
}

// main, and the functions that the threads which are there were started with, each once.
Value Expressions::starts() {
  const image::Image& image = scope_.names.image();
  std::vector<Procedure> found = scope_.names.named_in({&image.objects.front(), ""}, "main");
  for (const uint64_t address : scope_.starts) {
    const image::Object* object = image::object_at(image, address);
    const image::Function* function = object ? image::function_at(*object, address) : nullptr;
    if (function) found.push_back({object, function});
  }
  std::vector<Procedure> once;
  for (const Procedure& procedure : found)
    if (std::find(once.begin(), once.end(), procedure) == once.end()) once.push_back(procedure);
  return usable(once, "main");
}

Result<Value> Expressions::selected(const Expr& expr) const {
  const Resource* resource = scope_.selected;
  if (!resource) return wrong(expr.position, "$constraint means nothing here: no resource is selected");
  const size_t components = resource->path.size() - 1;
  if (expr.number < 0 || static_cast<size_t>(expr.number) >= components)
    return wrong(expr.position, fmt::format("{} has no $constraint[{}]", resource->text, expr.number));
  const size_t at = components - static_cast<size_t>(expr.number);  // in path, whose first is the hierarchy
  if (resource->path[0] == "Code") {
    if (at == 2) return all(resource->procedures);
    Values modules;
    for (const Module& module : resource->modules) modules.push_back({module});
    return Value{std::move(modules)};
  }
  if (const auto number = to_integer(resource->path[at])) return Value{*number};
  return Value{resource->path[at]};
}

// A field of a list is the list of its elements' fields: one name may mean several functions.
Result<Value> Expressions::field(const Expr& expr) {
  if (expr.operands.size() != 1) return wrong(expr.position, "a field of nothing");
  auto of = value(expr.operands[0]);
  if (!of) return of;
  const auto* list = get<Values>(*of);
  if (!list) return field_of(expr, *of);
  Values fields;
  for (const Value& element : *list) {
    auto one = field_of(expr, element);
    if (!one) return one;
    if (const auto* several = get<Values>(*one)) {
      fields.insert(fields.end(), several->begin(), several->end());
    } else {
      fields.push_back(std::move(*one));
    }
  }
  if (auto spent = spend(expr.position, fields.size()); !spent) return spent.error();
  return Value{std::move(fields)};
}

Result<Value> Expressions::field_of(const Expr& expr, const Value& of) {
  const std::string& name = expr.text;
  if (const auto* procedure = get<Procedure>(of)) {
    if (name == "name") return Value{ProcedureName{procedure->function}};
    if (name == "module") return Value{Module{procedure->object, ""}};
    const auto point = format::point_field(format::PointOwner::procedure, name);
    if (point && !format::info(*point).many) return Value{PointAt{*procedure, *point}};
    if (point || name == "loops") return parts_of(expr, *procedure, point);
  }
  if (const auto* loop = get<LoopAt>(of)) {
    if (const auto point = format::point_field(format::PointOwner::loop, name))
      return Value{PointAt{loop->procedure, *point, loop->head}};
  }
  if (const auto* module = get<Module>(of)) {
    if (name == "name") return Value{module->source.empty() ? module->object->name : module->source};
    if (name == "funcs") {
      Value functions = all(scope_.names.functions_of(*module));
      if (auto spent = spend(expr.position, get<Values>(functions)->size()); !spent) return spent.error();
      return functions;
    }
  }
  return wrong(expr.position, fmt::format("`{}` is not a field of what stands before it", name));
}

// Where a function has points of a kind of which it has many; 0 where its code is not understood.
std::vector<uint64_t> Expressions::places_of(format::PointKind kind, const image::Function& function,
                                             const image::Code& code) {
  std::vector<uint64_t> out;
  if (kind == format::PointKind::call_before) {
    for (const image::Instruction& in : code.instructions)
      if (in.flow == image::Flow::call || in.flow == image::Flow::call_indirect) out.push_back(in.address);
    if (out.empty() && !code.doubt.empty()) out.push_back(0);
  } else {
    for (const image::Block& block : image::make_flow_graph(function, code).blocks)
      out.push_back(block.start);
    if (out.empty()) out.push_back(0);
  }
  return out;
}

// The loops of a function, or its points of a kind. Where its code is not understood there is one, at no
// place: it will be refused, with the reason.
Result<Value> Expressions::parts_of(const Expr& expr, const Procedure& procedure,
                                    std::optional<format::PointKind> kind) {
  if (!scope_.codes)
    return wrong(expr.position, fmt::format("`{}`: the code of no function is known here", expr.text));
  const image::Code& code = scope_.codes->of(*procedure.object, *procedure.function);
  Values values;
  if (kind) {
    for (const uint64_t place : places_of(*kind, *procedure.function, code))
      values.push_back({PointAt{procedure, *kind, place}});
  } else {
    const image::FlowGraph graph = image::make_flow_graph(*procedure.function, code);
    for (const image::Loop& loop : graph.loops) values.push_back({LoopAt{procedure, loop.head}});
    for (const uint64_t head : graph.irreducible) values.push_back({LoopAt{procedure, head}});
    if (!graph.loop_doubt.empty()) values.push_back({LoopAt{procedure, 0}});
  }
  if (auto spent = spend(expr.position, values.size() + code.instructions.size() / 64); !spent)
    return spent.error();
  return Value{std::move(values)};
}

Result<Value> Expressions::binary(const Expr& expr) {
  if (expr.operands.size() != 2)
    return wrong(expr.position, fmt::format("`{}` needs two operands", expr.text));
  if (expr.text == "&&" || expr.text == "||") {
    auto left = truth(expr.operands[0]);
    if (!left) return left.error();
    if (*left == (expr.text == "||")) return Value{int64_t{*left}};
    auto right = truth(expr.operands[1]);
    if (!right) return right.error();
    return Value{int64_t{*right}};
  }
  auto left = value(expr.operands[0]), right = value(expr.operands[1]);
  if (!left) return left;
  if (!right) return right;
  const Value* sides[] = {&*left, &*right};
  for (const Value*& side : sides)  // a list of one, as $constraint[n] usually is, stands for its element
    if (const auto* list = get<Values>(*side); list && list->size() == 1) side = &list->front();
  const auto *a = get<int64_t>(*sides[0]), *b = get<int64_t>(*sides[1]);
  if (a && b) return Value{calculate(expr.text, *a, *b)};
  const bool equality = expr.text == "==" || expr.text == "!=";
  const auto x = text_of(*sides[0]), y = text_of(*sides[1]);
  if (!x || !y || !equality) {
    const auto left_real = to_real(*sides[0]), right_real = to_real(*sides[1]);
    const auto truth = left_real && right_real ? compare(expr.text, *left_real, *right_real) : std::nullopt;
    if (truth) return Value{int64_t{*truth}};
    return wrong(expr.position, fmt::format("`{}` cannot be applied to these operands", expr.text));
  }
  bool equal = *x == *y;
  if (const auto* name = get<ProcedureName>(*sides[0])) equal = equal || image::matches(*name->function, *y);
  if (const auto* name = get<ProcedureName>(*sides[1])) equal = equal || image::matches(*name->function, *x);
  return Value{int64_t{equal == (expr.text == "==")}};
}

Result<Value> Expressions::unary(const Expr& expr) {
  if (expr.operands.size() != 1)
    return wrong(expr.position, fmt::format("`{}` needs one operand", expr.text));
  auto of = value(expr.operands[0]);
  if (!of) return of;
  const auto* number = get<int64_t>(*of);
  const auto real = to_real(*of);
  if (!number && real && expr.text == "-") return Value{fmt::format("{}", 0.0 - *real)};
  if (!number) return wrong(expr.position, fmt::format("`{}` needs a number", expr.text));
  if (expr.text == "!") return Value{int64_t{*number == 0}};
  if (expr.text == "~") return Value{~*number};
  return Value{calculate("-", 0, *number)};
}

// The function that a call goes to; none where that is not known before it runs, or lies in another object.
Procedure Expressions::called_at(const PointAt& point) const {
  Procedure of;
  const image::Code* code =
      scope_.codes ? &scope_.codes->of(*point.procedure.object, *point.procedure.function) : nullptr;
  for (const image::Instruction& in : code ? code->instructions : std::vector<image::Instruction>()) {
    if (in.address != point.place || in.flow != image::Flow::call) continue;
    of.object = image::object_at(scope_.names.image(), in.target);
    of.function = of.object ? image::function_at(*of.object, in.target) : nullptr;
    if (of.function && of.function->address != in.target) of.function = nullptr;
  }
  return of;
}

// How many bytes at the beginning of a function do nothing.
uint64_t Expressions::idle_bytes(const Procedure& procedure) const {
  if (!scope_.codes || !procedure.object->is_trimmed) return 0;  // GCC describes all instructions
  const image::Code& code = scope_.codes->of(*procedure.object, *procedure.function);
  uint64_t end = procedure.function->address;
  for (const image::Instruction& in : code.instructions) {
    if (in.address > end || (in.address == end && !in.is_landing && !in.is_padding)) break;
    if (in.address == end) end += in.size;
  }
  return end - procedure.function->address;
}

const image::ValueType& Expressions::declared_type(const Procedure& procedure, int number) const {
  return scope_.names.debug_info().value_type(
      *procedure.object, *procedure.function, [&] { return idle_bytes(procedure); }, number);
}

image::Parameter Expressions::parameter_at(const PointAt& point, const std::string& name) {
  image::Parameter unknown;
  unknown.why = "names of arguments are known at entries and calls only";
  Procedure of = point.procedure;
  if (point.kind == format::PointKind::call_before) {
    unknown.why = "which function it calls is not known before it runs";
    of = called_at(point);
  } else if (point.kind != format::PointKind::entry) {
    return unknown;
  }
  if (!of.function) return unknown;
  image::Parameter found = scope_.names.debug_info().parameter(
      *of.object, *of.function, [&] { return idle_bytes(of); }, name);
  if (found.number < 0)
    found.why = fmt::format("$args.{} is not known in {}: {}", name, of.function->name, found.why);
  return found;
}

// The point that the expression's operand is.
Result<PointAt> Expressions::one_point(const Expr& expr) {
  if (expr.operands.size() != 1) return wrong(expr.position, "names of arguments mean nothing here");
  auto of = value(expr.operands[0]);
  if (!of) return of.error();
  const Value* one = &*of;
  if (const auto* list = get<Values>(*of); list && list->size() == 1) one = &list->front();
  const auto* point = get<PointAt>(*one);
  if (!point) return wrong(expr.position, "names of arguments belong to one point");
  return *point;
}

Result<Value> Expressions::parameter(const Expr& expr) {
  const auto point = one_point(expr);
  if (!point) return point.error();
  const image::Parameter found = parameter_at(*point, expr.text);
  if (found.number < 0 && obstacle_.empty()) obstacle_ = found.why;
  switch (static_cast<format::ParameterFact>(expr.number)) {
    case format::ParameterFact::place:
      return Value{int64_t{found.number}};
    case format::ParameterFact::mask:
      return Value{static_cast<int64_t>(found.mask)};
    case format::ParameterFact::sign:
      return Value{static_cast<int64_t>(found.sign)};
  }
  return wrong(expr.position, "a fact of an argument that is not known");
}

// The text is "$return" or "$arg[n]": the plan's reader has checked it.
Result<Value> Expressions::value_type(const Expr& expr) {
  const auto point = one_point(expr);
  if (!point) return point.error();
  const bool at_call = point->kind == format::PointKind::call_before;
  const Procedure of = at_call ? called_at(*point) : point->procedure;
  const int number = expr.text == "$return" ? image::kResult : expr.text.at(5) - '0';
  image::ValueType type;
  if (of.function) type = declared_type(of, number);
  if (!type.why.empty() && obstacle_.empty())
    obstacle_ = fmt::format("{} is not known in {}: {}", expr.text, of.function->name, type.why);
  const bool mask = expr.number == static_cast<int64_t>(format::ParameterFact::mask);
  return Value{static_cast<int64_t>(mask ? type.mask : type.sign)};
}

std::string Expressions::moved_argument(const Procedure& procedure, image::Registers read) {
  if (!procedure.function) return {};
  const bool may_move = procedure.function->is_local && procedure.object->is_trimmed;
  const bool has_own = is_ocaml(*procedure.function);
  const auto& registers = arch::kMachine.arguments;
  for (size_t n = 0; (may_move || has_own) && n < registers.size(); n++) {
    if ((read & image::register_bit(registers[n])) == 0) continue;
    if (has_own) return "OCaml passes arguments in registers of its own: $arg[n] is another one, or none";
    const image::ValueType& type = declared_type(procedure, static_cast<int>(n));
    if (!type.why.empty())
      return fmt::format("$arg[{}] is not known in {}: {}", n, procedure.function->name, type.why);
  }
  return {};
}

Result<bool> Expressions::truth(const Expr& expr) {
  auto condition = value(expr);
  if (!condition) return condition.error();
  const auto* number = get<int64_t>(*condition);
  if (!number) return wrong(expr.position, "a condition must be a number");
  return *number != 0;
}

Result<Value> Expressions::value(const Expr& expr) {
  if (auto spent = spend(expr.position, 1); !spent) return spent.error();
  switch (expr.kind) {
    case ExprKind::string:
      return Value{expr.text};
    case ExprKind::integer:
      return Value{expr.number};
    case ExprKind::list:
      return list(expr);
    case ExprKind::procedures:
      if (auto spent = spend(expr.position, scope_.names.procedures().size()); !spent) return spent.error();
      return all(scope_.names.procedures());
    case ExprKind::modules: {
      Values objects;
      for (const Module& module : scope_.names.modules()) objects.push_back({module});
      return Value{std::move(objects)};
    }
    case ExprKind::exit:
      return usable(scope_.names.named("exit"), "exit");
    case ExprKind::machine:
      return Value{host_name()};
    case ExprKind::start:
      return starts();
    case ExprKind::global_id:
      return Value{int64_t{scope_.names.image().pid}};
    case ExprKind::points:
      return wrong(expr.position, "$points can only be where code is placed");
    case ExprKind::cost:
      return wrong(expr.position, "$cost is known only in code, and as it is");
    case ExprKind::variable:
      for (auto variable = variables_.rbegin(); variable != variables_.rend(); ++variable)
        if (variable->first == expr.text) return variable->second;
      return wrong(expr.position, fmt::format("there is no variable `{}`", expr.text));
    case ExprKind::selected:
      return selected(expr);
    case ExprKind::field:
      return field(expr);
    case ExprKind::binary:
      return binary(expr);
    case ExprKind::unary:
      return unary(expr);
    case ExprKind::parameter:
      return parameter(expr);
    case ExprKind::value_type:
      return value_type(expr);
  }
  return wrong(expr.position, "an expression of a kind that is not known");
}

}  // namespace mdl::focus
