// What the code of a function does, once all that belongs to it is known: which addresses are branch targets,
// where control leaves it, which calls come back, and what makes its exits doubtful.
#pragma once

#include <vector>

#include "runtime/image/code.h"
#include "runtime/image/function_code.h"

namespace mdl::image {

// What led to ranges, and is not looked for again.
struct Found {
  std::vector<JumpTable> tables;
  std::vector<LandingPad> pads;
};

// Takes the decoded instructions.
Code summarize(FunctionCode& code, const Found& found);

// Behind a call that does not come back, clang without optimization leaves a jump to nowhere: to the end of
// the function. The summary tells what such a jump does if it runs all the same.
bool leads_to_end(const FunctionCode& code, const Instruction& one);
void doubt_jump(FunctionCode& code, const Instruction& jump);

}  // namespace mdl::image
