// The tree as text, for people and for golden tests (`mdlc --emit=ast`).
#pragma once

#include <string>

#include "compiler/ast/ast.h"

namespace mdl::ast {

// One line a node, children indented by two; positions as LINE:COLUMN.
std::string dump(const File& file, const Source& source);

// An expression on one line, fully parenthesized.
std::string dump(const Expr& expr);

}  // namespace mdl::ast
