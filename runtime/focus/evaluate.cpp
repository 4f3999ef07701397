// A tree walk over values. The trees come from a plan, so nothing is assumed of them but what
// the manifest's reader has checked (depth, references); types are checked here, and the
// work is bounded: loops over all procedures may be nested.
#include "runtime/focus/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_set>
#include <variant>

#include "runtime/focus/resource.h"
#include "runtime/image/flow_graph.h"

namespace mdl::focus {
namespace {

using format::Expr;
using format::ExprKind;
using format::Placement;
using format::PlacementKind;

constexpr size_t kMostSteps = 4'000'000;  // values made and statements run

struct Value;
using Values = std::vector<Value>;
struct ProcedureName {  // f.name: equal to every way to write the function's name
  const image::Function* function;
};
struct PointAt {
  Procedure procedure;
  format::PointKind kind;
  uint64_t place = 0;
};
struct LoopAt {
  Procedure procedure;
  uint64_t head;
};
struct Value {
  std::variant<int64_t, std::string, Procedure, const image::Object*, ProcedureName, PointAt, LoopAt, Values>
      is;
};

template <typename T>
const T* get(const Value& value) {
  return std::get_if<T>(&value.is);
}

// Text of a value that has one; nothing for others.
std::optional<std::string_view> text_of(const Value& value) {
  if (const auto* text = get<std::string>(value)) return *text;
  if (const auto* name = get<ProcedureName>(value)) return name->function->name;
  return std::nullopt;
}

std::optional<int64_t> to_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Binding-time integers wrap, and division by zero is 0, as in code.
int64_t calculate(std::string_view op, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  if (op == "+") return static_cast<int64_t>(ua + ub);
  if (op == "-") return static_cast<int64_t>(ua - ub);
  if (op == "*") return static_cast<int64_t>(ua * ub);
  if (op == "/") return b == 0 ? 0 : b == -1 ? static_cast<int64_t>(0 - ua) : a / b;
  if (op == "%") return b == 0 ? a : b == -1 ? 0 : a % b;
  if (op == "&") return a & b;
  if (op == "|") return a | b;
  if (op == "^") return a ^ b;
  if (op == "<<") return static_cast<int64_t>(ua << (ub & 63));
  if (op == ">>") return a >> (ub & 63);
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  if (op == ">") return a > b;
  return a >= b;
}

class Evaluator {
 public:
  explicit Evaluator(const Scope& scope) : scope_(scope) {}

  Result<void> run(const std::vector<Placement>& statements);
  Evaluation take() { return std::move(result_); }

  Result<Value> selected(const Expr& expr) const;

 private:
  Error wrong(const format::Position& where, const std::string& what) const {
    return {fmt::format("{}, line {}: {}", scope_.owner, where.line, what), Status::failed};
  }
  Result<void> spend(const format::Position& where, size_t steps) {
    steps_ += steps;
    if (steps_ <= kMostSteps) return {};
    return wrong(where, "its loops are too long for this process");
  }

  Result<void> run(const Placement& statement);
  Result<void> loop(const Placement& statement);
  Result<void> insert(const Placement& statement);
  Result<void> insert_at(const Placement& statement, const Value& point);
  Result<std::vector<int64_t>> constants(const Placement& statement);

  Result<Value> value(const Expr& expr);
  Result<Value> list(const Expr& expr);
  Value starts();
  Result<Value> field(const Expr& expr);
  Result<Value> field_of(const Expr& expr, const Value& of);
  Result<Value> parts_of(const Expr& expr, const Procedure& procedure);
  Result<Value> binary(const Expr& expr);
  Result<Value> unary(const Expr& expr);
  Result<bool> truth(const Expr& expr);

  Value all(const std::vector<Procedure>& procedures) const;
  Value usable(const std::vector<Procedure>& procedures, const std::string& name);
  void miss(const std::string& name);

  const Scope& scope_;
  Evaluation result_;
  std::vector<std::pair<std::string_view, Value>> variables_;
  std::unordered_set<std::string> missed_;
  size_t steps_ = 0;
};

void Evaluator::miss(const std::string& name) {
  if (missed_.insert(name).second) result_.missing.push_back(name);
}

Value Evaluator::all(const std::vector<Procedure>& procedures) const {
  Values values;
  values.reserve(procedures.size());
  for (const Procedure& procedure : procedures) values.push_back({procedure});
  return {std::move(values)};
}

// Those that may be instrumented; the others are missing, with the reason.
Value Evaluator::usable(const std::vector<Procedure>& procedures, const std::string& name) {
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

Result<Value> Evaluator::list(const Expr& expr) {
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
      const Value functions = usable(scope_.names.named(item), item);
      for (const Value& function : *get<Values>(functions)) values.push_back(function);
    } else if (found->type == "module") {
      const auto objects = scope_.names.objects_named(item);
      if (objects.empty()) miss(item);
      for (const image::Object* object : objects) values.push_back({object});
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
Value Evaluator::starts() {
  const image::Image& image = scope_.names.image();
  std::vector<Procedure> found = scope_.names.named_in(image.objects.front(), "main");
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

Result<Value> Evaluator::selected(const Expr& expr) const {
  const Resource* resource = scope_.selected;
  if (!resource) return wrong(expr.position, "$constraint means nothing here: no resource is selected");
  const size_t components = resource->path.size() - 1;
  if (expr.number < 0 || static_cast<size_t>(expr.number) >= components)
    return wrong(expr.position, fmt::format("{} has no $constraint[{}]", resource->text, expr.number));
  const size_t at = components - static_cast<size_t>(expr.number);  // in path, whose first is the hierarchy
  if (resource->path[0] == "Code") {
    if (at == 2) return all(resource->procedures);
    Values objects;
    for (const image::Object* object : resource->objects) objects.push_back({object});
    return Value{std::move(objects)};
  }
  if (const auto number = to_integer(resource->path[at])) return Value{*number};
  return Value{resource->path[at]};
}

// A field of a list is the list of its elements' fields: one name may mean several functions.
Result<Value> Evaluator::field(const Expr& expr) {
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

Result<Value> Evaluator::field_of(const Expr& expr, const Value& of) {
  const std::string& name = expr.text;
  if (const auto* procedure = get<Procedure>(of)) {
    if (name == "name") return Value{ProcedureName{procedure->function}};
    if (name == "entry") return Value{PointAt{*procedure, format::PointKind::entry}};
    if (name == "return") return Value{PointAt{*procedure, format::PointKind::return_}};
    if (name == "module") return Value{procedure->object};
    if (name == "calls" || name == "loops" || name == "blocks") return parts_of(expr, *procedure);
  }
  if (const auto* loop = get<LoopAt>(of)) {
    if (name == "enter") return Value{PointAt{loop->procedure, format::PointKind::loop_enter, loop->head}};
    if (name == "exit") return Value{PointAt{loop->procedure, format::PointKind::loop_exit, loop->head}};
    if (name == "start_iter")
      return Value{PointAt{loop->procedure, format::PointKind::loop_start, loop->head}};
    if (name == "end_iter") return Value{PointAt{loop->procedure, format::PointKind::loop_end, loop->head}};
  }
  if (const auto* object = get<const image::Object*>(of)) {
    if (name == "name") return Value{(*object)->name};
    if (name == "funcs") {
      Value functions = all(scope_.names.functions_of(**object));
      if (auto spent = spend(expr.position, get<Values>(functions)->size()); !spent) return spent.error();
      return functions;
    }
  }
  return wrong(expr.position, fmt::format("`{}` is not a field of what stands before it", name));
}

// The call sites, loops and blocks of a function. Where its code is not understood there is one of
// each, at no place: it will be refused, with the reason.
Result<Value> Evaluator::parts_of(const Expr& expr, const Procedure& procedure) {
  if (!scope_.codes)
    return wrong(expr.position, fmt::format("`{}`: the code of no function is known here", expr.text));
  const image::Code& code = scope_.codes->of(*procedure.object, *procedure.function);
  Values values;
  if (expr.text == "calls") {
    for (const image::Instruction& in : code.instructions)
      if (in.flow == image::Flow::call || in.flow == image::Flow::call_indirect)
        values.push_back({PointAt{procedure, format::PointKind::call_before, in.address}});
    if (values.empty() && !code.doubt.empty())
      values.push_back({PointAt{procedure, format::PointKind::call_before, 0}});
  } else {
    const image::FlowGraph graph = image::make_flow_graph(*procedure.function, code);
    if (expr.text == "blocks") {
      for (const image::Block& block : graph.blocks)
        values.push_back({PointAt{procedure, format::PointKind::block, block.start}});
      if (values.empty()) values.push_back({PointAt{procedure, format::PointKind::block, 0}});
    } else {
      for (const image::Loop& loop : graph.loops) values.push_back({LoopAt{procedure, loop.head}});
      for (const uint64_t head : graph.irreducible) values.push_back({LoopAt{procedure, head}});
      if (!graph.loop_doubt.empty()) values.push_back({LoopAt{procedure, 0}});
    }
  }
  if (auto spent = spend(expr.position, values.size() + code.instructions.size() / 64); !spent)
    return spent.error();
  return Value{std::move(values)};
}

Result<Value> Evaluator::binary(const Expr& expr) {
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
  if (!x || !y || !equality)
    return wrong(expr.position, fmt::format("`{}` cannot be applied to these operands", expr.text));
  bool equal = *x == *y;
  if (const auto* name = get<ProcedureName>(*sides[0])) equal = equal || image::matches(*name->function, *y);
  if (const auto* name = get<ProcedureName>(*sides[1])) equal = equal || image::matches(*name->function, *x);
  return Value{int64_t{equal == (expr.text == "==")}};
}

Result<Value> Evaluator::unary(const Expr& expr) {
  if (expr.operands.size() != 1)
    return wrong(expr.position, fmt::format("`{}` needs one operand", expr.text));
  auto of = value(expr.operands[0]);
  if (!of) return of;
  const auto* number = get<int64_t>(*of);
  if (!number) return wrong(expr.position, fmt::format("`{}` needs a number", expr.text));
  if (expr.text == "!") return Value{int64_t{*number == 0}};
  if (expr.text == "~") return Value{~*number};
  return Value{calculate("-", 0, *number)};
}

Result<bool> Evaluator::truth(const Expr& expr) {
  auto condition = value(expr);
  if (!condition) return condition.error();
  const auto* number = get<int64_t>(*condition);
  if (!number) return wrong(expr.position, "a condition must be a number");
  return *number != 0;
}

Result<Value> Evaluator::value(const Expr& expr) {
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
      for (const image::Object* object : scope_.names.modules()) objects.push_back({object});
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
  }
  return wrong(expr.position, "an expression of a kind that is not known");
}

Result<void> Evaluator::insert_at(const Placement& statement, const Value& point) {
  const auto* at = get<PointAt>(point);
  if (!at) return wrong(statement.position, "code can be inserted at points only, such as f.entry");
  if (statement.stencil >= scope_.plan.stencils.size())
    return wrong(statement.position, "its code is not in the plan");
  format::PointKind kind = at->kind;
  if (statement.when == format::When::post) {
    if (kind != format::PointKind::call_before)
      return wrong(statement.position, fmt::format("postInsn means nothing at {} points: it is for calls",
                                                   format::info(kind).name));
    kind = format::PointKind::call_after;
  }
  if (scope_.plan.stencils[statement.stencil].info.point != kind)
    return wrong(statement.position,
                 fmt::format("its code is not made for {} points", format::info(kind).name));
  auto numbers = constants(statement);
  if (!numbers) return numbers.error();
  result_.insertions.push_back({at->procedure, kind, at->place, statement.stencil, statement.order,
                                statement.constrained, std::move(*numbers)});
  return {};
}

Result<std::vector<int64_t>> Evaluator::constants(const Placement& statement) {
  std::vector<int64_t> numbers;
  for (const Expr& expr : scope_.plan.stencils[statement.stencil].info.constants) {
    auto of = value(expr);
    if (!of) return of.error();
    const Value* one = &*of;
    if (const auto* list = get<Values>(*of); list && list->size() == 1) one = &list->front();
    if (const auto* number = get<int64_t>(*one))
      numbers.push_back(*number);
    else if (const auto* procedure = get<Procedure>(*one))
      numbers.push_back(static_cast<int64_t>(procedure->function->address));
    else
      return wrong(statement.position, "a value that its code needs is no number for this focus");
  }
  return numbers;
}

Result<void> Evaluator::insert(const Placement& statement) {
  auto point = value(statement.expr);
  if (!point) return point.error();
  const auto* points = get<Values>(*point);
  if (!points) return insert_at(statement, *point);
  for (const Value& one : *points)
    if (auto inserted = insert_at(statement, one); !inserted) return inserted;
  return {};
}

Result<void> Evaluator::loop(const Placement& statement) {
  auto over = value(statement.expr);
  if (!over) return over.error();
  const auto* list = get<Values>(*over);
  if (!list) return wrong(statement.position, "foreach needs a list");
  if (auto spent = spend(statement.position, list->size()); !spent) return spent;
  std::unordered_set<const image::Function*> seen;
  for (const Value& element : *list) {
    if (const auto* procedure = get<Procedure>(element))
      if (!seen.insert(procedure->function).second) continue;
    variables_.emplace_back(statement.variable, element);
    auto ran = run(statement.body);
    variables_.pop_back();
    if (!ran) return ran;
  }
  return {};
}

Result<void> Evaluator::run(const Placement& statement) {
  if (auto spent = spend(statement.position, 1); !spent) return spent;
  switch (statement.kind) {
    case PlacementKind::block:
      return run(statement.body);
    case PlacementKind::foreach_:
      return loop(statement);
    case PlacementKind::if_: {
      auto condition = truth(statement.expr);
      if (!condition) return condition.error();
      if (!*condition) return {};
      return run(statement.body);
    }
    case PlacementKind::insert:
      return insert(statement);
  }
  return wrong(statement.position, "a statement of a kind that is not known");
}

Result<void> Evaluator::run(const std::vector<Placement>& statements) {
  for (const Placement& statement : statements)
    if (auto ran = run(statement); !ran) return ran;
  return {};
}

}  // namespace

Result<Evaluation> evaluate(const Scope& scope, const std::vector<Placement>& statements) {
  Evaluator evaluator(scope);
  if (auto ran = evaluator.run(statements); !ran) return ran.error();
  return evaluator.take();
}

}  // namespace mdl::focus
