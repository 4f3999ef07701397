// References between a manifest's parts: names are unique, and every reference is to a part that is there.
#pragma once

#include <string>

#include "format/manifest.h"

namespace mdl::format {

// "" when all is well, otherwise what is wrong first. Recurses as deep as the trees are:
// the reader has limited that.
std::string check_references(const Manifest& manifest);

}  // namespace mdl::format
