#include "runtime/patch/trampoline.h"

#include <fmt/format.h>

#include "runtime/patch/layout.h"

namespace mdl::patch {
namespace {

using image::Flow;

class Builder {
 public:
  Builder(const Liveness& liveness, const PointPieces& pieces, const TrampolineContext& context,
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

  void point(const Site& site) {
    bool entry = site.kind == format::PointKind::entry;
    const auto& pieces = entry ? pieces_.entry : pieces_.exit;
    if (!pieces.empty())
      slow_paths_.push_back(arch::emit_point(out_.code, here(), pieces, *context_.guard, site.kind,
                                             liveness_.before(site.address, entry), context_.lookup,
                                             kAnomalies, out_.stencils));
    if (entry && context_.hook) arch::emit_call(out_.code, here(), context_.hook);
  }

  bool instruction(const Window& window, const image::Instruction& in) {
    const Site* conditional_exit = nullptr;
    for (const Site& site : window.sites) {
      if (site.address != in.address) continue;
      if (site.kind == format::PointKind::return_ && site.exit == image::ExitKind::tail_branch)
        conditional_exit = &site;
      else
        point(site);
    }
    if (window.tactic == Tactic::call) {  // the call's own return address is where it was: only go on
      arch::emit_jump(out_.code, here(), in.target);
      return true;
    }
    if (!conditional_exit) return arch::emit_displaced(out_.code, here(), in);
    size_t field = arch::emit_inverted_branch(out_.code, here(), in);
    point(*conditional_exit);
    arch::emit_jump(out_.code, here(), in.target);
    arch::fill_branch(out_.code, here(), field);
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
  return Builder(liveness, pieces, context, address).build(window);
}

}  // namespace mdl::patch
