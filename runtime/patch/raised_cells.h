// Which functions raise which flags and start which timers: what a check of exits must know (missed_exits.h),
// also one by another mdl-inject, so it stands in the journal.
#pragma once

#include <map>
#include <vector>

#include "runtime/patch/coverage.h"
#include "runtime/resident/journal.h"

namespace mdl::patch {

// Fills Journal::functions and Journal::raised. Returns where each function is in the former.
std::map<const image::Function*, uint32_t> describe_raised(const plan::Plan& plan,
                                                           const focus::Binding& binding,
                                                           const Coverage& coverage,
                                                           resident::Journal& journal);

// Gives the functions of flags and timers that have some, but not too many, words for their anomalies, behind
// `first` others. Returns how many.
size_t number_words(std::vector<resident::RaisedCell>& cells, size_t first);

// True when some jump of the function leads out of it, or may: then another function can have its frame.
bool jumps_out(const image::Code& code);

}  // namespace mdl::patch
