// The auditor's look at a stage: what it does not admit is given up before anything is written.
#pragma once

#include "base/result.h"
#include "runtime/image/memory.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/stage.h"

namespace mdl::patch {

// Functions with an edit that the auditor refuses are given up as a whole. Their number of points; each
// refusal is an error of the planner's. An error where the code is not what it was when it was read.
Result<uint64_t> audit_stage(const InsertInput& input, const image::Memory& memory, Stage& stage);

// The warning for this number of points that are given up.
std::string audit_warning(uint64_t points);

// Does what an insertion does up to there, for a process that is not touched; the number of points as above.
Result<uint64_t> rehearse(const InsertInput& input, const image::Memory& memory);

}  // namespace mdl::patch
