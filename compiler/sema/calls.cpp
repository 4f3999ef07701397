#include "compiler/sema/calls.h"

#include <fmt/format.h>

#include "compiler/ast/dump.h"
#include "compiler/support/diagnostics.h"

namespace mdl::sema {
namespace {

constexpr size_t kMany = 7;  // a function's name and six arguments

using format::CellKind;
using ir::Op;

constexpr CallForm kCalls[] = {
    {"setCounter", 2, 2, "a counter and a value", "{} = {}", ast::AssignOp::set, {}, {}},
    {"addCounter", 2, 2, "a counter and a value", "{} += {}", ast::AssignOp::add, {}, {}},
    {"subCounter", 2, 2, "a counter and a value", "{} -= {}", ast::AssignOp::sub, {}, {}},
    {"functionCall", 1, kMany, "a function's name and at most six arguments", "Call({})", {}, {}, {}},
    {"Call", 1, kMany, "a function's name and at most six arguments", "", {}, {}, {}},
    {"startWallTimer", 1, 1, "a wallTimer", "", {}, CellKind::wall_timer, Op::start_timer},
    {"stopWallTimer", 1, 1, "a wallTimer", "", {}, CellKind::wall_timer, Op::stop_timer},
    {"startProcessTimer", 1, 1, "a processTimer", "", {}, CellKind::process_timer, Op::start_timer},
    {"stopProcessTimer", 1, 1, "a processTimer", "", {}, CellKind::process_timer, Op::stop_timer},
    {"startHwTimer", 1, 1, "an hwTimer", "", {}, CellKind::event_timer, Op::start_timer},
    {"stopHwTimer", 1, 1, "an hwTimer", "", {}, CellKind::event_timer, Op::stop_timer},
    {"sampleHwCounter", 1, 1, "an hwCounter", "", {}, CellKind::event_counter, Op::sample_event},
    {"observe", 1, 1, "a value", "", {}, CellKind::histogram, Op::update},
    {"allocated", 1, 1, "the address of a block", "", {}, {}, {}},
    {"released", 1, 1, "the address of a block", "", {}, {}, {}},
    {"readSymbol", 1, 1, "the name of a variable, as a string", "", {}, {}, {}},
    {"readAddress", 1, 1, "an address", "", {}, {}, {}},
    {"char", 1, 1, "a value", "", {}, {}, {}, 8},
    {"short", 1, 1, "a value", "", {}, {}, {}, 16},
    {"int", 1, 1, "a value", "", {}, {}, {}, 32},
    {"long", 1, 1, "a value", "", {}, {}, {}, 64},
    {"unsigned", 1, 1, "a value", "", {}, {}, {}, -32},
    {"int8_t", 1, 1, "a value", "", {}, {}, {}, 8},
    {"int16_t", 1, 1, "a value", "", {}, {}, {}, 16},
    {"int32_t", 1, 1, "a value", "", {}, {}, {}, 32},
    {"int64_t", 1, 1, "a value", "", {}, {}, {}, 64},
    {"uint8_t", 1, 1, "a value", "", {}, {}, {}, -8},
    {"uint16_t", 1, 1, "a value", "", {}, {}, {}, -16},
    {"uint32_t", 1, 1, "a value", "", {}, {}, {}, -32},
};

}  // namespace

NamedKey named_key(const ast::Expr& key) {
  using enum format::KeyName;
  if (const auto* name = std::get_if<ast::NameUse>(&key.node); name && name->text == "$caller")
    return {caller, nullptr};
  if (const auto* name = std::get_if<ast::NameUse>(&key.node); name && name->text == "$errno")
    return {error, &key};
  const auto* call = std::get_if<ast::Call>(&key.node);
  const auto* callee = call ? std::get_if<ast::NameUse>(&call->callee->node) : nullptr;
  if (callee != nullptr && call->args.size() == 1)
    if (const auto name = format::key_call(callee->text)) return {*name, &call->args[0]};
  return {number, &key};
}

const CallForm* find_call(std::string_view name) {
  for (const CallForm& form : kCalls)
    if (form.name == name) return &form;
  return nullptr;
}

std::vector<std::string_view> call_names() {
  std::vector<std::string_view> names;
  for (const CallForm& form : kCalls) names.push_back(form.name);
  return names;
}

bool is_conversion(std::string_view name) {
  const CallForm* form = find_call(name);
  return form != nullptr && form->width != 0;
}

std::string modern_form(const CallForm& form, const ast::Call& call) {
  if (call.args.size() < form.least) return "";
  std::string first = printable(ast::dump(call.args[0]));
  if (form.assigns)
    return fmt::format("write '{}'",
                       fmt::format(fmt::runtime(form.modern), first, printable(ast::dump(call.args[1]))));
  for (size_t i = 1; i < call.args.size(); i++) first += ", " + printable(ast::dump(call.args[i]));
  return fmt::format("write '{}'", fmt::format(fmt::runtime(form.modern), first));
}

void edit_to_modern_form(const CallForm& form, const ast::Expr& e, bool nested, Diagnostic& diagnostic) {
  const auto& call = std::get<ast::Call>(e.node);
  if (call.args.size() < form.least || call.args.size() > form.most) return;
  if (!form.assigns) {
    diagnostic.edit(call.callee->span, "Call");
    return;
  }
  Span target = call.args[0].span, value = call.args[1].span;
  diagnostic.edit({e.span.file, e.span.begin, target.begin}, nested ? "(" : "")
      .edit({e.span.file, target.end, value.begin}, fmt::format(" {} ", ast::spelling(*form.assigns)))
      .edit({e.span.file, value.end, e.span.end}, nested ? ")" : "");
}

}  // namespace mdl::sema
