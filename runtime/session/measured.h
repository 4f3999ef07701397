// What is measured of a process: requests of a plan, bound to what the process holds.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/focus/request.h"
#include "runtime/image/image.h"
#include "runtime/output/series.h"
#include "runtime/patch/coverage.h"
#include "runtime/plan/join.h"
#include "runtime/resident/key_table.h"
#include "runtime/resident/layout.h"

namespace mdl::inject {

// Requests of a plan of somebody else's, that are measured beside the session's own (guests.h).
struct GuestRequests {
  plan::Part part;                                              // whose metrics have its tag
  std::vector<std::string> metrics, foci, queries, spare = {};  // as of focus::BindOptions
  uint64_t max_keys = resident::kAsUsual;
  std::optional<double> budget;
  bool strict = false;
  output::Feed* feed = nullptr;  // that gets their points, until they have gone
};

struct Measured {
  const plan::Plan* own_plan = nullptr;  // the session's, which outlives it
  std::vector<GuestRequests> guests = {};
  std::shared_ptr<const plan::Plan> joined = {};  // of both; null where there are no guests
  image::Image image = {};                        // as far as it was read
  focus::BindOptions wanted = {};
  focus::Binding binding = {};
  patch::Coverage coverage = {};
  int64_t errno_at = 0;  // as of patch::InsertInput

  // What `binding` is of.
  const plan::Plan& plan() const { return joined ? *joined : *own_plan; }
};

// Those that were asked for, by which they can be asked for again.
std::vector<std::string> names_in(const focus::Binding& binding);
// By request: that gets its points, a guest's or the session's own.
std::vector<output::Feed*> feeds_of(const Measured& measured, output::Feed& own);
// Of the guests, whose metric it is.
bool is_of_guest(const Measured& measured, const std::string& metric);

}  // namespace mdl::inject
