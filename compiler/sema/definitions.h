// The definitions without code: resource lists, daemons and their kind, excludes.
#pragma once

#include "compiler/ast/ast.h"
#include "compiler/support/diagnostics.h"
#include "format/manifest.h"

namespace mdl::sema {

format::ResourceList check_list(const ast::ResourceList& list, Span span, Diagnostics& diagnostics);

// Reports what is wrong with a daemon, a process or a visi. Nothing else of a visi is used.
void check_tool(const ast::Tool& tool, Span span, Diagnostics& diagnostics);
std::vector<std::string_view> tool_fields();
// The part of a process that `mdl-inject --run` needs. `daemon` is the one that it names, or null.
format::ProcessDefinition make_process(const ast::Tool& process, const ast::Tool* daemon);
// The name of the daemon that a process names; null when it names none.
const ast::Literal* daemon_of(const ast::Tool& process);

std::vector<format::Tunable> check_tunables(const ast::Tunables& tunables, Diagnostics& diagnostics);

format::Exclude check_exclude(const ast::Exclude& exclude, Diagnostics& diagnostics);

}  // namespace mdl::sema
