// The names of keys that are addresses: what lies there, whichever objects these are in.
#pragma once

#include <memory>

#include "runtime/focus/request.h"
#include "runtime/image/address_names.h"
#include "runtime/plan/plan.h"

namespace mdl::inject {

// Whether a key of the requests may be an address anywhere, so that all functions of the image must be known.
bool asks_for_any_address(const focus::Binding& binding);

// Null where no key of the plan is an address.
std::shared_ptr<const image::AddressNames> names_of_keys(const plan::Plan& plan, const image::Image& image);

}  // namespace mdl::inject
