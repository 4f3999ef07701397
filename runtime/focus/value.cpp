#include "runtime/focus/value.h"

#include <charconv>

namespace mdl::focus {

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

std::optional<double> to_real(const Value& value) {
  if (const auto* number = get<int64_t>(value)) return static_cast<double>(*number);
  const auto text = text_of(value);
  if (!text) return std::nullopt;
  double real = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), real);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return real;
}

std::optional<bool> compare(std::string_view op, double a, double b) {
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  if (op == ">") return a > b;
  if (op == ">=") return a >= b;
  return std::nullopt;
}

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

}  // namespace mdl::focus
