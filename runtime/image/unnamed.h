// Functions that no symbol names: in stripped files, and the local ones of libraries whose .symtab is gone.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/image/elf.h"
#include "runtime/image/frames.h"
#include "runtime/image/image.h"

namespace mdl::image {

// Adds a function for each FDE in whose range no function lies and that is no part of one. Its name is
// `sub_` and its address in the file, in hex, as disassemblers write it; the program's entry point is
// `_start`. `functions` are by address, before and after.
void add_unnamed_functions(const ElfFile& file, uint64_t bias, const FrameTable& frames, const Budget& budget,
                           std::vector<Function>& functions);

}  // namespace mdl::image
