// Whether what was asked for can be measured, asked before anything is changed.
#pragma once

#include "base/result.h"
#include "runtime/inject/options.h"
#include "runtime/patch/coverage.h"

namespace mdl::inject {

// An error when nothing can be, or with --strict when any point is refused; warns of requests that cannot.
Result<void> check_coverage(const plan::Plan& plan, const focus::Binding& binding,
                            const patch::Coverage& coverage, const Options& options);

}  // namespace mdl::inject
