// Which functions raise which flags and start which timers: what a check of exits must know (missed_exits.h),
// also one by another mdl-inject, so it stands in the journal.
#pragma once

#include "runtime/patch/coverage.h"
#include "runtime/patch/journal.h"

namespace mdl::patch {

// Fills Journal::functions and Journal::raised.
void describe_raised(const plan::Plan& plan, const focus::Binding& binding, const Coverage& coverage,
                     Journal& journal);

// True when some jump of the function leads out of it, or may: then another function can have its frame.
bool jumps_out(const image::Code& code);

}  // namespace mdl::patch
