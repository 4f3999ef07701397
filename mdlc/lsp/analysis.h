// The compiler's knowledge about an open document, as a part of its program.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/plan_writer.h"
#include "compiler/ast/ast.h"
#include "compiler/sema/symbols.h"
#include "compiler/support/diagnostics.h"
#include "mdlc/options.h"

namespace mdl::lsp {

struct Text {
  std::string path;
  std::string text;
};

// One program, parsed and checked; it does not change afterwards.
struct Analysis {
  Sources sources;
  uint32_t file = 0;  // the ordinal of the document
  std::vector<ast::File> files;
  sema::Symbols symbols;
  Diagnostics diagnostics;
  std::optional<backend::PlanText> plan;  // if there is no error

  const Source& source() const { return sources[file]; }
};

// The document with the other files of the program in their order; if one of those is the
// document itself, its text is taken in that place. When the document uses names that
// nobody defines, the standard metrics are tried as a part of the program, too.
std::unique_ptr<Analysis> analyze_document(const Text& document, const std::vector<Text>& others,
                                           const mdlc::Options& options);

}  // namespace mdl::lsp
