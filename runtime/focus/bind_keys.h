// A focus with `*` in a hierarchy whose resources are numbers that are known only once they are seen: the
// keyed form of the constraint's code (compiler/passes/keyed_constraints.h) says which key is active, and the
// resident code keeps what each has counted (resident/key_table.h).
#pragma once

#include "runtime/focus/requests.h"

namespace mdl::focus {

// Whether the focus asks for all keys of a hierarchy.
bool has_keys(const ResolvedFocus& focus);

// An error where there are as many tables of keys as may be.
Result<void> room_for_keys(const Binding& binding);

Result<void> bind_keys(Requests& requests, const WantedMetric& wanted, const ResolvedFocus& focus);

}  // namespace mdl::focus
