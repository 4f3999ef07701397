// Values of binding time: what the expressions of placement trees are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/focus/names.h"

namespace mdl::focus {

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
  std::variant<int64_t, std::string, Procedure, Module, ProcedureName, PointAt, LoopAt, Values> is;
};

template <typename T>
const T* get(const Value& value) {
  return std::get_if<T>(&value.is);
}

// Text of a value that has one; nothing for others.
std::optional<std::string_view> text_of(const Value& value);
// A text that is a whole number.
std::optional<int64_t> to_integer(std::string_view text);
// Floating-point numbers are texts, their shortest ones.
std::optional<double> to_real(const Value& value);
// Nothing for an operator that compares nothing.
std::optional<bool> compare(std::string_view op, double a, double b);
// Binding-time integers wrap, and division by zero is 0, as in code.
int64_t calculate(std::string_view op, int64_t a, int64_t b);

}  // namespace mdl::focus
