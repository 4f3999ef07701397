#include "runtime/patch/own_frame.h"

#include <algorithm>
#include <map>

#include "runtime/arch/description.h"
#include "runtime/image/frames.h"

namespace mdl::patch {
namespace {

using format::PointKind;

constexpr int64_t kLargestFrame = 1 << 30;

bool is_at_call(const Site& site) {
  return site.kind == PointKind::call_before || site.kind == PointKind::call_after;
}

// At a call, in front of it.
std::optional<arch::OwnFrame> frame_at(const image::Object& object, uint64_t call) {
  const auto& frames = arch::kMachine.frames;
  const image::FrameTable* table = object.frame_table.get();
  const image::Fde* entry = table && !object.budget->is_spent() ? table->find(call) : nullptr;
  uint64_t steps = 1;
  const std::optional<image::CfaRule> cfa = entry ? table->cfa_at(*entry, call, steps) : std::nullopt;
  if (!object.budget->spend(steps) || !cfa || cfa->is_expression) return std::nullopt;
  const bool from_stack = cfa->base == frames.stack_pointer;
  if (!from_stack && cfa->base != frames.frame_pointer) return std::nullopt;
  if (cfa->offset < frames.cfa_at_entry || cfa->offset > kLargestFrame) return std::nullopt;
  return arch::OwnFrame{from_stack, static_cast<int32_t>(cfa->offset - frames.cfa_at_entry)};
}

// Whether the frame pointer is at the site what it was at the call.
bool keeps_frame_pointer(const image::Code& code, uint64_t call, const Site& site) {
  return std::ranges::none_of(code.instructions, [&](const image::Instruction& in) {
    return in.address > call && in.address < site.address &&
           (in.touches & image::register_bit(arch::kMachine.frame_pointer)) != 0;
  });
}

}  // namespace

void find_own_frames(const plan::Plan& plan, FunctionPlan& f) {
  std::map<uint64_t, std::optional<arch::OwnFrame>> known;  // by the calls' addresses
  for (Window& window : f.sites.windows)
    for (Site& site : window.sites) {
      const FunctionPlan::Point& point = f.points[site.point];
      if (!is_at_call(site) || std::ranges::none_of(point.snippets, [&](const focus::BoundSnippet& snippet) {
            return needs_own_frame(plan, snippet);
          }))
        continue;
      const uint64_t call = point.wanted.place;
      const auto [found, fresh] = known.try_emplace(call);
      if (fresh) found->second = frame_at(*f.object, call);
      site.frame = found->second;
      const bool is_behind = site.kind == PointKind::call_after;
      if (site.frame && !site.frame->from_stack && is_behind && !keeps_frame_pointer(*f.code, call, site))
        site.frame.reset();
    }
}

bool needs_own_frame(const plan::Plan& plan, const focus::BoundSnippet& snippet) {
  return arch::is_about_own_frame(plan.stencils[snippet.stencil]);
}

bool lacks_frame(const Site& site) {
  return is_at_call(site) && site.arming != arch::Arming::arm && !site.frame;
}

}  // namespace mdl::patch
