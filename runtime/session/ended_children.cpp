#include "runtime/session/ended_children.h"

#include <algorithm>

#include "base/proc_text.h"
#include "base/say.h"
#include "runtime/kernel/proc_file.h"

namespace mdl::inject {

EndedChildren::EndedChildren(pid_t parent) : parent_(parent), before_(faults()) {}

void EndedChildren::say(std::span<const output::Point> points) const {
  const bool is_nothing = std::ranges::all_of(
      points, [](const output::Point& point) { return output::number(point.value).total == 0; });
  if (is_nothing && faults() > before_)
    mdl::say(
        stderr,
        "note: nothing was seen in process {}, but children of it have ended meanwhile: what they did is "
        "counted where they are measured, too (--follow-fork)\n",
        parent_);
}

uint64_t EndedChildren::faults() const {
  constexpr int kFaultsOfChildren = 11;  // cminflt
  return stat_number(kernel::proc_text(parent_, "stat"), kFaultsOfChildren).value_or(0);
}

}  // namespace mdl::inject
