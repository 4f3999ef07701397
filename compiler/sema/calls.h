// The functions that code can call by name: built-in ones and obsolete primitives.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/ir/ir.h"
#include "compiler/support/diagnostics.h"

namespace mdl::sema {

struct CallForm {
  std::string_view name;
  size_t least;  // arguments
  size_t most;
  std::string_view takes;   // the same in words
  std::string_view modern;  // of an obsolete primitive: what is written today, {0} {1} its arguments
  std::optional<ast::AssignOp> assigns;  // it is this assignment of its two arguments
  // Its argument is a cell of this kind, which the operation changes. The argument of Op::update is a value,
  // for the owner's own cell, of this kind or another one that a routine updates.
  std::optional<format::CellKind> cell;
  ir::Op op;
  int64_t width = 0;  // of a conversion: operand b of ir::Op::extend, or 64; 0 for what is none
};

const CallForm* find_call(std::string_view name);
std::vector<std::string_view> call_names();
// Whether the name is that of a type, and a call of it a conversion: int($return).
bool is_conversion(std::string_view name);

// What code can read of the process, besides functions.
inline constexpr std::string_view kValuesOfProcess[] = {"$arg",   "$args",    "$return",      "$thread",
                                                        "$now",   "$elapsed", "$cpu_elapsed", "$self_elapsed",
                                                        "$errno", "$cost"};

// A key of `keyed by`: `symbol(E)`, `fd(E)` and `str(E)` are the value E and how it is shown, `path(E)` the address of
// the function E; `$caller` has no value in code.
struct NamedKey {
  format::KeyName name = format::KeyName::number;
  const ast::Expr* value = nullptr;
};
NamedKey named_key(const ast::Expr& key);

// The hint for an obsolete call: "write 'c += v'".
std::string modern_form(const CallForm& form, const ast::Call& call);

// The same as edits of the source. `e` is the call; it is a part of an expression when `nested`.
void edit_to_modern_form(const CallForm& form, const ast::Expr& e, bool nested, Diagnostic& diagnostic);

}  // namespace mdl::sema
