#include "runtime/session/key_names.h"

#include <algorithm>
#include <initializer_list>

namespace mdl::inject {
namespace {

using enum format::KeyName;

bool has_key(const plan::Plan& plan, std::initializer_list<format::KeyName> names) {
  return std::ranges::any_of(plan.manifest.metrics, [&](const format::Metric& metric) {
    return std::ranges::any_of(metric.keys, [&](const format::MetricKey& key) {
      return std::ranges::find(names, key.name) != names.end();
    });
  });
}

}  // namespace

bool asks_for_any_address(const plan::Plan& plan) {
  return has_key(plan, {symbol, caller});
}

std::shared_ptr<const image::AddressNames> names_of_keys(const plan::Plan& plan, const image::Image& image) {
  if (!has_key(plan, {symbol, caller, path, module})) return nullptr;
  return std::make_shared<image::AddressNames>(image::AddressNames::of(image, has_key(plan, {symbol})));
}

}  // namespace mdl::inject
