// Snippet to stencil: assembly text and what the manifest says of it.
#pragma once

#include <string>
#include <vector>

#include "backend/target.h"
#include "base/result.h"

namespace mdl::backend {

struct StencilText {
  format::StencilInfo info;
  std::vector<Line> lines;
};

// The stencil of one snippet. The error is a sentence about the user's code, without a
// position (the snippet has it): a value that the target cannot reach, or too few registers.
Result<StencilText> make_stencil(const ir::Snippet& snippet, const Target& target, bool peepholes = true);

// The stencil that tests one guard (format::kGuardStencil).
StencilText make_guard(const Target& target);

// Assembly of a stencil's body, a line each; `ordinal` keeps local labels apart.
std::string assembly(const StencilText& stencil, size_t ordinal);

}  // namespace mdl::backend
