// Trees to a typed program: names resolved, types checked, code lowered to IR.
#pragma once

#include <string>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/parse/parse.h"
#include "compiler/program.h"
#include "compiler/sema/symbols.h"
#include "compiler/support/diagnostics.h"

namespace mdl {

struct SemaOptions {
  // parse() refused extensions of syntax; sema refuses those of names and members.
  Standard standard = Standard::mdl26;
  // With a flavor, definitions of other flavors are left out (metrics), or are empty (lists).
  // Without one everything is kept and the flavor is chosen at injection.
  std::string flavor;
  // The first files of the program that only define what the others use: their metrics are left out, and
  // constraints that the others' metrics do not name.
  size_t libraries = 0;
};

// Precondition: `files` are trees of parse() and readable, their texts are in `sources`. Definitions that
// parse() had errors in are not there, but known by name, so that what uses them is not reported.
// Postcondition: without errors the program is complete but for what a backend adds; its
// snippets satisfy the IR verifier. With errors it must not be used.
Program analyze(const std::vector<ast::File>& files, const Sources& sources, const SemaOptions& options,
                Diagnostics& diagnostics);

// The definitions of the files, without a word about mistakes: for tools that look names up.
sema::Symbols collect_symbols(const std::vector<ast::File>& files, const SemaOptions& options);

}  // namespace mdl
