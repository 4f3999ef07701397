#include "runtime/session/key_names.h"

#include <algorithm>

namespace mdl::inject {
namespace {

using enum format::KeyName;

template <typename Is>
bool has_key(const plan::Plan& plan, Is is) {
  const auto has = [&](const plan::Plan& one) {
    return std::ranges::any_of(one.manifest.metrics, [&](const format::Metric& metric) {
      return std::ranges::any_of(metric.keys, is, &format::MetricKey::name);
    });
  };
  return has(plan) ||
         std::ranges::any_of(plan.parts, [&](const plan::Part& part) { return has(*part.plan); });
}

bool is_variable(format::KeyName name) {
  return name == symbol || name == memory || format::is_lock(name);
}
bool is_address(format::KeyName name) {
  return is_variable(name) || name == caller || name == site;
}
bool is_named(format::KeyName name) {
  return is_address(name) || name == path || name == module;
}

}  // namespace

bool asks_for_any_address(const focus::Binding& binding) {
  return std::ranges::any_of(binding.key_tables, [](const focus::KeyTable& table) {
    return std::ranges::any_of(table.names, is_address);
  });
}

std::shared_ptr<const image::AddressNames> names_of_keys(const plan::Plan& plan, const image::Image& image) {
  if (!has_key(plan, is_named)) return nullptr;
  return std::make_shared<image::AddressNames>(image::AddressNames::of(image, has_key(plan, is_variable)));
}

}  // namespace mdl::inject
