// Code to IR.
//
// A counter must never lose a count to a signal handler that counts too, so `c += e` is
// one operation (add_cell), not load, add, store; a constraint's own flag goes down by
// `release`, which stops at zero. Where such an expression's value is used, the cell is
// read beside it. && and || jump, so that what stands right of them runs only if it must;
// in a condition they jump straight to where the condition leads.
#include "compiler/sema/lower.h"

#include <algorithm>
#include <limits>

#include "compiler/ir/verify.h"
#include "compiler/sema/calls.h"

namespace mdl::sema {
namespace {

using ir::Inst;
using ir::Op;
using ir::Operand;

constexpr size_t kMaxArguments = 6;  // of $arg: what every target passes in registers

class Lowering {
 public:
  Lowering(const Owner& owner, format::PointKind point, Binder& binder, Diagnostics& diagnostics)
      : owner_(owner), binder_(binder), diagnostics_(diagnostics) {
    snippet_.point = point;
  }

  void code(const ast::Code& c);
  ir::Snippet take() { return std::move(snippet_); }

 private:
  enum class Use : uint8_t { value, effect };

  // --- Values ---
  Operand value(const ast::Expr& e) { return expr(e, Use::value); }
  Operand expr(const ast::Expr& e, Use use);
  Operand name(Span span, const std::string& name);
  Operand index(const ast::Expr& e, const ast::Index& index);
  Operand selected(Span span, uint32_t n);
  Operand constant(format::Expr expr);
  Operand unary(const ast::Expr& e, const ast::Unary& u);
  Operand binary(const ast::Expr& e, const ast::Binary& b);
  Operand remainder(Operand a, Operand b);
  Operand short_circuit(const ast::Binary& b);
  Operand not_a_value(Span span, std::string_view what);
  Operand not_yet_extension(Span span, std::string_view name);
  Operand binding_value(const ast::Expr& e);
  Operand call(const ast::Expr& e, const ast::Call& c, Use use);
  Operand timer_call(const ast::Expr& e, const ast::Call& c, const CallForm& form);

  // --- Changes ---
  Operand assign(const ast::Expr& target, ast::AssignOp op, const ast::Expr& e, Span at, Use use);
  Operand step(const ast::Step& s, Use use);
  std::optional<uint32_t> target_cell(const ast::Expr& e);
  void add_to(uint32_t cell, Operand amount);
  void subtract_from(uint32_t cell, Operand amount);
  bool is_flag(uint32_t cell) const { return snippet_.cells[cell].kind == format::CellKind::flag; }

  // --- Conditions ---
  void jump_if_false(const ast::Expr& e, uint32_t label);

  // --- Instructions ---
  Operand emit(Op op, Operand a = Operand::none(), Operand b = Operand::none(), uint32_t index = 0);
  void effect(Op op, Operand a, uint32_t index) { snippet_.insts.push_back({op, ir::kNoTemp, a, {}, index}); }
  uint32_t new_label() { return snippet_.labels++; }
  void place(uint32_t label) { effect(Op::label, Operand::none(), label); }
  uint32_t cell(uint32_t of_owner);

  const Owner& owner_;
  Binder& binder_;
  Diagnostics& diagnostics_;
  ir::Snippet snippet_;
  std::vector<uint32_t> used_;  // Snippet::cells as indices into Owner::cells
};

bool changes(const ast::Expr& e);
bool changes(const ast::ExprPtr& e) {
  return changes(*e);
}

// Whether an expression does anything besides having a value.
bool changes(const ast::Expr& e) {
  return std::visit(ast::Overloaded{
                        [](const ast::Assign&) { return true; },
                        [](const ast::Step&) { return true; },
                        [](const ast::Call&) { return true; },
                        [](const ast::Unary& u) { return changes(u.operand); },
                        [](const ast::Binary& b) { return changes(b.left) || changes(b.right); },
                        [](const auto&) { return false; },
                    },
                    e.node);
}

bool is_zero(Operand o) {
  return o.kind == Operand::Kind::immediate && o.value == 0;
}

int64_t negated(int64_t value) {
  return static_cast<int64_t>(0 - static_cast<uint64_t>(value));
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

void Lowering::code(const ast::Code& c) {
  std::visit(ast::Overloaded{
                 [&](const ast::ExprCode& statement) {
                   if (!changes(statement.expr)) diagnostics_.report(Code::unused_value, statement.expr.span);
                   expr(statement.expr, Use::effect);
                 },
                 [&](const ast::BlockCode& block) {
                   for (const ast::Code& inner : block.body) code(inner);
                 },
                 [&](const ast::IfCode& branch) {
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
    effect(Op::jump_zero, value(e), label);
  }
}

// --- Values ---

Operand Lowering::not_a_value(Span span, std::string_view what) {
  diagnostics_.report(Code::not_a_value, span, what);
  return Operand::imm(1);  // any value: the program has an error
}

Operand Lowering::not_yet_extension(Span span, std::string_view name) {
  if (!binder_.refuse_extension(span, fmt::format("'{}'", name)))
    diagnostics_.report(Code::not_yet, span, fmt::format("'{}' is", name));
  return Operand::imm(1);
}

Operand Lowering::expr(const ast::Expr& e, Use use) {
  return std::visit(
      ast::Overloaded{
          [&](const ast::Integer& i) { return Operand::imm(i.value); },
          [&](const ast::Boolean& b) { return Operand::imm(b.value); },
          [&](const ast::Float&) { return not_a_value(e.span, noun(Kind::floating)); },
          [&](const ast::String&) { return not_a_value(e.span, noun(Kind::string)); },
          [&](const ast::NameUse& n) { return name(e.span, n.text); },
          [&](const ast::Field& f) {
            auto* object = std::get_if<ast::NameUse>(&f.object->node);
            if (object == nullptr || object->text != "$args") return binding_value(e);
            return not_yet_extension(e.span, object->text);
          },
          [&](const ast::Index& i) { return index(e, i); },
          [&](const ast::Call& c) { return call(e, c, use); },
          [&](const ast::Unary& u) { return unary(e, u); },
          [&](const ast::Binary& b) { return binary(e, b); },
          [&](const ast::Assign& a) { return assign(*a.target, a.op, *a.value, a.op_span, use); },
          [&](const ast::Step& s) { return step(s, use); },
      },
      e.node);
}

Operand Lowering::name(Span span, const std::string& name) {
  const format::PointKindInfo& point = format::info(snippet_.point);
  if (auto found = owner_.names.find(name); found != owner_.names.end())
    return emit(Op::load, Operand::none(), Operand::none(), cell(found->second));
  if (name == "$return") {
    if (point.result) return emit(Op::result);
    diagnostics_.report(Code::result_not_here, span).hint("the value is known at '.return'");
    return Operand::imm(1);
  }
  if (name == "$constraint") return binder_.check_selection(span) ? selected(span, 0) : Operand::imm(1);
  if (name == "$arg") {
    diagnostics_.report(Code::bad_index, span, "$arg", "missing").hint("the first argument is $arg[0]");
    return Operand::imm(1);
  }
  if (name == "$thread" || name == "$args") return not_yet_extension(span, name);
  if (name == owner_.void_metric && !name.empty()) {
    diagnostics_.report(Code::no_value_cell, span, name);
    return Operand::imm(1);
  }
  return binding_value({span, ast::NameUse{name}});
}

// A value of the binding-time language stands where code needs an integer.
Operand Lowering::binding_value(const ast::Expr& e) {
  auto* use = std::get_if<ast::NameUse>(&e.node);
  if (use != nullptr && !binder_.knows(use->text)) {
    std::vector<std::string_view> near{"$arg", "$return", "$constraint"};
    for (const auto& [name, cell] : owner_.names) near.push_back(name);
    diagnostics_.report(Code::unknown_name, e.span, use->text)
        .hint(binder_.suggestion(use->text, std::move(near)));
    return Operand::imm(1);
  }
  std::optional<Bound> bound = binder_.bind(e);
  if (!bound) return Operand::imm(1);
  if (bound->type.kind != Kind::integer) return not_a_value(e.span, noun(bound->type.kind));
  return constant(std::move(bound->expr));
}

// Where it stands in the source does not tell constants apart.
Operand Lowering::constant(format::Expr expr) {
  expr.position = {};
  auto& known = snippet_.constants;
  auto found = std::find(known.begin(), known.end(), expr);
  auto index = static_cast<uint32_t>(found - known.begin());
  if (found == known.end()) known.push_back(std::move(expr));
  return emit(Op::constant, Operand::none(), Operand::none(), index);
}

Operand Lowering::selected(Span span, uint32_t n) {
  Kind kind = owner_.selected[n];
  if (kind != Kind::integer) return not_a_value(span, noun(kind));
  format::Expr expr;
  expr.kind = format::ExprKind::selected;
  expr.number = n;
  return constant(std::move(expr));
}

Operand Lowering::index(const ast::Expr& e, const ast::Index& i) {
  auto* object = std::get_if<ast::NameUse>(&i.object->node);
  if (object != nullptr && object->text == "$constraint") {
    if (!binder_.check_selection(e.span)) return Operand::imm(1);
    auto n = binder_.constant_index(i, "$constraint", owner_.selected.size());
    return n ? selected(e.span, *n) : Operand::imm(1);
  }
  if (object == nullptr || object->text != "$arg") return binding_value(e);
  if (!format::info(snippet_.point).args) {
    diagnostics_.report(Code::arg_not_here, e.span).hint("keep it in a counter at '.entry'");
    return Operand::imm(1);
  }
  auto n = binder_.constant_index(i, "$arg", kMaxArguments);
  return n ? emit(Op::arg, Operand::none(), Operand::none(), *n) : Operand::imm(1);
}

Operand Lowering::unary(const ast::Expr& e, const ast::Unary& u) {
  if (u.op == ast::UnaryOp::address) {
    diagnostics_.report(Code::not_yet, e.span, "the address of a counter is");
    return Operand::imm(1);
  }
  Operand operand = value(*u.operand);
  if (u.op == ast::UnaryOp::not_) return emit(Op::eq, operand, Operand::imm(0));
  Operand negative = emit(Op::neg, operand);
  return u.op == ast::UnaryOp::negate ? negative : emit(Op::sub, negative, Operand::imm(1));  // ~x is -x - 1
}

std::optional<Op> arithmetic(ast::BinaryOp op) {
  switch (op) {
    case ast::BinaryOp::add:
      return Op::add;
    case ast::BinaryOp::sub:
      return Op::sub;
    case ast::BinaryOp::mul:
      return Op::mul;
    case ast::BinaryOp::div:
      return Op::div;
    case ast::BinaryOp::lt:
      return Op::lt;
    case ast::BinaryOp::le:
      return Op::le;
    case ast::BinaryOp::gt:
      return Op::gt;
    case ast::BinaryOp::ge:
      return Op::ge;
    case ast::BinaryOp::eq:
      return Op::eq;
    case ast::BinaryOp::ne:
      return Op::ne;
    case ast::BinaryOp::bit_and:
      return Op::and_;
    case ast::BinaryOp::bit_xor:
      return Op::xor_;
    case ast::BinaryOp::bit_or:
      return Op::or_;
    case ast::BinaryOp::shl:
      return Op::shl;
    case ast::BinaryOp::shr:
      return Op::shr;
    default:
      return std::nullopt;
  }
}

Operand Lowering::binary(const ast::Expr&, const ast::Binary& b) {
  if (b.op == ast::BinaryOp::and_ || b.op == ast::BinaryOp::or_) return short_circuit(b);
  Operand left = value(*b.left);
  Operand right = value(*b.right);
  bool divides = b.op == ast::BinaryOp::div || b.op == ast::BinaryOp::rem;
  if (divides && is_zero(right)) diagnostics_.report(Code::divides_by_zero, b.op_span);
  if (b.op == ast::BinaryOp::rem) return remainder(left, right);
  if (std::optional<Op> op = arithmetic(b.op)) return emit(*op, left, right);
  diagnostics_.report(Code::not_yet, b.op_span, fmt::format("'{}' is", ast::spelling(b.op)));
  return Operand::imm(1);
}

// a % b is a - a / b * b, so a % 0 is a.
Operand Lowering::remainder(Operand a, Operand b) {
  Operand quotient = emit(Op::div, a, b);
  Operand whole = emit(Op::mul, quotient, b);
  return emit(Op::sub, a, whole);
}

// One temporary takes the truth of the left side, and of the right side if that runs.
Operand Lowering::short_circuit(const ast::Binary& b) {
  uint32_t end = new_label();
  Operand left = value(*b.left);
  Operand truth = emit(Op::ne, left, Operand::imm(0));
  if (b.op == ast::BinaryOp::and_) {
    effect(Op::jump_zero, truth, end);
  } else {
    uint32_t right = new_label();
    effect(Op::jump_zero, truth, right);
    effect(Op::jump, Operand::none(), end);
    place(right);
  }
  Operand right = value(*b.right);
  snippet_.insts.push_back({Op::ne, static_cast<ir::Temp>(truth.value), right, Operand::imm(0), 0});
  place(end);
  return truth;
}

// --- Changes ---

std::optional<uint32_t> Lowering::target_cell(const ast::Expr& e) {
  auto* use = std::get_if<ast::NameUse>(&e.node);
  if (use != nullptr) {
    if (auto found = owner_.names.find(use->text); found != owner_.names.end()) return cell(found->second);
    if (!use->text.starts_with('$') && !binder_.knows(use->text)) {
      name(e.span, use->text);  // reports that it is unknown, or has no value
      return std::nullopt;
    }
  }
  std::string_view what = "an expression";
  if (use != nullptr) what = use->text.starts_with('$') ? "a value of the process" : "a name of binding time";
  diagnostics_.report(Code::not_assignable, e.span, what);
  return std::nullopt;
}

void Lowering::add_to(uint32_t cell, Operand amount) {
  bool down = amount.kind == Operand::Kind::immediate && amount.value < 0;
  if (down && is_flag(cell)) return effect(Op::release, Operand::imm(negated(amount.value)), cell);
  effect(Op::add_cell, amount, cell);
}

void Lowering::subtract_from(uint32_t cell, Operand amount) {
  bool constant = amount.kind == Operand::Kind::immediate;
  if (is_flag(cell) && !(constant && amount.value < 0)) return effect(Op::release, amount, cell);
  effect(Op::add_cell, constant ? Operand::imm(negated(amount.value)) : emit(Op::neg, amount), cell);
}

Operand Lowering::assign(const ast::Expr& target, ast::AssignOp op, const ast::Expr& e, Span at, Use use) {
  Operand amount = value(e);
  std::optional<uint32_t> found = target_cell(target);
  if (!found) return Operand::imm(1);
  auto load = [&] { return emit(Op::load, Operand::none(), Operand::none(), *found); };
  switch (op) {
    case ast::AssignOp::set:
      if (is_flag(*found) && owner_.counts_calls)
        diagnostics_.report(Code::set_flag, at, snippet_.cells[*found].name)
            .hint("write '+= 1' at the entry and '-= 1' at the return");
      effect(Op::store, amount, *found);
      return amount;
    case ast::AssignOp::mul:
      amount = emit(Op::mul, load(), amount);
      effect(Op::store, amount, *found);
      return amount;
    case ast::AssignOp::add:
      add_to(*found, amount);
      break;
    case ast::AssignOp::sub:
      subtract_from(*found, amount);
      break;
  }
  return use == Use::value ? load() : Operand::imm(0);
}

Operand Lowering::step(const ast::Step& s, Use use) {
  std::optional<uint32_t> found = target_cell(*s.target);
  if (!found) return Operand::imm(1);
  auto load = [&] { return emit(Op::load, Operand::none(), Operand::none(), *found); };
  Operand before = use == Use::value && !s.prefix ? load() : Operand::imm(0);
  add_to(*found, Operand::imm(s.amount));
  return use == Use::value && s.prefix ? load() : before;
}

// --- Calls ---

Operand Lowering::call(const ast::Expr& e, const ast::Call& c, Use use) {
  auto* callee = std::get_if<ast::NameUse>(&c.callee->node);
  const CallForm* form = callee ? find_call(callee->text) : nullptr;
  if (form == nullptr) {
    diagnostics_.report(Code::not_yet, e.span, "a call into the application is");
    return Operand::imm(1);
  }
  if (!form->modern.empty()) {
    Diagnostic& obsolete = diagnostics_.report(Code::obsolete, c.callee->span, form->name);
    edit_to_modern_form(*form, e, use == Use::value, obsolete.hint(modern_form(*form, c)));
  }
  if (c.args.size() < form->least || c.args.size() > form->most) {
    diagnostics_.report(Code::wrong_arguments, e.span, form->name, form->takes);
    return Operand::imm(1);
  }
  if (form->assigns) return assign(c.args[0], *form->assigns, c.args[1], c.callee->span, use);
  if (form->needs_timer) return timer_call(e, c, *form);
  diagnostics_.report(Code::not_yet, e.span, fmt::format("'{}' is", form->name));
  return Operand::imm(1);
}

Operand Lowering::timer_call(const ast::Expr& e, const ast::Call& c, const CallForm& form) {
  auto* timer = std::get_if<ast::NameUse>(&c.args[0].node);
  if (timer != nullptr && owner_.names.contains(timer->text))
    diagnostics_.report(Code::not_a_timer, c.args[0].span, form.name, timer->text, "counter");
  else
    diagnostics_.report(Code::not_yet, e.span, fmt::format("'{}' is", form.name));
  return Operand::imm(1);
}

}  // namespace

ir::Snippet lower(const std::vector<ast::Code>& code, const Owner& owner, format::PointKind point,
                  Binder& binder, Diagnostics& diagnostics) {
  Lowering lowering(owner, point, binder, diagnostics);
  for (const ast::Code& c : code) lowering.code(c);
  return lowering.take();
}

}  // namespace mdl::sema
