#include "runtime/inject/dearest.h"

#include <algorithm>

namespace mdl::inject {

constexpr size_t kEnough = 10;  // hits to tell by

void DearestRequest::look(const values::Collector& values, const image::Memory& memory) {
  for (const values::Collector::Hit& hit : values.hits(memory)) {
    const auto [last, fresh] = last_.try_emplace(hit.slot, hit);
    if (!fresh && hit.request && hit.request == last->second.request && hit.taken > last->second.taken) {
      of_[*hit.request] += hit.taken - last->second.taken;
      ++seen_;
    }
    last->second = hit;
  }
}

std::optional<uint32_t> DearestRequest::request() const {
  if (seen_ < kEnough) return std::nullopt;
  const auto most = std::ranges::max_element(of_, {}, [](const auto& one) { return one.second; });
  return most == of_.end() ? std::nullopt : std::optional(most->first);
}

}  // namespace mdl::inject
