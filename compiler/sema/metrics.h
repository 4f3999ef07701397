// Constraints and metrics: their fields, their cells, their code.
#pragma once

#include "compiler/sema/placement.h"

namespace mdl::sema {

// Shared by the definitions of one program while they are checked.
struct Context {
  const Symbols& symbols;
  const Sources& sources;
  Snippets& snippets;
  Diagnostics& diagnostics;
};

// The types that `is X` may name. Only the base of a metric may be void.
std::vector<std::string_view> cell_type_names(bool may_be_void);

format::Constraint check_constraint(const ast::Constraint& constraint, Span span, Context& context);
format::Metric check_metric(const ast::Metric& metric, Span span, Context& context);

}  // namespace mdl::sema
