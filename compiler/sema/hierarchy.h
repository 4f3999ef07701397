// The resource hierarchies that constraints and foci name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/sema/types.h"

namespace mdl::sema {

// The types of a path's components below the hierarchy's name, in the path's order:
// /Code/*/* is {module, procedure}. Nothing when no hierarchy has the path; only a
// default constraint may name a hierarchy alone.
std::optional<std::vector<Kind>> path_types(const ast::Path& path, bool is_default);

// The path's parts as the manifest has them: /Message/* is short for /SyncObject/Message/*.
std::vector<std::string> path_parts(const ast::Path& path);

// Why path_types() found nothing, as a hint.
std::string path_hint(const ast::Path& path);

std::string path_text(const ast::Path& path);

}  // namespace mdl::sema
