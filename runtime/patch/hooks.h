// Which functions of the process get code of ours at their entries, or their returns, whatever is asked for
// (arch::Hook): those through which it ends, makes frames vanish, or changes what code of metrics may do.
#pragma once

#include <vector>

#include "runtime/arch/resident.h"
#include "runtime/image/image.h"
#include "runtime/image/memory.h"

namespace mdl::patch {

// The function that Rust's std::panic::catch_unwind calls where it has caught, as its versions name it, and the one
// that this calls, which stays where link-time optimization has taken the first one in. In a stripped program a caught
// panic is not seen.
bool is_rust_catch(const image::Function& function);

// Whether it is about frames that vanish.
bool unwinds(arch::Hook hook);

struct HookedFunction {
  const image::Function* function;
  arch::Hook hook;
};
struct HookScope {
  bool flags = false;        // frames that vanish matter
  bool follow = false;       // children are followed
  bool has_library = false;  // has_named_library
};
// Whether the process has a C library with names.
bool has_named_library(const image::Image& image);
// Those of an object. What has no name is known by its code (arch/hooked_code.h), if it is about frames that vanish.
std::vector<HookedFunction> hooked_functions(const image::Object& object, const image::Memory& memory,
                                             const HookScope& scope);

// Notes that the objects are wanted whole (image.h) of which functions are hooked in any case.
void want_hooked(const image::Image& image, bool follow);

}  // namespace mdl::patch
