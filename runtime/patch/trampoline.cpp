#include "runtime/patch/trampoline.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/arch/description.h"
#include "runtime/arch/displacement.h"
#include "runtime/resident/layout.h"

namespace mdl::patch {
namespace {

using image::Flow;

class TrampolineBuilder {
 public:
  TrampolineBuilder(const Liveness& liveness, const PointPieces& pieces, const TrampolineContext& context,
                    uint64_t address)
      : liveness_(liveness), pieces_(pieces), context_(context) {
    out_.address = address;
  }

  Result<Trampoline> build(const Window& window) {
    bool falls_through = true;
    for (const image::Instruction& in : window.instructions) {
      out_.moved.emplace_back(in.address, here());
      if (!instruction(window, in))
        return Error{
            fmt::format("the instruction at {:#x} refers to data that the trampoline at {:#x} cannot reach",
                        in.address, out_.address)};
      falls_through = in.flow != Flow::return_ && in.flow != Flow::jump && in.flow != Flow::jump_indirect;
    }
    if (falls_through && window.tactic != Tactic::call) arch::emit_jump(out_.code, here(), window.end);
    for (const arch::SlowPath& slow : slow_paths_)
      arch::emit_slow_path(out_.code, here(), slow, context_.lookup);
    return std::move(out_);
  }

 private:
  uint64_t here() const { return out_.address + out_.code.size(); }

  // Liveness is asked at `at`: an instruction before which the registers are as they are here.
  void point(const Window& window, const Site& site, uint64_t at) {
    bool entry = site.kind == format::PointKind::entry;
    bool arms = site.arming == arch::Arming::arm;  // the code runs behind the call
    arch::PointFrame frame{
        frame_distance(window, site), site.arming, site.returns_to, context_.calls, {}, {}};
    std::vector<arch::Piece> pieces = arms ? std::vector<arch::Piece>() : pieces_[site.point];
    frame.deferral = deferral(site);
    frame.own = site.frame;
    if (frame.own && frame.own->from_stack && window.tactic == Tactic::call)
      frame.own->offset += arch::kMachine.call_pushes;
    // A call keeps nothing there, nor does a return. A jump may lead to a part of the same function.
    frame.below_is_dead =
        entry ? !context_.may_be_part : site.kind == format::PointKind::return_ && !is_tail_jump(site);
    frame.ends_deferred =
        context_.ends_deferred && site.kind == format::PointKind::return_ && !is_tail_jump(site);
    if (is_tail_jump(site))
      std::erase_if(pieces, [](const arch::Piece& piece) { return piece.stencil->info.uses_result; });
    if (arms || !pieces.empty() || frame.ends_deferred) emit(pieces, liveness_.before(at, entry), frame);
    if (!context_.hook || !is_hooked(site)) return;
    arch::emit_call(out_.code, here(), context_.hook);
    frame.arming = context_.hooked == arch::Hook::catch_ ? arch::Arming::catch_
                   : context_.hooked == arch::Hook::jump ? arch::Arming::jump
                                                         : arch::Arming::none;
    if (context_.calls && frame.arming != arch::Arming::none) emit({}, liveness_.before(at, entry), frame);
  }

  // At a tail jump of vfork the child is there (musl's goes to what sets errno); what posix_spawn jumps to begins it.
  bool is_hooked(const Site& site) const {
    return site.kind == arch::point_of(context_.hooked) &&
           (context_.hooked == arch::Hook::vfork || !is_tail_jump(site));
  }

  const arch::Deferral* deferral(const Site& site) const {
    if (!context_.deferrals || !is_tail_jump(site)) return nullptr;
    auto known = context_.deferrals->find(site.address);
    return known == context_.deferrals->end() ? nullptr : &known->second;
  }

  void emit(std::span<const arch::Piece> pieces, image::Registers live, const arch::PointFrame& frame) {
    slow_paths_.push_back(arch::emit_point(out_.code, here(), pieces, *context_.guard, live, context_.lookup,
                                           kBlockAnomalies, out_.stencils, frame));
  }

  // From the stack pointer to where the return address of the frame lies that the point is about: of the
  // function itself, which is there at its entry and its returns, or of what it calls.
  static int32_t frame_distance(const Window& window, const Site& site) {
    bool of_callee =
        site.kind == format::PointKind::call_before || site.kind == format::PointKind::call_after;
    return (of_callee ? -arch::kMachine.call_pushes : 0) +
           (window.tactic == Tactic::call ? arch::kMachine.call_pushes : 0) +
           static_cast<int32_t>(site.deeper);
  }

  bool has(const Window& window, const image::Instruction& in, Where where) const {
    return std::any_of(window.sites.begin(), window.sites.end(),
                       [&](const Site& site) { return site.address == in.address && site.where == where; });
  }
  void points(const Window& window, const image::Instruction& in, Where where) {
    uint64_t at = where == Where::behind ? in.address + in.size : in.address;
    for (const Site& site : window.sites)
      if (site.address == in.address && site.where == where) point(window, site, at);
  }

  bool instruction(const Window& window, const image::Instruction& in) {
    points(window, in, Where::before);
    out_.copies.push_back(here());
    if (window.tactic == Tactic::call)  // the call's own return address is where it was: only go on
      return arch::emit_turned(out_.code, here(), in);
    if (has(window, in, Where::taken)) {
      size_t field = arch::emit_inverted_branch(out_.code, here(), in);
      points(window, in, Where::taken);
      arch::emit_jump(out_.code, here(), in.target);
      arch::fill_branch(out_.code, here(), field);
    } else if (!arch::emit_displaced(out_.code, here(), in)) {
      return false;
    }
    points(window, in, Where::behind);
    return true;
  }

  const Liveness& liveness_;
  const PointPieces& pieces_;
  const TrampolineContext& context_;
  Trampoline out_;
  std::vector<arch::SlowPath> slow_paths_;
};

}  // namespace

Result<Trampoline> build_trampoline(const Window& window, const Liveness& liveness, const PointPieces& pieces,
                                    const TrampolineContext& context, uint64_t address) {
  return TrampolineBuilder(liveness, pieces, context, address).build(window);
}

}  // namespace mdl::patch
