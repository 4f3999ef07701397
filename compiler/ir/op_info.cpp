#include "compiler/ir/op_info.h"

#include <iterator>

namespace mdl::ir {
namespace {

constexpr OpInfo kOps[] = {
#define MDL_OP(id, text, defines, a, b, field) \
  {text, defines != 0, OperandRule::a, OperandRule::b, FieldRule::field},
#include "compiler/ir/ops.def"
#undef MDL_OP
};

uint64_t bits(int64_t value) {
  return static_cast<uint64_t>(value);
}

// Unsigned arithmetic wraps without undefined behaviour; the conversion back is two's
// complement in C++20.
int64_t divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(0 - bits(a));
  return a / b;
}

int64_t extended(int64_t value, int64_t width) {
  const int away = static_cast<int>(64 - (width < 0 ? -width : width));
  const uint64_t top = bits(value) << away;
  return width < 0 ? static_cast<int64_t>(top >> away) : static_cast<int64_t>(top) >> away;
}

}  // namespace

const OpInfo& info(Op op) {
  return kOps[static_cast<size_t>(op)];
}

std::optional<Op> find_op(std::string_view text) {
  for (size_t i = 0; i < std::size(kOps); i++)
    if (kOps[i].text == text) return static_cast<Op>(i);
  return std::nullopt;
}

std::optional<int64_t> evaluate(Op op, int64_t a, int64_t b) {
  switch (op) {
    case Op::copy:
      return a;
    case Op::add:
      return static_cast<int64_t>(bits(a) + bits(b));
    case Op::sub:
      return static_cast<int64_t>(bits(a) - bits(b));
    case Op::mul:
      return static_cast<int64_t>(bits(a) * bits(b));
    case Op::div:
      return divide(a, b);
    case Op::neg:
      return static_cast<int64_t>(0 - bits(a));
    case Op::extend:
      return is_width(b) ? std::optional(extended(a, b)) : std::nullopt;
    case Op::and_:
      return a & b;
    case Op::or_:
      return a | b;
    case Op::xor_:
      return a ^ b;
    case Op::shl:
      return static_cast<int64_t>(bits(a) << (bits(b) & 63));
    case Op::shr:
      return a >> (bits(b) & 63);
    case Op::eq:
      return a == b;
    case Op::ne:
      return a != b;
    case Op::lt:
      return a < b;
    case Op::le:
      return a <= b;
    case Op::gt:
      return a > b;
    case Op::ge:
      return a >= b;
    default:
      return std::nullopt;
  }
}

bool has_effect(Op op) {
  using enum Op;
  return !info(op).defines || op == cpu || op == now || op == error || op == enter_call || op == call ||
         op == kept || op == elapsed || op == stayed;
}

bool is_width(int64_t b) {
  return b == 8 || b == 16 || b == 32 || b == -8 || b == -16 || b == -32;
}

int64_t released(int64_t cell, int64_t amount) {
  int64_t left = static_cast<int64_t>(bits(cell) - bits(amount));
  return left < 0 ? 0 : left;
}

}  // namespace mdl::ir
