// Children of a measured process that are not measured themselves.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "runtime/output/series.h"

namespace mdl::inject {

class EndedChildren {
 public:
  explicit EndedChildren(pid_t parent);
  // A note on standard error, where all values are 0 and children have ended since: they may have done what was looked
  // for. Which processes end is told by the page faults that the kernel adds to the parent's when it waits for them.
  void say(std::span<const output::Point> points) const;

 private:
  uint64_t faults() const;

  pid_t parent_;
  uint64_t before_;
};

}  // namespace mdl::inject
