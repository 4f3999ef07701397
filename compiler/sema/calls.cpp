#include "compiler/sema/calls.h"

#include <fmt/format.h>

#include "compiler/ast/dump.h"
#include "compiler/support/diagnostics.h"

namespace mdl::sema {
namespace {

constexpr size_t kMany = 7;  // a function's name and six arguments

constexpr CallForm kCalls[] = {
    {"setCounter", 2, 2, "a counter and a value", "{} = {}", ast::AssignOp::set, false},
    {"addCounter", 2, 2, "a counter and a value", "{} += {}", ast::AssignOp::add, false},
    {"subCounter", 2, 2, "a counter and a value", "{} -= {}", ast::AssignOp::sub, false},
    {"functionCall", 1, kMany, "a function's name and at most six arguments", "Call({})", std::nullopt,
     false},
    {"Call", 1, kMany, "a function's name and at most six arguments", "", std::nullopt, false},
    {"startWallTimer", 1, 1, "a wallTimer", "", std::nullopt, true},
    {"stopWallTimer", 1, 1, "a wallTimer", "", std::nullopt, true},
    {"startProcessTimer", 1, 1, "a processTimer", "", std::nullopt, true},
    {"stopProcessTimer", 1, 1, "a processTimer", "", std::nullopt, true},
    {"startHwTimer", 1, 1, "an hwTimer", "", std::nullopt, true},
    {"stopHwTimer", 1, 1, "an hwTimer", "", std::nullopt, true},
    {"sampleHwCounter", 1, 1, "an hwCounter", "", std::nullopt, false},
    {"readSymbol", 1, 1, "the name of a variable", "", std::nullopt, false},
    {"readAddress", 1, 1, "an address", "", std::nullopt, false},
};

}  // namespace

const CallForm* find_call(std::string_view name) {
  for (const CallForm& form : kCalls)
    if (form.name == name) return &form;
  return nullptr;
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
