// The checks of x86_64 stencils. The rules and their reasons: runtime/plan/verify.h.
#pragma once

#include "runtime/plan/verify.h"

namespace mdl::plan::x86_64 {

extern const TargetRules kStencilRules;

}  // namespace mdl::plan::x86_64
