#include "compiler/passes/keyed_constraints.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compiler/ir/op_info.h"
#include "compiler/passes/constant_fold.h"

namespace mdl::passes {
namespace {

using format::Expr;
using format::ExprKind;
using format::KeyChange;
using format::Placement;
using format::PlacementKind;
using ir::Inst;
using ir::Op;
using ir::Operand;

bool is_key(const Expr& expr) {
  return expr.kind == ExprKind::selected && expr.number == 0;
}
bool mentions_key(const Expr& expr) {
  return is_key(expr) || std::any_of(expr.operands.begin(), expr.operands.end(), mentions_key);
}

// One snippet on its way to its keyed form.
class Rewriter {
 public:
  Rewriter(const ir::Snippet& snippet, const std::string& flag) : snippet_(snippet), flag_(flag) {}

  // Why it cannot be; "" when it can.
  std::string check() {
    for (size_t at = 0; at < snippet_.insts.size(); at++) {
      const Inst& inst = snippet_.insts[at];
      if (inst.op == Op::constant && mentions_key(snippet_.constants[inst.index])) {
        if (!is_key(snippet_.constants[inst.index])) return "it computes with $constraint[0]";
        keys_.push_back(inst.dst);
      }
      if (ir::info(inst.op).field != ir::FieldRule::CELL) continue;
      if (snippet_.cells[inst.index].name != flag_) return "it uses other cells than its flag";
      if (inst.op == Op::load) continue;
      if (inst.op != Op::store && inst.op != Op::add_cell && inst.op != Op::release)
        return "it does more than change its flag";
      if (change_) return "a piece of its code changes the flag twice";
      change_ = at;
    }
    if (!change_) return "a piece of its code does not change the flag";
    std::string wrong = find_comparison();
    if (wrong.empty()) wrong = find_change();
    if (wrong.empty()) wrong = check_loads();
    return wrong;
  }

  bool raises() const { return what_ == KeyChange::raise || what_ == KeyChange::set; }

  // Cell 0 is the key, cell 1 the change.
  ir::Snippet rewritten(const std::vector<format::Cell>& cells) const {
    ir::Snippet out = snippet_;
    out.name += ".keys";
    out.cells = cells;
    out.insts.clear();
    for (Expr& constant : out.constants)
      if (is_key(constant)) constant = {};  // no code reads it any more
    for (size_t at = 0; at < snippet_.insts.size(); at++) {
      const Inst& inst = snippet_.insts[at];
      const Operand one = Operand::imm(1);
      if (comparison_ == at) {
        out.insts.push_back({Op::store, ir::kNoTemp, key_value(inst), Operand::none(), 0});
        out.insts.push_back({Op::copy, inst.dst, one, Operand::none(), 0});
      } else if (change_ == at) {
        out.insts.push_back(
            {Op::store, ir::kNoTemp, Operand::imm(static_cast<int64_t>(what_)), Operand::none(), 1});
      } else if (inst.op == Op::load || is_key_constant(inst)) {
        out.insts.push_back({Op::copy, inst.dst, one, Operand::none(), 0});
      } else {
        out.insts.push_back(inst);
      }
    }
    return out;
  }

 private:
  bool is_key_constant(const Inst& inst) const {
    return inst.op == Op::constant && is_key(snippet_.constants[inst.index]);
  }
  bool is_key_temp(const Operand& operand) const {
    return operand.kind == Operand::Kind::temp &&
           std::find(keys_.begin(), keys_.end(), static_cast<ir::Temp>(operand.value)) != keys_.end();
  }
  Operand key_value(const Inst& comparison) const {
    return is_key_temp(comparison.a) ? comparison.b : comparison.a;
  }
  size_t writes(ir::Temp temp) const {
    return static_cast<size_t>(
        std::count_if(snippet_.insts.begin(), snippet_.insts.end(),
                      [&](const Inst& i) { return ir::info(i.op).defines && i.dst == temp; }));
  }

  // The one instruction that reads $constraint[0], which must be a comparison.
  std::string find_comparison() {
    for (const ir::Temp key : keys_)
      if (writes(key) != 1) return "$constraint[0] is one of several values";
    for (size_t at = 0; at < snippet_.insts.size(); at++) {
      const Inst& inst = snippet_.insts[at];
      if (!is_key_temp(inst.a) && !is_key_temp(inst.b)) continue;
      if (inst.op != Op::eq || (is_key_temp(inst.a) && is_key_temp(inst.b)))
        return "$constraint[0] is used other than by `==`";
      if (comparison_) return "a piece of its code compares with $constraint[0] twice";
      comparison_ = at;
    }
    return "";
  }

  // One walk forward: on which branches of the comparison each instruction is reached.
  std::string find_change() {
    constexpr unsigned kBefore = 1, kEqual = 2, kOther = 4;
    std::vector<unsigned> at_label(snippet_.labels, 0);
    unsigned here = kBefore;
    std::optional<ir::Temp> truth;
    if (comparison_) truth = snippet_.insts[*comparison_].dst;
    if (truth && writes(*truth) != 1) return "its comparison with $constraint[0] is one of several values";
    for (size_t at = 0; at < snippet_.insts.size(); at++) {
      const Inst& inst = snippet_.insts[at];
      const bool branches = truth && inst.a == Operand::temp(*truth);
      if (branches && inst.op != Op::jump_zero)
        return "its comparison with $constraint[0] is used as a value";
      if (inst.op == Op::label) here |= at_label[inst.index];
      if (at == change_) return decide(here == kBefore, here == kEqual);
      if (inst.op == Op::jump) at_label[inst.index] |= here;
      if (inst.op == Op::jump_zero) at_label[inst.index] |= branches ? kOther : here;
      if (branches) here = kEqual;
      if (inst.op == Op::jump) here = 0;
    }
    return "";
  }

  std::string decide(bool all, bool one) {
    if (!all && !one) return "it changes the flag where it is open whether the key is $constraint[0]";
    const Inst& inst = snippet_.insts[*change_];
    if (inst.op == Op::add_cell && inst.a == Operand::imm(1))
      what_ = KeyChange::raise;
    else if (inst.op == Op::store && inst.a == Operand::imm(1))
      what_ = KeyChange::set;
    else if (inst.op == Op::release && inst.a == Operand::imm(1))
      what_ = one ? KeyChange::lower_key : KeyChange::lower_all;
    else if (inst.op == Op::store && inst.a == Operand::imm(0))
      what_ = one ? KeyChange::clear_key : KeyChange::clear_all;
    else
      return "it changes the flag other than by = 1, += 1, -= 1 and = 0";
    if (all && raises()) return "it raises the flag for every key at once";
    return "";
  }

  // A flag that is lowered is up: that is all that code may ask.
  std::string check_loads() const {
    for (const Inst& load : snippet_.insts) {
      if (load.op != Op::load) continue;
      if (raises() || writes(load.dst) != 1) return "it raises the flag depending on what it is";
      for (const Inst& inst : snippet_.insts) {
        if (inst.a != Operand::temp(load.dst) && inst.b != Operand::temp(load.dst)) continue;
        bool asks = inst.op == Op::jump_zero ||
                    ((inst.op == Op::gt || inst.op == Op::ne) && inst.b == Operand::imm(0)) ||
                    (inst.op == Op::ge && inst.b == Operand::imm(1));
        if (!asks) return "it asks more of the flag than whether it is above 0";
      }
    }
    return "";
  }

  const ir::Snippet& snippet_;
  const std::string& flag_;
  std::vector<ir::Temp> keys_;  // that hold $constraint[0]
  std::optional<size_t> comparison_, change_;
  KeyChange what_ = KeyChange::none;
};

class Maker {
 public:
  Maker(Program& program, format::Constraint& constraint) : program_(program), constraint_(constraint) {}

  void run() {
    cells_ = {{constraint_.name + ".key", format::CellKind::counter},
              {constraint_.name + ".change", format::CellKind::counter}};
    std::vector<Placement> placement = constraint_.placement;
    std::string why = rewrite(placement);
    if (why.empty() && !raises_) why = "it never compares a value with $constraint[0] to raise its flag";
    if (!why.empty()) {
      constraint_.not_keyed = why;
      return;
    }
    constraint_.key_cells = cells_;
    constraint_.key_placement = std::move(placement);
    for (ir::Snippet& snippet : made_) program_.snippets.push_back(std::move(snippet));
  }

 private:
  std::string rewrite(std::vector<Placement>& statements) {
    for (Placement& statement : statements) {
      if (mentions_key(statement.expr)) return "where its code goes depends on $constraint[0]";
      if (statement.kind != PlacementKind::insert) {
        if (std::string why = rewrite(statement.body); !why.empty()) return why;
        continue;
      }
      Rewriter rewriter(program_.snippets[statement.stencil], constraint_.name);
      if (std::string why = rewriter.check(); !why.empty())
        return fmt::format("{} (line {})", why, statement.position.line);
      raises_ = raises_ || rewriter.raises();
      made_.push_back(rewriter.rewritten(cells_));
      constant_fold(made_.back());  // the comparison is gone
      statement.stencil = static_cast<uint32_t>(program_.snippets.size() + made_.size() - 1);
    }
    return "";
  }

  Program& program_;
  format::Constraint& constraint_;
  std::vector<format::Cell> cells_;
  std::vector<ir::Snippet> made_;
  bool raises_ = false;
};

}  // namespace

void keyed_constraints(Program& program) {
  for (format::Constraint& constraint : program.manifest.constraints) {
    const bool keyed = constraint.path.size() > 1 && constraint.path[0] != "Code" &&
                       constraint.path.back() == "*" && !constraint.is_default;
    if (keyed) Maker(program, constraint).run();
  }
}

}  // namespace mdl::passes
