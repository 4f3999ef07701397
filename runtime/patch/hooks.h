// Which functions of the process get code of ours at their entries, or their returns, whatever is asked for
// (arch::Hook): those through which it ends, makes frames vanish, or changes what code of metrics may do.
#pragma once

#include <optional>

#include "runtime/arch/resident.h"
#include "runtime/image/image.h"

namespace mdl::patch {

// The function that Rust's std::panic::catch_unwind calls where it has caught, as its versions name it, and the one
// that this calls, which stays where link-time optimization has taken the first one in. In a stripped program a caught
// panic is not seen.
bool is_rust_catch(const image::Function& function);

// Whether it is about frames that vanish.
bool unwinds(arch::Hook hook);

// Which one a function of this object gets, where frames that vanish matter (`flags`), and children are followed.
class HookChoice {
 public:
  HookChoice(const image::Object& object, bool flags, bool follow)
      : object_(object), flags_(flags), follow_(follow) {}

  arch::Hook operator()(const image::Function& function);

 private:
  const image::Object& object_;
  bool flags_, follow_;
  std::optional<bool> library_;  // once it matters
};

// Notes that the objects are wanted whole (image.h) of which functions are hooked in any case.
void want_hooked(const image::Image& image, bool follow);

}  // namespace mdl::patch
