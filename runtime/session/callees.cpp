#include "runtime/session/callees.h"

#include <fmt/format.h>

#include "runtime/image/codes.h"
#include "runtime/image/tail_targets.h"

namespace mdl::inject {
namespace {

constexpr size_t kMostCallees = 16;  // one more timer each: resident/spare_cells.h

bool leaves(image::Flow flow) {
  using enum image::Flow;
  return flow == call || flow == call_indirect || flow == jump || flow == jump_indirect;
}

void count_calls(const image::Object& object, const image::Function& function, image::Codes& codes,
                 image::TailTargets& targets, process::Profile& calls) {
  for (image::Instruction one : codes.of(object, function).instructions) {
    if (!leaves(one.flow)) continue;
    if (one.flow == image::Flow::call_indirect) one.flow = image::Flow::jump_indirect;
    const image::TailTarget target = targets.of(object, one);
    if (target.function && target.function != &function) calls.samples[target.function->address]++;
  }
}

}  // namespace

Result<Busiest> find_callees(const std::vector<std::string>& foci, const image::Image& image,
                             const plan::Plan& plan, const std::vector<std::string>& metrics,
                             const image::Memory& memory) {
  image::Codes codes(image, memory);
  image::TailTargets targets(image, memory);
  process::Profile calls;
  for (const std::string& focus : foci) {
    bool found = false;
    for (const image::Object& object : image.objects) {
      const std::string path = fmt::format("/Code/{}/", object.name);
      if (!focus.starts_with(path)) continue;
      for (const image::Function& function : object.functions) {
        if (focus.substr(path.size()) != function.name) continue;
        found = true;
        count_calls(object, function, codes, targets, calls);
      }
    }
    if (!found) return Error{fmt::format("{} is no function", focus)};
  }
  return find_busiest(calls, image, plan, metrics, memory, kMostCallees);
}

}  // namespace mdl::inject
