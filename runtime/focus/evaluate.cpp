// A walk over statements; expressions.h evaluates what they say.
#include "runtime/focus/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "runtime/focus/expressions.h"

namespace mdl::focus {
namespace {

using format::Expr;
using format::Placement;
using format::PlacementKind;

// The functions that are asked for, all of them where no resource says which.
class AskedFor {
 public:
  explicit AskedFor(std::span<const Resource> only) : all_(only.empty()) {
    for (const Resource& resource : only) {
      for (const Procedure& one : resource.procedures) functions_.insert(one.function);
      if (resource.procedures.empty())
        for (const Module& module : resource.modules) objects_.insert(module.object);
    }
  }
  bool has(const Procedure& one) const {
    return all_ || functions_.contains(one.function) || objects_.contains(one.object);
  }

 private:
  bool all_;
  std::unordered_set<const image::Function*> functions_;
  std::unordered_set<const image::Object*> objects_;
};

class Evaluator {
 public:
  explicit Evaluator(const Scope& scope) : scope_(scope), asked_for_(scope.only), expressions_(scope) {}

  Result<void> run(const std::vector<Placement>& statements);
  Evaluation take() {
    result_.missing = expressions_.take_missing();
    return std::move(result_);
  }

 private:
  Result<void> run(const Placement& statement);
  Result<void> loop(const Placement& statement);
  Result<void> insert(const Placement& statement);
  Result<void> insert_at(const Placement& statement, const Value& point);
  Result<void> place(const Placement& statement, const Procedure& at, format::PointKind kind, uint64_t place);
  Result<std::vector<int64_t>> constants(const Placement& statement);

  const Scope& scope_;
  AskedFor asked_for_;
  Expressions expressions_;
  std::string obstacle_;  // of the conditions around what is placed
  Evaluation result_;
};

Result<std::vector<int64_t>> Evaluator::constants(const Placement& statement) {
  std::vector<int64_t> numbers;
  expressions_.take_obstacle();
  for (const Expr& expr : scope_.plan.stencils[statement.stencil].info.constants) {
    if (expr.kind == format::ExprKind::cost) {
      numbers.push_back(0);  // every_point.h
      continue;
    }
    auto of = expressions_.value(expr);
    if (!of) return of.error();
    const Value* one = &*of;
    if (const auto* list = get<Values>(*of); list && list->size() == 1) one = &list->front();
    if (const auto* number = get<int64_t>(*one))
      numbers.push_back(*number);
    else if (const auto* procedure = get<Procedure>(*one))
      numbers.push_back(static_cast<int64_t>(procedure->function->address));
    else if (const auto* module = get<Module>(*one); module && !module->object->text.empty())
      numbers.push_back(static_cast<int64_t>(module->object->text.front().start));
    else
      return expressions_.wrong(statement.position,
                                "a value that its code needs is no number for this focus");
  }
  return numbers;
}

Result<void> Evaluator::insert_at(const Placement& statement, const Value& point) {
  const auto* at = get<PointAt>(point);
  if (!at)
    return expressions_.wrong(statement.position, "code can be inserted at points only, such as f.entry");
  format::PointKind kind = at->kind;
  if (statement.when == format::When::post) {
    if (kind != format::PointKind::call_before)
      return expressions_.wrong(
          statement.position,
          fmt::format("postInsn means nothing at {} points: it is for calls", format::info(kind).name));
    kind = format::PointKind::call_after;
  }
  return place(statement, at->procedure, kind, at->place);
}

Result<void> Evaluator::place(const Placement& statement, const Procedure& at, format::PointKind kind,
                              uint64_t place) {
  if (!asked_for_.has(at)) return {};
  if (statement.stencil >= scope_.plan.stencils.size())
    return expressions_.wrong(statement.position, "its code is not in the plan");
  if (scope_.plan.stencils[statement.stencil].info.point != kind)
    return expressions_.wrong(statement.position,
                              fmt::format("its code is not made for {} points", format::info(kind).name));
  auto numbers = constants(statement);
  if (!numbers) return numbers.error();
  std::string obstacle = expressions_.take_obstacle();
  if (obstacle.empty()) obstacle = obstacle_;
  if (obstacle.empty() && kind == format::PointKind::entry)
    obstacle = expressions_.moved_argument(at, scope_.plan.stencils[statement.stencil].read);
  result_.insertions.push_back({.at = at,
                                .kind = kind,
                                .place = place,
                                .stencil = statement.stencil,
                                .order = statement.order,
                                .constrained = statement.constrained,
                                .constants = std::move(*numbers),
                                .obstacle = std::move(obstacle)});
  return {};
}

Result<void> Evaluator::insert(const Placement& statement) {
  if (statement.expr.kind == format::ExprKind::points)
    return place(statement, Procedure(), format::PointKind::every, 0);
  auto point = expressions_.value(statement.expr);
  if (!point) return point.error();
  const auto* points = get<Values>(*point);
  if (!points) return insert_at(statement, *point);
  for (const Value& one : *points)
    if (auto inserted = insert_at(statement, one); !inserted) return inserted;
  return {};
}

Result<void> Evaluator::loop(const Placement& statement) {
  auto over = expressions_.value(statement.expr);
  if (!over) return over.error();
  if (get<PointAt>(*over)) over = Value{Values{*over}};
  const auto* list = get<Values>(*over);
  if (!list) return expressions_.wrong(statement.position, "foreach needs a list");
  if (auto spent = expressions_.spend(statement.position, list->size()); !spent) return spent;
  std::unordered_set<const image::Function*> seen;
  for (const Value& element : *list) {
    if (const auto* procedure = get<Procedure>(element))
      if (!asked_for_.has(*procedure) || !seen.insert(procedure->function).second) continue;
    expressions_.push(statement.variable, element);
    auto ran = run(statement.body);
    expressions_.pop();
    if (!ran) return ran;
  }
  return {};
}

Result<void> Evaluator::run(const Placement& statement) {
  if (auto spent = expressions_.spend(statement.position, 1); !spent) return spent;
  switch (statement.kind) {
    case PlacementKind::block:
      return run(statement.body);
    case PlacementKind::foreach_:
      return loop(statement);
    case PlacementKind::if_: {
      expressions_.take_obstacle();
      auto condition = expressions_.truth(statement.expr);
      if (!condition) return condition.error();
      if (!*condition) {
        result_.guarded_out = true;
        return {};
      }
      // Code that was chosen by a value's type needs the value.
      std::string met = expressions_.take_obstacle();
      const std::string outside = obstacle_;
      if (obstacle_.empty()) obstacle_ = std::move(met);
      auto ran = run(statement.body);
      obstacle_ = outside;
      return ran;
    }
    case PlacementKind::insert:
      return insert(statement);
  }
  return expressions_.wrong(statement.position, "a statement of a kind that is not known");
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
