// Statements and conditions of code, and what a snippet that calls the application needs around it.
//
// A snippet that is reached again from inside its own call does nothing. So nothing may be changed
// before it is known that the call can be entered: the cell of the call is entered before the first
// change, and if that is not where the call stands, the whole snippet is entered at its beginning and
// left at its end. Otherwise entering is left to where the call is, which may never be reached.
#include "compiler/sema/lower.h"

#include <algorithm>

#include "compiler/ir/op_info.h"
#include "compiler/sema/known.h"
#include "compiler/sema/lowering.h"

namespace mdl::sema {
namespace {

using ir::Inst;
using ir::Op;
using ir::Operand;

bool changes(const ast::Expr& e);
bool changes(const ast::ExprPtr& e) {
  return changes(*e);
}

// Whether an expression does anything besides having a value.
bool changes(const ast::Expr& e) {
  return std::visit(ast::Overloaded{
                        [](const ast::Assign&) { return true; },
                        [](const ast::Step&) { return true; },
                        [](const ast::Call& c) {
                          auto* callee = std::get_if<ast::NameUse>(&c.callee->node);
                          bool reads =
                              callee && (callee->text == "readSymbol" || callee->text == "readAddress" ||
                                         is_conversion(callee->text));
                          return !reads || std::any_of(c.args.begin(), c.args.end(),
                                                       [](const ast::Expr& arg) { return changes(arg); });
                        },
                        [](const ast::Unary& u) { return changes(u.operand); },
                        [](const ast::Binary& b) { return changes(b.left) || changes(b.right); },
                        [](const auto&) { return false; },
                    },
                    e.node);
}

bool is_change(Op op) {
  return op == Op::store || op == Op::add_cell || op == Op::release || op == Op::start_timer ||
         op == Op::stop_timer || op == Op::sample_event || op == Op::update;
}

// Whether a path leads to a change before a call is entered. Control flow goes forward only: when a
// label is reached, all jumps to it have been seen.
bool changes_before_entering(const ir::Snippet& snippet) {
  constexpr char kEntered = 1, kNotEntered = 2;
  std::vector<char> at_label(snippet.labels, 0);
  char state = kNotEntered;
  for (const Inst& inst : snippet.insts) {
    if (inst.op == Op::enter_call) state = state != 0 ? kEntered : 0;
    if (is_change(inst.op) && (state & kNotEntered) != 0) return true;
    if (inst.op == Op::label) state |= at_label[inst.index];
    if (inst.op == Op::jump || inst.op == Op::jump_zero) at_label[inst.index] |= state;
    if (inst.op == Op::jump) state = 0;
  }
  return false;
}

// From entering at each call, which lowering does, to entering at the beginning.
void enter_at_beginning(ir::Snippet& snippet, uint32_t end) {
  std::vector<Inst> insts;
  for (size_t at = 0; at < snippet.insts.size(); at++) {
    const Inst& inst = snippet.insts[at];
    if (inst.op == Op::enter_call) {
      if (insts.empty() || insts[0].op != Op::enter_call) {
        const Inst entering[] = {inst, snippet.insts[at + 1]};
        insts.insert(insts.begin(), std::begin(entering), std::end(entering));
      }
      at++;  // the jump_zero behind it
      continue;
    }
    if (inst.op == Op::leave_call) continue;
    if (inst.op == Op::label && inst.index == end)
      insts.push_back({Op::leave_call, ir::kNoTemp, {}, {}, insts[0].index});
    insts.push_back(inst);
  }
  snippet.insts = std::move(insts);
}

}  // namespace

ir::Snippet Lowering::finish() {
  if (end_) {
    place(*end_);
    if (changes_before_entering(snippet_)) enter_at_beginning(snippet_, *end_);
  }
  if (!asked_.empty()) {
    check_asked();
    begin_with_asked();
  }
  return std::move(snippet_);
}

// An entry is taken away in any case, whatever the code decides. Where nobody knows the first, there is nothing to do,
// and nothing more to say. What a lost one leaves in other cells the next entry at its place replaces.
void Lowering::begin_with_asked() {
  const uint32_t unknown = new_label();
  std::vector<Inst> asking;
  for (const Asked& one : asked_) {
    const uint32_t of = cell(one.cell);
    const ir::Temp known = snippet_.temps++;
    if (one.kept != nullptr || one.of_cpu) asking.push_back({Op::kept, one.value, {}, {}, of});
    asking.push_back({one.of_cpu || one.of_self ? Op::stayed : Op::elapsed, one.elapsed, {}, {}, of});
    asking.push_back({Op::ge, known, Operand::temp(one.elapsed), Operand::imm(0), 0});
    asking.push_back({Op::jump_zero, ir::kNoTemp, Operand::temp(known), {}, unknown});
    if (!one.of_cpu) continue;
    const ir::Temp now = snippet_.temps++;
    asking.push_back({Op::cpu, now, {}, {}, 0});
    asking.push_back({Op::sub, one.spent, Operand::temp(now), Operand::temp(one.value), 0});
  }
  snippet_.insts.insert(snippet_.insts.begin(), asking.begin(), asking.end());
  place(unknown);
}

// A flag that one frame in two lowers means nothing, nor does such a timer.
void Lowering::check_asked() {
  for (const Inst& inst : snippet_.insts) {
    if (ir::info(inst.op).field != ir::FieldRule::CELL || ir::info(inst.op).defines) continue;
    const format::Cell& cell = snippet_.cells[inst.index];
    if (!format::is_raised(cell.kind)) continue;
    diagnostics_.report(DiagnosticCode::entry_not_known, asked_[0].span, cell.name)
        .hint("a counter can be: the entry of a call from before the attach is not known");
    return;
  }
}

// Code at the entry for what code at the return asks.
void Lowering::note(const Asked& asked) {
  Operand held = asked.of_cpu ? emit(Op::cpu) : Operand::imm(0);
  if (asked.kept != nullptr) {
    is_converted_ = asked.is_converted;
    held = value(*asked.kept);
    is_converted_ = false;
  }
  effect(Op::enter, held, cell(asked.cell));
}

void Lowering::stand(const Asked& asked, bool begins) {
  effect(begins ? Op::pause : Op::resume, Operand::none(), cell(asked.cell));
}

// --- Instructions ---

Operand Lowering::emit(Op op, Operand a, Operand b, uint32_t index) {
  ir::Temp dst = snippet_.temps++;
  snippet_.insts.push_back({op, dst, a, b, index});
  return Operand::temp(dst);
}

// The index in the snippet of a cell of the owner.
uint32_t Lowering::cell(uint32_t of_owner) {
  for (uint32_t i = 0; i < used_.size(); i++)
    if (used_[i] == of_owner) return i;
  used_.push_back(of_owner);
  snippet_.cells.push_back(owner_.cells[of_owner]);
  return static_cast<uint32_t>(used_.size() - 1);
}

// --- Code ---

void Lowering::code(const ast::CodeStatement& c) {
  std::visit(ast::Overloaded{
                 [&](const ast::ExprCode& statement) {
                   if (!changes(statement.expr))
                     diagnostics_.report(DiagnosticCode::unused_value, statement.expr.span);
                   expr(statement.expr, Use::effect);
                 },
                 [&](const ast::BlockCode& block) {
                   for (const ast::CodeStatement& inner : block.body) code(inner);
                 },
                 [&](const ast::IfCode& branch) {
                   warn_if_decided(branch.condition, diagnostics_);
                   uint32_t otherwise = new_label();
                   jump_if_false(branch.condition, otherwise);
                   code(*branch.then);
                   if (!branch.otherwise) return place(otherwise);
                   uint32_t end = new_label();
                   effect(Op::jump, Operand::none(), end);
                   place(otherwise);
                   code(*branch.otherwise);
                   place(end);
                 },
             },
             c.node);
}

void Lowering::jump_if_false(const ast::Expr& e, uint32_t label) {
  auto* b = std::get_if<ast::Binary>(&e.node);
  if (b != nullptr && b->op == ast::BinaryOp::and_) {
    jump_if_false(*b->left, label);
    jump_if_false(*b->right, label);
  } else if (b != nullptr && b->op == ast::BinaryOp::or_) {
    uint32_t right = new_label();
    uint32_t met = new_label();
    jump_if_false(*b->left, right);
    effect(Op::jump, Operand::none(), met);
    place(right);
    jump_if_false(*b->right, label);
    place(met);
  } else {
    const size_t errors = diagnostics_.errors();
    const Operand asked = value(e);
    const auto* assign = std::get_if<ast::Assign>(&e.node);
    if (assign && assign->op == ast::AssignOp::set && errors == diagnostics_.errors())
      diagnostics_.report(DiagnosticCode::assigned_condition, e.span)
          .hint("'==' compares")
          .edit(assign->op_span, "==");
    effect(Op::jump_zero, asked, label);
  }
}

Lowered lower(const std::vector<ast::CodeStatement>& code, Owner& owner, format::PointKind point,
              Binder& binder, Diagnostics& diagnostics) {
  Lowering lowering(owner, point, binder, diagnostics);
  for (const ast::CodeStatement& c : code) lowering.code(c);
  Lowered result{.snippet = lowering.finish(), .entry = {}, .before = {}, .after = {}};
  if (lowering.asked().empty()) return result;
  Lowering entry(owner, format::PointKind::entry, binder, diagnostics);
  for (const Lowering::Asked& asked : lowering.asked()) entry.note(asked);
  result.entry = entry.finish();
  const auto own = std::ranges::find_if(lowering.asked(), &Lowering::Asked::of_self);
  if (own == lowering.asked().end()) return result;
  Lowering before(owner, format::PointKind::call_before, binder, diagnostics);
  Lowering after(owner, format::PointKind::call_after, binder, diagnostics);
  before.stand(*own, true);
  after.stand(*own, false);
  result.before = before.finish();
  result.after = after.finish();
  return result;
}

}  // namespace mdl::sema
