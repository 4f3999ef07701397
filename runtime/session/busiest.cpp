#include "runtime/session/busiest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/arch/clock.h"
#include "runtime/focus/request.h"
#include "runtime/image/codes.h"
#include "runtime/patch/coverage.h"

namespace mdl::inject {
namespace {

constexpr size_t kTries = 3;  // candidates for each place

struct Candidate {
  BusyFunction function;
  std::set<uint64_t> addresses;  // of functions
};

std::vector<Candidate> candidates(const process::Profile& profile, const image::Image& image,
                                  uint64_t& in_no_function) {
  std::map<std::string, Candidate> by_focus;
  for (const auto& [address, samples] : profile.samples) {
    const image::Object* object = image::object_at(image, address);
    const image::Function* function = object ? image::function_at(*object, address) : nullptr;
    if (!function) {
      in_no_function += samples;
      continue;
    }
    const std::string focus = fmt::format("/Code/{}/{}", object->name, function->name);
    Candidate& one = by_focus[focus];
    one.function.focus = focus;
    one.function.samples += samples;
    one.addresses.insert(function->address);
    if (object->is_go) one.function.refused = "it is Go code";
  }
  std::vector<Candidate> out;
  for (auto& [focus, one] : by_focus) out.push_back(std::move(one));
  std::stable_sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) {
    return a.function.samples > b.function.samples;
  });
  return out;
}

std::vector<std::string> metrics_at(const std::vector<std::string>& metrics, const std::string& focus) {
  std::vector<std::string> out;
  for (const std::string& metric : metrics) out.push_back(focus::request_text(metric, focus));
  return out;
}

}  // namespace

Result<Busiest> find_busiest(const process::Profile& profile, const image::Image& image,
                             const plan::Plan& plan, const std::vector<std::string>& metrics,
                             const image::Memory& memory, size_t most) {
  Busiest out;
  std::vector<Candidate> all = candidates(profile, image, out.in_no_function);
  const size_t tried = std::min(all.size(), most * kTries);
  image::Codes codes(image, memory);
  focus::BindOptions alone;
  alone.ps_per_cycle = arch::picoseconds_per_cycle();
  focus::BindOptions together = alone;
  for (size_t i = 0; i < tried; ++i) {
    BusyFunction& function = all[i].function;
    if (!function.refused.empty()) continue;
    alone.metrics = metrics_at(metrics, function.focus);
    if (auto bound = focus::bind(plan, image, alone, &codes); !bound)
      function.refused = bound.error().text;
    else
      together.metrics.insert(together.metrics.end(), alone.metrics.begin(), alone.metrics.end());
  }
  if (!together.metrics.empty()) {
    auto bound = focus::bind(plan, image, together, &codes);
    if (!bound) return bound.error();
    const patch::Coverage coverage = patch::plan_coverage(plan, *bound, image, memory, codes);
    for (const patch::RefusedSite& site : coverage.refused)
      for (size_t i = 0; i < tried; ++i)
        if (all[i].function.refused.empty() && all[i].addresses.contains(site.function->address))
          all[i].function.refused = site.reason;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    BusyFunction& function = all[i].function;
    if (i < tried && !function.refused.empty()) {
      out.refused.push_back(std::move(function));
    } else if (i < tried && out.chosen.size() < most) {
      out.chosen.push_back(std::move(function));
    } else {
      out.others++;
      out.in_others += function.samples;
    }
  }
  return out;
}

}  // namespace mdl::inject
