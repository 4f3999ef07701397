#include "runtime/focus/vector.h"

#include <algorithm>

namespace mdl::focus {

const Resource* varying(const ResolvedFocus& focus) {
  const Resource* found = nullptr;
  for (const Resource& resource : focus.resources) {
    if (!resource.fitted) continue;
    if (found) return nullptr;
    found = &resource;
  }
  return found;
}

bool may_vary_together(const std::vector<ResolvedFocus>& foci) {
  return !foci.empty() && std::all_of(foci.begin(), foci.end(), [](const ResolvedFocus& focus) {
    const Resource* resource = varying(focus);
    return resource && resource->path[0] == "Code";
  });
}

}  // namespace mdl::focus
