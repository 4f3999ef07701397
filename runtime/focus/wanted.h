// The requests that the options name, before anything is asked of the process.
#pragma once

#include <vector>

#include "runtime/focus/request.h"

namespace mdl::focus {

struct WantedMetric {
  const format::Metric* metric = nullptr;
  Focus focus;
  bool named = false;  // the user asked for this metric by name
  bool whole = false;  // each function that it names must be there
};

// The flavor that the options mean: unix unless they say another.
std::string flavor_of(const BindOptions& options);

// The metrics and foci that the options name, in their order; without metrics, all of the flavor.
Result<std::vector<WantedMetric>> read_options(const plan::Plan& plan, const BindOptions& options);

}  // namespace mdl::focus
