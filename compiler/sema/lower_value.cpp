// Values. && and || jump, so that what stands right of them runs only if it must; in a condition they
// jump straight to where the condition leads (lower.cpp). Expressions of binding time become constants.
#include <algorithm>

#include "compiler/ast/dump.h"
#include "compiler/sema/argument_variants.h"
#include "compiler/sema/known.h"
#include "compiler/sema/lowering.h"
#include "compiler/sema/operators.h"
#include "compiler/support/foreign_words.h"

namespace mdl::sema {
namespace {

using ir::Op;
using ir::Operand;

bool is_zero(Operand o) {
  return o.kind == Operand::Kind::immediate && o.value == 0;
}

}  // namespace

std::string register_name(const ast::Expr& e) {
  auto* name = std::get_if<ast::NameUse>(&e.node);
  if (name != nullptr) return name->text == "$return" ? name->text : "";
  auto* index = std::get_if<ast::Index>(&e.node);
  auto* object = index != nullptr ? std::get_if<ast::NameUse>(&index->object->node) : nullptr;
  auto* n = index != nullptr ? std::get_if<ast::Integer>(&index->index->node) : nullptr;
  return object != nullptr && n != nullptr && object->text == "$arg" ? fmt::format("$arg[{}]", n->value) : "";
}

Operand Lowering::not_a_value(Span span, std::string_view what) {
  diagnostics_.report(DiagnosticCode::not_a_value, span, what);
  return failed();
}

// A fact of $args.name, or of $arg[n] or $return, at the point of this code.
Operand Lowering::parameter(format::ExprKind kind, const std::string& name, format::ParameterFact fact) {
  format::Expr point, expr;
  point.kind = format::ExprKind::variable;
  point.text = kPointVariable;
  expr.kind = kind;
  expr.text = name;
  expr.number = static_cast<int64_t>(fact);
  expr.operands.push_back(std::move(point));
  return constant(std::move(expr));
}

// $arg[place], where the place is known when a request is bound: the one of the six jumps that is not taken.
Operand Lowering::some_argument(Operand place) {
  const ir::Temp value = snippet_.temps++;
  const uint32_t end = new_label();
  snippet_.insts.push_back({Op::copy, value, Operand::imm(0), Operand::none(), 0});
  for (uint32_t n = 0; n < kMaxArguments; n++) {
    const uint32_t next = new_label();
    effect(Op::jump_zero, emit(Op::eq, place, Operand::imm(n)), next);
    snippet_.insts.push_back({Op::arg, value, Operand::none(), Operand::none(), n});
    effect(Op::jump, Operand::none(), end);
    this->place(next);
  }
  this->place(end);
  return Operand::temp(value);
}

// Which of the arguments has this name, and how wide it is, is known when a request is bound. For the first
// name the code is made once for each of the six (argument_variants.h), in which its place stands for
// itself; for others it chooses as it runs.
Operand Lowering::named_argument(Span span, const std::string& name) {
  if (binder_.refuse_extension(span, "'$args'")) return failed();
  if (!format::info(snippet_.point).args) {
    diagnostics_.report(DiagnosticCode::arg_not_here, span, noun(snippet_.point))
        .hint("keep it in a counter at '.entry'");
    return failed();
  }
  if (!first_named_) first_named_ = name;
  Operand place = parameter(format::ExprKind::parameter, name, format::ParameterFact::place);
  Operand raw = *first_named_ == name ? place : some_argument(place);
  return extended(raw, format::ExprKind::parameter, name);
}

// With the width and the sign that are known when a request is bound.
Operand Lowering::extended(Operand raw, format::ExprKind kind, const std::string& name) {
  Operand own = emit(Op::and_, raw, parameter(kind, name, format::ParameterFact::mask));
  Operand sign = parameter(kind, name, format::ParameterFact::sign);
  return emit(Op::sub, emit(Op::xor_, own, sign), sign);
}

// $arg[n] or $return. Unless the source converts it, debug information may say that it is narrow.
Operand Lowering::read_register(Op op, uint32_t number, const std::string& name) {
  const Operand raw = emit(op, Operand::none(), Operand::none(), number);
  return is_converted_ ? raw : extended(raw, format::ExprKind::value_type, name);
}

Operand Lowering::expr(const ast::Expr& e, Use use) {
  if (snippet_.point == format::PointKind::return_ && binder_.has_extensions() && is_kept(e)) return kept(e);
  return std::visit(
      ast::Overloaded{
          [&](const ast::Integer& i) { return Operand::imm(i.value); },
          [&](const ast::Boolean& b) { return Operand::imm(b.value); },
          [&](const ast::Float&) { return not_a_value(e.span, noun(Kind::floating)); },
          [&](const ast::String&) { return not_a_value(e.span, noun(Kind::string)); },
          [&](const ast::NameUse& n) { return name(e.span, n.text); },
          [&](const ast::Field& f) {
            auto* object = std::get_if<ast::NameUse>(&f.object->node);
            if (object == nullptr || (object->text != "$args" && object->text != "$arg"))
              return binding_value(e);
            if (object->text == "$args") return named_argument(e.span, f.field.text);
            diagnostics_.report(DiagnosticCode::bad_index, e.span, "$arg", "missing")
                .hint(fmt::format("an argument by its name is $args.{}", f.field.text));
            return failed();
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
  if (auto found = owner_.names.find(name); found != owner_.names.end()) {
    const format::CellKind kind = owner_.cells[found->second].kind;
    owner_.histories[found->second].named = true;
    if (owner_.keys != nullptr && found->second == 0) return refuse_by_key(span);
    if (format::is_timer(kind) || format::info(kind).update) return not_a_value(span, noun(kind));
    return emit(Op::load, Operand::none(), Operand::none(), cell(found->second));
  }
  if (name == "$return") {
    if (point.result) return read_register(Op::result, 0, name);
    diagnostics_.report(DiagnosticCode::result_not_here, span, noun(snippet_.point))
        .hint("the value is known at '.return', and after a call");
    return failed();
  }
  if (name == "$constraint") return binder_.check_selection(span) ? selected(span, 0) : failed();
  if (name == "$arg") {
    diagnostics_.report(DiagnosticCode::bad_index, span, "$arg", "missing")
        .hint("the first argument is $arg[0]");
    return failed();
  }
  if (name == "$thread") return binder_.refuse_extension(span, "'$thread'") ? failed() : emit(Op::thread);
  if (name == "$now") return binder_.refuse_extension(span, "'$now'") ? failed() : emit(Op::now);
  if (name == "$errno") return binder_.refuse_extension(span, "'$errno'") ? failed() : emit(Op::error);
  if (name == "$elapsed") return elapsed(span);
  if (name == "$cpu_elapsed") return cpu_elapsed(span);
  if (name == "$self_elapsed") return self_elapsed(span);
  if (name == "$cost") {
    if (binder_.refuse_extension(span, "'$cost'")) return failed();
    format::Expr cost;
    cost.kind = format::ExprKind::cost;
    return constant(std::move(cost));
  }
  if (name == "$args") {
    if (!binder_.refuse_extension(span, "'$args'"))
      diagnostics_.report(DiagnosticCode::bad_index, span, "$args", "missing")
          .hint("an argument is $args.NAME");
    return failed();
  }
  if (name == owner_.void_metric && !name.empty()) {
    diagnostics_.report(DiagnosticCode::no_value_cell, span, name);
    return failed();
  }
  return binder_.knows(name) ? binding_value({span, ast::NameUse{name}}) : unknown_value(span, name);
}

bool Lowering::knows_duration(Span span, std::string_view name) {
  if (binder_.refuse_extension(span, fmt::format("'{}'", name))) return false;
  if (snippet_.point != format::PointKind::return_) {
    diagnostics_.report(DiagnosticCode::elapsed_not_here, span, noun(snippet_.point))
        .hint("the duration of a call is known at '.return'");
    return false;
  }
  return !asks_nowhere(DiagnosticCode::elapsed_not_here, span);
}

// For how long the call has run that returns here. Each code that asks has cells of its own, because the answer is
// given once (placement.cpp notes the entry).
Operand Lowering::elapsed(Span span) {
  if (!knows_duration(span, "$elapsed")) return failed();
  auto whole = std::ranges::find_if(asked_, [](const Asked& one) { return !one.of_self; });
  Asked& asked = whole != asked_.end() ? *whole : ask();
  if (asked.span.end == 0) asked.span = span;
  asked.is_read = true;
  return Operand::temp(asked.elapsed);
}

// For how long its function itself ran in that call.
Operand Lowering::self_elapsed(Span span) {
  if (!knows_duration(span, "$self_elapsed")) return failed();
  auto own = std::ranges::find_if(asked_, &Asked::of_self);
  if (own == asked_.end()) own = std::ranges::find_if(asked_, [](const Asked& one) { return !one.is_read; });
  Asked& asked = own != asked_.end() ? *own : ask();
  if (asked.span.end == 0) asked.span = span;
  asked.of_self = true;
  return Operand::temp(asked.elapsed);
}

// For how long it has run on a processor.
Operand Lowering::cpu_elapsed(Span span) {
  if (!knows_duration(span, "$cpu_elapsed")) return failed();
  if (asked_.empty()) ask().span = span;
  for (const Asked& one : asked_)
    if (one.of_cpu) return Operand::temp(one.spent);
  Asked& asked = asked_[0].kept == nullptr ? asked_[0] : ask();
  asked.of_cpu = true;
  asked.value = snippet_.temps++;
  asked.spent = snippet_.temps++;
  return Operand::temp(asked.spent);
}

// Statements outside of metrics have no cells but for calls.
bool Lowering::asks_nowhere(DiagnosticCode code, Span span) {
  if (!owner_.names.empty() || !owner_.void_metric.empty()) return false;
  diagnostics_.report(code, span, "a return, outside of metrics")
      .hint("in the base of a metric, which may be void, it is");
  return true;
}

Lowering::Asked& Lowering::ask() {
  const auto at = static_cast<uint32_t>(owner_.cells.size());
  owner_.cells.push_back({fmt::format("{}.entries.{}", owner_.name, at), format::CellKind::entries});
  owner_.histories.emplace_back();
  Asked& asked = asked_.emplace_back();
  asked.cell = at;
  asked.elapsed = snippet_.temps++;
  return asked;
}

// Whether an expression at a return has the value that it had at the entry: it is made of arguments. Such an expression
// is computed there as a whole, and kept for the call.
bool Lowering::is_kept(const ast::Expr& e) const {
  bool asks = false;
  const auto look = [&](const auto& self, const ast::Expr& part) -> bool {
    const auto all = [&](const auto&... parts) { return (self(self, parts) && ...); };
    const auto is_argument = [&](const ast::Expr& object) {
      const auto* name = std::get_if<ast::NameUse>(&object.node);
      const bool is = name != nullptr && (name->text == "$arg" || name->text == "$args");
      asks = asks || is;
      return is;
    };
    return std::visit(
        ast::Overloaded{
            [](const ast::Integer&) { return true; },
            [](const ast::Boolean&) { return true; },
            [&](const ast::Index& i) { return is_argument(*i.object); },
            [&](const ast::Field& f) { return is_argument(*f.object); },
            [&](const ast::Unary& u) { return u.op != ast::UnaryOp::address && all(*u.operand); },
            [&](const ast::Binary& b) { return all(*b.left, *b.right); },
            [&](const ast::Call& c) {
              const auto* callee = std::get_if<ast::NameUse>(&c.callee->node);
              return callee != nullptr && is_conversion(callee->text) && c.args.size() == 1 && all(c.args[0]);
            },
            [](const auto&) { return false; },
        },
        part.node);
  };
  return look(look, e) && asks;
}

Operand Lowering::kept(const ast::Expr& e) {
  if (asks_nowhere(DiagnosticCode::arg_not_here, e.span)) return failed();
  const std::string text = ast::dump(e);
  for (const Asked& one : asked_)
    if (one.kept != nullptr && one.is_converted == is_converted_ && ast::dump(*one.kept) == text)
      return Operand::temp(one.value);
  const bool first_keeps_nothing = !asked_.empty() && asked_[0].kept == nullptr && !asked_[0].of_cpu;
  Asked& asked = first_keeps_nothing ? asked_[0] : ask();
  if (asked.span.end == 0) asked.span = e.span;
  asked.kept = &e;
  asked.is_converted = is_converted_;
  asked.value = snippet_.temps++;
  return Operand::temp(asked.value);
}

Operand Lowering::unknown_value(Span span, const std::string& name, bool is_read) {
  std::vector<std::string_view> near(std::begin(kValuesOfProcess), std::end(kValuesOfProcess));
  near.push_back("$constraint");
  for (const auto& [known, cell] : owner_.names) near.push_back(known);
  const Suggestion suggestion = binder_.suggestion(name, std::move(near));
  const std::string foreign = binder_.has_extensions() ? foreign_value(name) : "";
  Diagnostic& said = diagnostics_.report(DiagnosticCode::unknown_name, span, name);
  if (!foreign.empty())
    said.hint(foreign);
  else
    said.hint(suggestion);
  if (is_read && foreign.empty() && suggestion.empty() && binder_.has_extensions() && !name.starts_with('$'))
    said.hint("a parameter of the function that has this name is `$args." + name + "`");
  return failed();
}

// A value of the binding-time language stands where code needs an integer.
Operand Lowering::binding_value(const ast::Expr& e) {
  std::optional<Bound> bound = binder_.bind(e);
  if (!bound) return failed();
  if (bound->type.kind != Kind::integer) return not_a_value(e.span, noun(bound->type.kind));
  return constant(std::move(bound->expr));
}

// Where it stands in the source does not tell constants apart.
Operand Lowering::constant(format::Expr expr) {
  auto strip = [](auto& self, format::Expr& e) -> void {
    e.position = {};
    for (format::Expr& operand : e.operands) self(self, operand);
  };
  strip(strip, expr);
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
    if (!binder_.check_selection(e.span)) return failed();
    auto n = binder_.constant_index(i, "$constraint", owner_.selected.size());
    return n ? selected(e.span, *n) : failed();
  }
  if (object != nullptr && object->text == "$args") return name(i.object->span, object->text);
  if (object != nullptr && !object->text.starts_with('$') && !binder_.knows(object->text) &&
      !owner_.names.contains(object->text))
    return unknown_value(i.object->span, object->text);
  if (object == nullptr || object->text != "$arg") return binding_value(e);
  if (!format::info(snippet_.point).args) {
    diagnostics_.report(DiagnosticCode::arg_not_here, e.span, noun(snippet_.point))
        .hint("keep it in a counter at '.entry'");
    return failed();
  }
  auto n = binder_.constant_index(i, "$arg", kMaxArguments);
  return n ? read_register(Op::arg, *n, fmt::format("$arg[{}]", *n)) : failed();
}

Operand Lowering::unary(const ast::Expr& e, const ast::Unary& u) {
  if (u.op == ast::UnaryOp::address) return address(e, *u.operand);
  Operand operand = value(*u.operand);
  if (u.op == ast::UnaryOp::not_) return emit(Op::eq, operand, Operand::imm(0));
  return u.op == ast::UnaryOp::negate ? emit(Op::neg, operand) : emit(Op::xor_, operand, Operand::imm(-1));
}

// Changes of the cell through its address are not seen: it counts as changed, started and stopped.
Operand Lowering::address(const ast::Expr& e, const ast::Expr& of) {
  std::optional<uint32_t> found = named_cell(of, DiagnosticCode::no_address);
  if (!found) return failed();
  if (is_by_key(*found)) return refuse_by_key(e.span);
  CellHistory& seen = history(*found);
  seen.changed = true;
  seen.started = seen.started.value_or(e.span);
  seen.stopped = seen.stopped.value_or(e.span);
  return emit(Op::address, Operand::none(), Operand::none(), *found);
}

// Whether an operand of a comparison is a floating-point number, or, where those count, a text, so that the
// whole must be decided when a request is bound.
bool Lowering::is_no_integer(const ast::Expr& e, bool with_texts) const {
  auto texts = [&](Kind kind) { return (with_texts && kind == Kind::string) || kind == Kind::floating; };
  return std::visit(ast::Overloaded{
                        [&](const ast::String&) { return with_texts; },
                        [](const ast::Float&) { return true; },
                        [&](const ast::Unary& u) { return is_no_integer(*u.operand, false); },
                        [&](const ast::Field& f) { return with_texts && f.field.text == "name"; },
                        [&](const ast::NameUse& n) {
                          const Type* variable = binder_.variable(n.text);
                          if (variable != nullptr && !owner_.names.contains(n.text))
                            return texts(variable->kind);
                          if (n.text == "$constraint" && !owner_.selected.empty())
                            return texts(owner_.selected[0]);
                          return with_texts && n.text == "$machine";
                        },
                        [&](const ast::Index& i) {
                          auto* name = std::get_if<ast::NameUse>(&i.object->node);
                          auto* n = std::get_if<ast::Integer>(&i.index->node);
                          return name != nullptr && name->text == "$constraint" && n != nullptr &&
                                 n->value >= 0 && static_cast<uint64_t>(n->value) < owner_.selected.size() &&
                                 texts(owner_.selected[static_cast<size_t>(n->value)]);
                        },
                        [](const auto&) { return false; },
                    },
                    e.node);
}

// Whether an operand has its value only when the code runs.
bool Lowering::runs(const ast::Expr& e) const {
  auto of_process = [&](const ast::Expr& object) {
    auto* name = std::get_if<ast::NameUse>(&object.node);
    return name != nullptr && (name->text == "$arg" || name->text == "$args" || name->text == "$return" ||
                               name->text == "$thread" || owner_.names.contains(name->text));
  };
  return std::visit(ast::Overloaded{
                        [&](const ast::NameUse&) { return of_process(e); },
                        [&](const ast::Field& f) { return of_process(*f.object); },
                        [&](const ast::Index& i) { return of_process(*i.object); },
                        [&](const ast::Unary& u) { return runs(*u.operand); },
                        [&](const ast::Binary& b) { return runs(*b.left) || runs(*b.right); },
                        [](const ast::Call&) { return true; },
                        [](const ast::Assign&) { return true; },
                        [](const ast::Step&) { return true; },
                        [](const auto&) { return false; },
                    },
                    e.node);
}

Operand Lowering::binary(const ast::Expr& e, const ast::Binary& b) {
  if (b.op == ast::BinaryOp::and_ || b.op == ast::BinaryOp::or_) return short_circuit(b);
  using enum ast::BinaryOp;
  const bool equality = b.op == eq || b.op == ne;
  const bool compares = equality || b.op == lt || b.op == le || b.op == gt || b.op == ge;
  const bool is_bound = is_no_integer(*b.left, equality) || is_no_integer(*b.right, equality);
  if (compares && is_bound && !runs(*b.left) && !runs(*b.right)) return binding_value(e);
  if (compares) warn_of_sign(b);
  Operand left = value(*b.left);
  Operand right = value(*b.right);
  bool divides = b.op == ast::BinaryOp::div || b.op == ast::BinaryOp::rem;
  if (divides && is_zero(right)) diagnostics_.report(DiagnosticCode::divides_by_zero, b.op_span);
  std::optional<Op> op = operation(b.op);
  return op ? emit(*op, left, right) : remainder(left, right);
}

// The upper half of the register of an `int` is undefined: without debug information all 64 bits are
// compared, and -1 is 4294967295.
void Lowering::warn_of_sign(const ast::Binary& b) {
  const bool equality = b.op == ast::BinaryOp::eq || b.op == ast::BinaryOp::ne;
  for (auto [side, other] : {std::pair(&*b.left, &*b.right), {&*b.right, &*b.left}}) {
    const std::string name = register_name(*side);
    const std::optional<int64_t> with = known_value(*other);
    if (name.empty() || !with || *with > 0 || (equality && *with == 0) || !binder_.has_extensions()) continue;
    diagnostics_.report(DiagnosticCode::unknown_sign, side->span, name)
        .hint(fmt::format("write int({0}) where its type is int, long({0}) where it has 64 bits", name));
  }
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

}  // namespace mdl::sema
