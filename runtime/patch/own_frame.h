// Where the frame of a function lies at its calls, for code there that is about that frame (arch::is_about_own_frame).
//
// Call frame information says it: what unwinds the stack from inside of the call finds the function's caller by the same
// rule. At a call the frame may be found from the stack pointer or the frame pointer. Where it is computed in another
// way, because the function aligns its stack, say, or where there is no such information, code there is refused.
#pragma once

#include <string_view>

#include "runtime/patch/coverage.h"

namespace mdl::patch {

// Sets Site::frame of the sites before and behind calls whose code needs it, as far as it is known.
void find_own_frames(const plan::Plan& plan, FunctionPlan& f);

// Whether the snippet's code is about the function's own frame; and why it is refused where that is not known.
bool needs_own_frame(const plan::Plan& plan, const focus::BoundSnippet& snippet);
inline constexpr std::string_view kNoFrame =
    "where the function's frame lies at the call is not known from its call frame information";
bool lacks_frame(const Site& site);

}  // namespace mdl::patch
