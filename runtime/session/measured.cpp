#include "runtime/session/measured.h"

#include <algorithm>

#include "runtime/focus/continuation.h"

namespace mdl::inject {
namespace {

auto guest_of(const Measured& measured, const std::string& metric) {
  return std::ranges::find_if(measured.guests,
                              [&](const GuestRequests& one) { return plan::has_metric(one.part, metric); });
}

}  // namespace

std::vector<std::string> names_in(const focus::Binding& binding) {
  std::vector<std::string> out;
  for (const focus::BoundRequest& request : binding.requests)
    if (request.of == focus::BoundRequest::kNone) out.push_back(focus::text_of(request));
  return out;
}

std::vector<output::Feed*> feeds_of(const Measured& measured, output::Feed& own) {
  std::vector<output::Feed*> out;
  for (const focus::BoundRequest& request : measured.binding.requests) {
    const auto guest = guest_of(measured, request.metric);
    out.push_back(guest == measured.guests.end() ? &own : guest->feed);
  }
  return out;
}

bool is_of_guest(const Measured& measured, const std::string& metric) {
  return guest_of(measured, metric) != measured.guests.end();
}

}  // namespace mdl::inject
