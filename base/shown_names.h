// How names stand in what is said on standard error: linkage names are for linkers, and people read others. Who knows
// how to demangle says so at the start; this folder does not.
#pragma once

#include <string>
#include <string_view>

namespace mdl {

using ShowNames = std::string (*)(std::string_view text);
void show_names_by(ShowNames shown);

}  // namespace mdl
