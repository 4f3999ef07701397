// Code to IR: what stands between `(*` and `*)` becomes one snippet.
#pragma once

#include <optional>

#include "compiler/ir/ir.h"
#include "compiler/sema/bind.h"

namespace mdl::sema {

// Checks the code against the owner's cells and the kind of its point, and lowers it. An owner whose
// code calls the application gets a cell for that. The
// snippet has no name yet; without errors it satisfies ir::verify. `binder` knows the
// foreach variables in sight.
struct Lowered {
  ir::Snippet snippet;
  // Of code at a return that asks for the entry of its call: what notes that; and where it asks for how long the
  // function itself ran, what stands before and behind each of its calls.
  std::optional<ir::Snippet> entry, before, after;
};
Lowered lower(const std::vector<ast::CodeStatement>& code, Owner& owner, format::PointKind point,
              Binder& binder, Diagnostics& diagnostics);

}  // namespace mdl::sema
