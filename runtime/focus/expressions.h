// Expressions of binding time, evaluated against a process. They come from a plan, so nothing is assumed of
// them but what the manifest's reader has checked (depth, references); types are checked here, and the
// work is bounded, together with that of the statements around them.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/focus/evaluate.h"
#include "runtime/focus/value.h"

namespace mdl::focus {

class Expressions {
 public:
  explicit Expressions(const Scope& scope) : scope_(scope) {}

  Result<Value> value(const format::Expr& expr);
  Result<bool> truth(const format::Expr& expr);

  // The variable of a foreach, while its body is run.
  void push(std::string_view name, Value value) { variables_.emplace_back(name, std::move(value)); }
  void pop() { variables_.pop_back(); }

  Error wrong(const format::Position& where, const std::string& what) const;
  // An error when all that was done is more than can be.
  Result<void> spend(const format::Position& where, size_t steps);
  // Names that were looked for and are not there, or must not be instrumented, each once.
  std::vector<std::string> take_missing() { return std::move(missing_); }
  // Why one of these registers, which code at the function's entry reads, does not hold the argument that the
  // calling convention has there; "" where it does, or nobody says so. It is asked of functions whose compiler may
  // have moved arguments.
  std::string moved_argument(const Procedure& procedure, image::Registers read);
  // Why an argument that was named since the last question is not known; "" for none.
  std::string take_obstacle() { return std::exchange(obstacle_, {}); }

 private:
  Result<Value> list(const format::Expr& expr);
  Value starts();
  Result<Value> selected(const format::Expr& expr) const;
  Result<Value> field(const format::Expr& expr);
  Result<Value> field_of(const format::Expr& expr, const Value& of);
  static std::vector<uint64_t> places_of(format::PointKind kind, const image::Function& function,
                                         const image::Code& code);
  Result<Value> parts_of(const format::Expr& expr, const Procedure& procedure,
                         std::optional<format::PointKind> kind);
  Result<Value> binary(const format::Expr& expr);
  Result<Value> unary(const format::Expr& expr);
  Result<Value> parameter(const format::Expr& expr);
  Result<PointAt> one_point(const format::Expr& expr);
  Procedure called_at(const PointAt& point) const;
  image::Parameter parameter_at(const PointAt& point, const std::string& name);
  Result<Value> value_type(const format::Expr& expr);
  uint64_t idle_bytes(const Procedure& procedure) const;
  const image::ValueType& declared_type(const Procedure& procedure, int number) const;

  Value all(const std::vector<Procedure>& procedures) const;
  Value usable(const std::vector<Procedure>& procedures, const std::string& name);
  void miss(const std::string& name);

  const Scope& scope_;
  std::vector<std::pair<std::string_view, Value>> variables_;
  std::vector<std::string> missing_;
  std::unordered_set<std::string> missed_;
  std::string obstacle_;
  size_t steps_ = 0;
};

}  // namespace mdl::focus
