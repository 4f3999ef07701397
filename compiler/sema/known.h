// Expressions that the source alone decides.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ast/ast.h"
#include "compiler/support/diagnostics.h"

namespace mdl::sema {

// The value of an expression of integers and operators; nothing for any other.
std::optional<int64_t> known_value(const ast::Expr& e);

// Warns of a condition that is always true, or always false.
void warn_if_decided(const ast::Expr& condition, Diagnostics& diagnostics);

}  // namespace mdl::sema
