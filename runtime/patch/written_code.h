// Code that the program or its loader has written: text relocations, sleds that a library patches.
#pragma once

#include <vector>

#include "runtime/image/image.h"
#include "runtime/patch/coverage.h"

namespace mdl::patch {

// Which of the functions have a window over bytes that are not those of their file. If mdl-inject were killed,
// nobody could take such a window out: a removal by the journal, which the program might have forged, writes
// what the file has and nothing else (recover.h).
std::vector<bool> over_written_code(const std::vector<FunctionPlan>& functions, const image::Image& image,
                                    const image::Memory& memory);

}  // namespace mdl::patch
