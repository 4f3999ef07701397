// The requests of a plan that was joined of several (plan/join.h): each part is bound by itself, and the bindings are
// put together. What one part's code does at a point depends on nothing that another's does there.
#pragma once

#include "runtime/focus/request.h"

namespace mdl::focus {

// By BindOptions::metrics, which must name them all.
Result<Binding> bind_joined(const plan::Plan& plan, const image::Image& image, const BindOptions& options,
                            image::Codes* codes);

// Appends what another part has, whose stencils begin there; its cells' labels get the tag.
void append(Binding& to, Binding part, uint32_t first_stencil, const std::string& tag);

}  // namespace mdl::focus
