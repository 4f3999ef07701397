// Calls: built-in functions, and functions of the application. The arguments of a call into the application
// are computed before it is entered, so an inner call is over when the outer one begins, and the calls of one
// definition share one cell: while one of them runs, no other begins on that thread.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/sema/lowering.h"
#include "format/kinds.h"

namespace mdl::sema {

using ir::Op;
using ir::Operand;

Operand Lowering::call(const ast::Expr& e, const ast::Call& c, Use use) {
  auto* callee = std::get_if<ast::NameUse>(&c.callee->node);
  const CallForm* form = callee ? find_call(callee->text) : nullptr;
  if (form != nullptr) return built_in(e, c, *form, use);
  if (callee == nullptr || callee->text.starts_with('$') || binder_.knows(callee->text) ||
      owner_.names.contains(callee->text)) {
    diagnostics_.report(DiagnosticCode::not_callable, c.callee->span)
        .hint("a function of the application is called by its name: f(1), Call(\"f\", 1)");
    return failed();
  }
  const auto warn = [&](auto hint) {
    diagnostics_.report(DiagnosticCode::application_call, c.callee->span, callee->text).hint(hint);
  };
  std::vector<std::string_view> names = call_names();
  std::erase_if(names, is_conversion);  // `init` is a likelier function than a wrong `int`
  if (format::key_call(callee->text) && c.args.size() == 1)
    warn(fmt::format("a key is named so, and nothing else: keyed by {}(VALUE)", callee->text));
  else if (Suggestion near = did_you_mean(callee->text, std::move(names)); !near.empty())
    warn(near);
  if (c.args.size() > kMaxArguments) {
    diagnostics_.report(DiagnosticCode::wrong_arguments, e.span, printable(callee->text),
                        "at most six arguments");
    return failed();
  }
  return application_call(callee->text, c.args);
}

Operand Lowering::built_in(const ast::Expr& e, const ast::Call& c, const CallForm& form, Use use) {
  if (!form.modern.empty()) {
    Diagnostic& obsolete = diagnostics_.report(DiagnosticCode::obsolete, c.callee->span, form.name);
    edit_to_modern_form(form, e, use == Use::value, obsolete.hint(modern_form(form, c)));
  }
  if (c.args.size() < form.least || c.args.size() > form.most) {
    diagnostics_.report(DiagnosticCode::wrong_arguments, e.span, form.name, form.takes);
    return failed();
  }
  if (form.width != 0) return conversion(c, form);
  if (form.assigns) return assign(c.args[0], *form.assigns, c.args[1], c.callee->span, use);
  if (form.cell) {
    if (use == Use::value) return not_a_value(e.span, "a change of a cell");
    return form.op == Op::update ? update(c, form) : timer_call(c, form);
  }
  if (form.name == "allocated" || form.name == "released")
    return use == Use::value ? not_a_value(e.span, "a note of a block") : note_block(c, form);
  if (form.name == "readSymbol") return read_symbol(e, c, form);
  if (form.name == "readAddress") return emit(Op::read_address, value(c.args[0]));
  auto* function = std::get_if<ast::String>(&c.args[0].node);
  if (function == nullptr || function->text.empty()) {
    diagnostics_.report(DiagnosticCode::wrong_arguments, c.args[0].span, form.name, form.takes)
        .hint("the name is a string: Call(\"f\", 1)");
    return failed();
  }
  return application_call(function->text, std::span(c.args).subspan(1));
}

// A conversion of $arg[n] or $return takes the place of what debug information says of it.
Operand Lowering::conversion(const ast::Call& c, const CallForm& form) {
  if (binder_.refuse_extension(c.callee->span, fmt::format("'{}(…)'", form.name))) return failed();
  return converted(c.args[0], form.width);
}

Operand Lowering::converted(const ast::Expr& e, int64_t width) {
  is_converted_ = !register_name(e).empty();
  const Operand operand = value(e);
  is_converted_ = false;
  return width == 64 ? operand : emit(Op::extend, operand, Operand::imm(width));
}

Operand Lowering::application_call(const std::string& function, std::span<const ast::Expr> args) {
  std::vector<Operand> values;
  for (const ast::Expr& arg : args) values.push_back(value(arg));
  const uint32_t cell = call_cell();
  if (!end_) end_ = new_label();
  effect(Op::jump_zero, emit(Op::enter_call, Operand::none(), Operand::none(), cell), *end_);
  for (size_t i = 0; i < values.size(); i++)
    snippet_.insts.push_back(
        {Op::call_arg, ir::kNoTemp, values[i], Operand::imm(static_cast<int64_t>(i)), cell});
  uint32_t called = symbol(function, format::SymbolKind::function);
  Operand result = emit(Op::call, Operand::imm(called), Operand::none(), cell);
  effect(Op::leave_call, Operand::none(), cell);
  return result;
}

// The owner's cell for calls, as a cell of the snippet. It has no name in code.
uint32_t Lowering::call_cell() {
  auto is_call = [](const format::Cell& cell) { return cell.kind == format::CellKind::call; };
  auto found = std::find_if(owner_.cells.begin(), owner_.cells.end(), is_call);
  auto index = static_cast<uint32_t>(found - owner_.cells.begin());
  if (found == owner_.cells.end()) {
    owner_.cells.push_back({owner_.name + ".call", format::CellKind::call});
    owner_.histories.emplace_back();
  }
  return cell(index);
}

Operand Lowering::read_symbol(const ast::Expr& e, const ast::Call& c, const CallForm& form) {
  auto* variable = std::get_if<ast::String>(&c.args[0].node);
  if (variable == nullptr || variable->text.empty()) {
    diagnostics_.report(DiagnosticCode::wrong_arguments, e.span, form.name, form.takes);
    return failed();
  }
  return emit(Op::symbol, Operand::none(), Operand::none(),
              symbol(variable->text, format::SymbolKind::variable));
}

uint32_t Lowering::symbol(const std::string& name, format::SymbolKind kind) {
  format::SymbolUse use{name, kind};
  auto found = std::find(snippet_.symbols.begin(), snippet_.symbols.end(), use);
  auto index = static_cast<uint32_t>(found - snippet_.symbols.begin());
  if (found == snippet_.symbols.end()) snippet_.symbols.push_back(std::move(use));
  return index;
}

}  // namespace mdl::sema
