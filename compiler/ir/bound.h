// The meaning of constants: what the injector computes when a request is bound.
#pragma once

#include <functional>

#include "compiler/ir/ir.h"

namespace mdl::ir {

// The value of an expression of integers. Operators mean what they mean in code; `leaf` answers for
// everything that is neither an operator nor a number, and for operators on other things than integers.
int64_t bound_value(const format::Expr& expr, const std::function<int64_t(const format::Expr&)>& leaf);

}  // namespace mdl::ir
