// A typed program: what sema hands to the passes and the backend.
//
// `manifest` is complete but for what only a backend knows (target, features, stencils);
// Placement::stencil indexes `snippets`, and the backend turns snippet i into stencil i.
#pragma once

#include <vector>

#include "compiler/ir/ir.h"
#include "format/manifest.h"

namespace mdl {

struct Program {
  format::Manifest manifest;
  std::vector<ir::Snippet> snippets;
};

}  // namespace mdl
