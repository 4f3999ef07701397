// The functions in which a process spends its time, of those that can be measured.
//
// The instructions of a profile (process/profile.h) are mapped to functions by the tables of the image. A sample in a
// system call counts for the function that made it, as its time does. Functions of one name in one object are one, as
// they are in a focus. The busiest are bound and planned as they would be for a measurement, and those of which a point
// would be refused are left out, with the reason: another one takes the place.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/image/image.h"
#include "runtime/plan/plan.h"
#include "runtime/process/profile.h"

namespace mdl::inject {

struct BusyFunction {
  std::string focus;  // /Code/OBJECT/FUNCTION
  uint64_t samples = 0;
  std::string refused = {};  // why it cannot be measured; "" = it can
};

struct Busiest {
  std::vector<BusyFunction> chosen, refused;  // the busiest first
  uint64_t others = 0, in_others = 0;         // functions that are less busy, and their samples
  uint64_t in_no_function = 0;                // samples
};

// At most `most` of them, for these metrics of the plan.
Result<Busiest> find_busiest(const process::Profile& profile, const image::Image& image,
                             const plan::Plan& plan, const std::vector<std::string>& metrics,
                             const image::Memory& memory, size_t most);

}  // namespace mdl::inject
