// Code that gives a thread another thread pointer for a while, as emulators and programs that stand in for an operating
// system do. A hit finds the thread's block by it: what runs meanwhile would fault there, or count for another thread.
#pragma once

#include <vector>

#include "runtime/image/memory.h"
#include "runtime/patch/coverage.h"

namespace mdl::patch {

// Which of the functions belong to an object that has such code. That of others runs meanwhile, if at all, where it has
// no variables of a thread and no stack protector.
std::vector<bool> with_changed_pointer(const std::vector<FunctionPlan>& functions,
                                       const image::Memory& memory);

}  // namespace mdl::patch
