// The operators of the source that are one operation of the IR.
#pragma once

#include <optional>

#include "compiler/ast/ast.h"
#include "compiler/ir/ir.h"

namespace mdl::sema {

// Nothing for `%`, which is three, and for `&&` and `||`, which jump.
std::optional<ir::Op> operation(ast::BinaryOp op);

}  // namespace mdl::sema
