// The intermediate representation of one snippet (the code between `(*` and `*)`).
//
// Flat: a snippet is a vector of small instructions; operands are immediates or typed
// indices of temporaries. Control flow goes forward only (jump, jump_zero, label), so
// every snippet ends and its longest path is its cost. A temporary may be written on
// several paths (that is how && and || merge), but is written before it is read on each.
//
// sema lowers code to this (compiler/sema/lower.h), the passes rewrite it
// (compiler/passes/), the verifier checks it after each (verify.h), the interpreter gives
// its meaning and is the oracle of generated code (interpret.h), text.h prints and parses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/manifest.h"

namespace mdl::ir {

enum class Op : uint8_t {
#define MDL_OP(id, text, defines, a, b, field) id,
#include "compiler/ir/ops.def"
#undef MDL_OP
};

using Temp = uint32_t;
inline constexpr Temp kNoTemp = UINT32_MAX;

struct Operand {
  enum class Kind : uint8_t { none, temp, immediate };
  Kind kind = Kind::none;
  int64_t value = 0;  // the temporary's index, or the immediate

  static Operand none() { return {}; }
  static Operand temp(Temp t) { return {Kind::temp, static_cast<int64_t>(t)}; }
  static Operand imm(int64_t v) { return {Kind::immediate, v}; }
  bool operator==(const Operand&) const = default;
};
inline bool is_imm(const Operand& operand) {
  return operand.kind == Operand::Kind::immediate;
}
inline bool is_imm(const Operand& operand, int64_t value) {
  return is_imm(operand) && operand.value == value;
}

struct Inst {
  Op op = Op::copy;
  Temp dst = kNoTemp;
  Operand a;
  Operand b;
  uint32_t index = 0;  // cell, number, constant, symbol or label, as ops.def says
  bool operator==(const Inst&) const = default;
};

struct Snippet {
  std::string name;  // becomes the stencil's symbol: <owner>_<point>
  format::PointKind point = format::PointKind::entry;
  std::vector<format::Cell> cells;         // cells of the owner that the code names
  std::vector<format::Expr> constants;     // that the code names; a function means its address
  std::vector<format::SymbolUse> symbols;  // of the application, that the code names
  std::vector<Inst> insts;
  uint32_t temps = 0;   // number of temporaries
  uint32_t labels = 0;  // number of labels
  format::Position position;
  bool operator==(const Snippet&) const = default;
};

}  // namespace mdl::ir
