// What a manifest's parts say of each other: unique names, and every reference to
// something that is there.
#pragma once

#include <string>

#include "format/manifest.h"

namespace mdl::format {

// "" when all is well, otherwise what is wrong first. Recurses as deep as the trees are:
// the reader has limited that.
std::string check_references(const Manifest& manifest);

}  // namespace mdl::format
