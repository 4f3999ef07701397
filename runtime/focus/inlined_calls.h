// Functions that the compiler has inlined in some places only. They have code of their own, and are counted there, but
// calls in those places are missing. Debug information tells; it is read while something else is done.
#pragma once

#include <string>
#include <vector>

#include "runtime/focus/request.h"
#include "runtime/image/debug_info.h"
#include "runtime/image/image.h"

namespace mdl::focus {

struct InlinedCalls {
  std::string name;                  // demangled, without parameters,
  std::vector<std::string> holders;  // and so are these
};

class InlinedSearch {
 public:
  // For the functions that metrics with few lines are about. No more than 128 MB of debug information are read for an
  // object, and for no more than 2 seconds of processor time.
  InlinedSearch(const Binding& binding, const image::Image& image);

  bool is_over() const;
  // Waits until it is; once.
  std::vector<InlinedCalls> take();

 private:
  struct Asked {  // of an object
    image::FileDebugInfo info;
    std::vector<std::string> names;
  };
  std::vector<Asked> asked_;
};

}  // namespace mdl::focus
