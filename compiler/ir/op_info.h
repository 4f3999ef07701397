// The facts of ops.def as a table, for whoever handles operations without knowing them:
// text form, verifier, passes, register allocation.
#pragma once

#include <optional>
#include <string_view>

#include "compiler/ir/ir.h"

namespace mdl::ir {

enum class OperandRule : uint8_t { N, V, I };                                 // as in ops.def
enum class FieldRule : uint8_t { NONE, CELL, NUMBER, CONST, SYMBOL, LABEL };  // as in ops.def

struct OpInfo {
  std::string_view text;
  bool defines;
  OperandRule a;
  OperandRule b;
  FieldRule field;
};

const OpInfo& info(Op op);
std::optional<Op> find_op(std::string_view text);

// The temporaries that an instruction reads: f(Temp).
template <typename Function>
void each_use(const Inst& inst, Function f) {
  if (inst.a.kind == Operand::Kind::temp) f(static_cast<Temp>(inst.a.value));
  if (inst.b.kind == Operand::Kind::temp) f(static_cast<Temp>(inst.b.value));
}

// Whether an instruction does more than define its temporary, so that it stays when nobody reads that.
bool has_effect(Op op);

// The result of an operation without side effects and inputs besides its operands (copy,
// add .. ge): the one definition of the language's arithmetic, which folding and the
// interpreter share and generated code is tested against. nullopt for others.
std::optional<int64_t> evaluate(Op op, int64_t a, int64_t b);

// The new value of a cell that `release` gives back `amount` of; the cell is above 0.
int64_t released(int64_t cell, int64_t amount);

// Whether `extend` knows this operand b: 8, 16, 32, -8, -16, -32.
bool is_width(int64_t b);

}  // namespace mdl::ir
