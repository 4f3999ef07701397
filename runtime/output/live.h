// The table in place: for a terminal that can be drawn on again, and for its keys.
#pragma once

#include <memory>

#include "runtime/output/formats.h"

namespace mdl::output {

std::unique_ptr<Consumer> make_live(Sink& sink, const Look& look);

}  // namespace mdl::output
