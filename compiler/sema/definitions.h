// The definitions without code: resource lists, daemons and their kind, excludes.
#pragma once

#include "compiler/ast/ast.h"
#include "compiler/support/diagnostics.h"
#include "format/manifest.h"

namespace mdl::sema {

format::ResourceList check_list(const ast::ResourceList& list, Span span, Diagnostics& diagnostics);

// Checked, and without effect: there is no tool around this compiler that they could set up.
void check_tool(const ast::Tool& tool, Span span, Diagnostics& diagnostics);
std::vector<std::string_view> tool_fields();
void check_tunables(const ast::Tunables& tunables, Diagnostics& diagnostics);

format::Exclude check_exclude(const ast::Exclude& exclude, Diagnostics& diagnostics);

}  // namespace mdl::sema
