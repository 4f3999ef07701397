// Changes of cells. A counter must never lose a count to a signal handler that counts too, so `c += e`
// is one operation (add_cell), not load, add, store; a constraint's own flag goes down by `release`,
// which stops at zero. Where such an expression's value is used, the cell is read beside it.
#include <algorithm>
#include <utility>

#include "compiler/sema/lowering.h"

namespace mdl::sema {
namespace {

using ir::Op;
using ir::Operand;

int64_t negated(int64_t value) {
  return static_cast<int64_t>(0 - static_cast<uint64_t>(value));
}

}  // namespace

// The cell that an expression names; `otherwise` is reported when it names none.
std::optional<uint32_t> Lowering::named_cell(const ast::Expr& e, DiagnosticCode otherwise) {
  auto* use = std::get_if<ast::NameUse>(&e.node);
  if (use != nullptr) {
    if (auto found = owner_.names.find(use->text); found != owner_.names.end()) {
      owner_.histories[found->second].named = true;
      return cell(found->second);
    }
    if (!use->text.starts_with('$') && !binder_.knows(use->text)) {
      if (use->text == owner_.void_metric)
        name(e.span, use->text);  // reports that it has no value
      else
        unknown_value(e.span, use->text, false);
      return std::nullopt;
    }
  }
  std::string_view what = "an expression";
  if (use != nullptr) what = use->text.starts_with('$') ? "a value of the process" : "a name of binding time";
  const bool may_compare =
      otherwise == DiagnosticCode::not_assignable && (use == nullptr || use->text.starts_with('$'));
  diagnostics_.report(otherwise, e.span, what).hint(may_compare ? "'==' compares" : "");
  return std::nullopt;
}

// The counter that an expression names, to be changed.
std::optional<uint32_t> Lowering::counter(const ast::Expr& e) {
  std::optional<uint32_t> found = named_cell(e, DiagnosticCode::not_assignable);
  if (!found) return std::nullopt;
  format::CellKind kind = is_by_key(*found) ? owner_.keyed : snippet_.cells[*found].kind;
  if (kind == format::CellKind::counter || kind == format::CellKind::flag) {
    history(*found).changed = true;
    return found;
  }
  diagnostics_.report(DiagnosticCode::not_assignable, e.span, noun(kind))
      .hint(kind == format::CellKind::event_counter ? "sampleHwCounter changes it"
            : format::info(kind).update             ? "observe(VALUE) changes it"
                                                    : "a timer is started and stopped");
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

// A value that is kept by key can be added to, and nothing else.
Operand Lowering::refuse_by_key(Span span) {
  diagnostics_.report(DiagnosticCode::key_value, span, owner_.cells[0].name);
  return failed();
}

// A descriptor is an int; the caller is put there behind the code.
Operand Lowering::key(const ast::Expr& e) {
  const NamedKey key = named_key(e);
  if (key.name == format::KeyName::fd || format::is_descriptor(key.name)) return converted(*key.value, 32);
  if (key.name == format::KeyName::path) return address_of(*key.value, Kind::procedure, "'path'");
  if (key.name == format::KeyName::module) return address_of(*key.value, Kind::module, "'module'");
  if (key.name != format::KeyName::caller) return value(*key.value);
  if (snippet_.point != format::PointKind::entry && snippet_.point != format::PointKind::return_)
    diagnostics_.report(DiagnosticCode::bad_value, e.span, "'$caller'",
                        fmt::format("code at an entry or a return, and this is at {}", noun(snippet_.point)));
  return Operand::imm(0);
}

// Of a function or an object that the statements around the code name. It is known when the request is bound.
Operand Lowering::address_of(const ast::Expr& e, Kind wanted, std::string_view key) {
  std::optional<Bound> bound = binder_.bind(e);
  if (!bound) return failed();
  if (bound->type.kind == wanted) return constant(std::move(bound->expr));
  diagnostics_.report(DiagnosticCode::bad_value, e.span, key,
                      fmt::format("{}, and this is {}", noun(wanted), noun(bound->type.kind)));
  return failed();
}

// Behind a change of the value: for which key it is.
void Lowering::leave_key(uint32_t changed) {
  if (!is_by_key(changed)) return;
  uint32_t at = owner_.first_key;
  for (const ast::Expr& key : *owner_.keys) {
    const Operand held = this->key(key);
    effect(Op::store, held, cell(at++));
  }
  effect(Op::store, Operand::imm(static_cast<int64_t>(*format::key_change(owner_.keyed))), cell(at));
}

Operand Lowering::assign(const ast::Expr& target, ast::AssignOp op, const ast::Expr& e, Span at, Use use) {
  Operand amount = value(e);
  std::optional<uint32_t> found = counter(target);
  if (!found) return failed();
  const bool adds = op == ast::AssignOp::add || op == ast::AssignOp::sub;
  if (is_by_key(*found) && (!adds || use == Use::value)) return refuse_by_key(at);
  auto load = [&] { return emit(Op::load, Operand::none(), Operand::none(), *found); };
  switch (op) {
    case ast::AssignOp::set:
      if (is_flag(*found) && owner_.counts_calls)
        diagnostics_.report(DiagnosticCode::set_flag, at, snippet_.cells[*found].name)
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
  leave_key(*found);
  return use == Use::value ? load() : Operand::imm(0);
}

Operand Lowering::step(const ast::Step& s, Use use) {
  std::optional<uint32_t> found = counter(*s.target);
  if (!found) return failed();
  if (is_by_key(*found) && use == Use::value) return refuse_by_key(s.target->span);
  auto load = [&] { return emit(Op::load, Operand::none(), Operand::none(), *found); };
  Operand before = use == Use::value && !s.prefix ? load() : Operand::imm(0);
  add_to(*found, Operand::imm(s.amount));
  leave_key(*found);
  return use == Use::value && s.prefix ? load() : before;
}

// observe(e), of a metric or a constraint whose value a routine updates, as that of a histogram.
Operand Lowering::update(const ast::Call& c, const CallForm& form) {
  const Operand amount = value(c.args[0]);
  const format::Cell& own = owner_.cells[0];
  const format::CellKind kind = owner_.keys != nullptr ? owner_.keyed : own.kind;
  if (!format::info(kind).update || owner_.names.empty()) {
    diagnostics_.report(DiagnosticCode::not_a_timer, c.callee->span, form.name,
                        fmt::format("a value that is {}", noun(*form.cell)), own.name, noun(kind));
    return failed();
  }
  owner_.histories[0].named = owner_.histories[0].changed = true;
  if (owner_.keys != nullptr) {
    if (std::exchange(observes_, true))
      diagnostics_.report(DiagnosticCode::observed_twice, c.callee->span, own.name)
          .hint("write two statements, each with its own code");
    effect(Op::store, amount, cell(0));
    leave_key(cell(0));
    return Operand::imm(0);
  }
  effect(form.op, amount, cell(0));
  return Operand::imm(0);
}

// allocated(e) and released(e): the first key that is a site has the block's address, the value whether it comes.
Operand Lowering::note_block(const ast::Call& c, const CallForm& form) {
  const Operand block = value(c.args[0]);
  const auto is_site = [](const ast::Expr& key) { return named_key(key).name == format::KeyName::site; };
  const auto site =
      owner_.keys ? std::ranges::find_if(*owner_.keys, is_site) : decltype(owner_.keys->begin())();
  if (!owner_.keys || site == owner_.keys->end()) {
    diagnostics_.report(DiagnosticCode::bad_value, c.callee->span, fmt::format("'{}(…)'", form.name),
                        "a metric that is 'keyed by site(…)'");
    return failed();
  }
  const auto change = owner_.first_key + static_cast<uint32_t>(owner_.keys->size());
  effect(Op::store, block, cell(owner_.first_key + static_cast<uint32_t>(site - owner_.keys->begin())));
  effect(Op::store, Operand::imm(form.name == "allocated" ? 1 : 0), cell(0));
  effect(Op::store, Operand::imm(static_cast<int64_t>(format::KeyChange::note)), cell(change));
  return Operand::imm(0);
}

// startWallTimer(t) and its kind; it has no value.
Operand Lowering::timer_call(const ast::Call& c, const CallForm& form) {
  std::optional<uint32_t> found = named_cell(c.args[0], DiagnosticCode::no_cell);
  if (!found) return failed();
  const format::Cell& cell = snippet_.cells[*found];
  if (cell.kind != *form.cell) {
    diagnostics_.report(DiagnosticCode::not_a_timer, c.args[0].span, form.name, form.takes, cell.name,
                        noun(cell.kind));
    return failed();
  }
  CellHistory& seen = history(*found);
  seen.changed = true;
  if (form.op == Op::start_timer) seen.started = seen.started.value_or(c.callee->span);
  if (form.op == Op::stop_timer) seen.stopped = seen.stopped.value_or(c.callee->span);
  effect(form.op, Operand::none(), *found);
  return Operand::imm(0);
}

}  // namespace mdl::sema
