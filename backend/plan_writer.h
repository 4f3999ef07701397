// Program to plan.bin: docs/plan-format.md describes the bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "backend/stencil.h"
#include "backend/target.h"
#include "base/result.h"
#include "compiler/program.h"
#include "format/signature.h"

namespace mdl::backend {

// A plan before it is bytes.
struct PlanText {
  format::Manifest manifest;      // complete
  std::vector<StencilText> stencils;  // as Manifest::stencils
};

// A snippet that has no stencil, and why: a mistake in the source.
struct RefusedSnippet {
  format::Position position;
  std::string text;
};

// One stencil for each snippet of the program, in order. With refusals the plan is incomplete.
PlanText make_plan(const Program& program, const Target& target, std::vector<RefusedSnippet>& refusals,
                   bool peepholes = true);

// The assembly of a plan's .text section, as it is assembled; mdlc --emit=asm.
std::string assembly(const PlanText& plan, const Target& target);

// The file. Equal plans give equal bytes. Errors are defects of ours, but one: `cpu` is unknown.
// With a key, the plan is signed.
Result<std::vector<std::byte>> write_plan(const PlanText& plan, const Target& target, std::string_view cpu,
                                          const format::SigningKey* key = nullptr);

}  // namespace mdl::backend
