// Which cells and requests of a binding go on in another one of the same process, when requests have come or
// gone in between.
//
// A request goes on when both bindings have it. A cell goes on when requests that go on use it in both: it has
// the same label and kind there, and the same of these requests use it. Its value is kept, whoever else used
// it before or does now.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "runtime/focus/request.h"

namespace mdl::focus {

// By index in the binding after the change: the index before it.
struct Kept {
  std::vector<std::optional<uint32_t>> cells, requests;
};

// An error when a cell of a request that goes on cannot be told from another one, or is not there any more.
Result<Kept> kept_in(const Binding& before, const Binding& after);

// A request by which it can be asked for again: METRIC@FOCUS, or METRIC for the whole program.
std::string text_of(const BoundRequest& request);

}  // namespace mdl::focus
