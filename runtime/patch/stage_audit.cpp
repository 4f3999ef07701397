#include "runtime/patch/stage_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/audit/audit.h"

namespace mdl::patch {
namespace {

audit::Proposal proposal_of(const Stage& stage) {
  audit::Proposal out;
  for (const StagedWindow& window : stage.windows) {
    out.edits.push_back({window.window->start, window.original, window.patched});
    if (window.relay.address)
      out.edits.push_back({window.relay.address, window.relay.original, window.relay.patched});
    const Trampoline& trampoline = window.trampoline;
    audit::Detour detour{{trampoline.address, trampoline.address + trampoline.code.size()}, {}};
    for (size_t i = 0; i < trampoline.moved.size(); i++)
      detour.displaced.push_back(
          {trampoline.moved[i].first, trampoline.moved[i].second, trampoline.copies[i]});
    out.detours.push_back(std::move(detour));
  }
  std::ranges::sort(out.edits, {}, &audit::Edit::address);
  std::ranges::sort(out.detours, {}, [](const audit::Detour& one) { return one.code.start; });
  for (size_t i = 0; i < stage.islands.size(); i++)
    out.code.push_back({stage.islands[i].start, stage.island_code[i]});
  for (const ReusedStubs& reused : stage.reused) out.code.push_back({reused.at.start, reused.after});
  return out;
}

std::map<uint64_t, const FunctionPlan*> owners_of_edits(const Stage& stage) {
  std::map<uint64_t, const FunctionPlan*> out;
  for (const StagedWindow& window : stage.windows) {
    out[window.window->start] = window.function;
    if (window.relay.address) out[window.relay.address] = window.function;
  }
  return out;
}

}  // namespace

Result<uint64_t> audit_stage(const InsertInput& input, const image::Memory& memory, Stage& stage) {
  const audit::Proposal proposal = proposal_of(stage);
  const auto objections = audit::audit(proposal, input.image, memory);
  if (objections.empty()) return uint64_t{0};
  if (std::ranges::any_of(objections, &audit::Objection::is_stale))
    return Error{fmt::format("the code of process {} changed while the insertion was prepared: try again",
                             input.image.pid),
                 Status::failed, true};
  const auto owners = owners_of_edits(stage);
  std::map<const FunctionPlan*, std::string> refused;
  for (const audit::Objection& objection : objections) {
    const uint64_t address = proposal.edits[objection.edit].address;
    refused.try_emplace(owners.at(address),
                        fmt::format("the audit of the patch at {:#x} says: {}", address, objection.reason));
  }
  const size_t before = input.coverage.refused.size();
  give_up(stage, input.coverage, refused);
  return input.coverage.refused.size() - before;
}

std::string audit_warning(uint64_t points) {
  return fmt::format(
      "{} refused by the audit of what was to be written, and not instrumented. Text and tables among code "
      "that was written in assembly (libcrypto, libgcrypt) may look like a short jump, and a number like an "
      "address. Where the reason that --dry-run prints is neither a short jump nor a word of data, it is an "
      "error of mdl-inject: please report it with what --dry-run prints for this request",
      points == 1 ? "1 point was" : fmt::format("{} points were", points));
}

Result<uint64_t> rehearse(const InsertInput& input, const image::Memory& memory) {
  auto mappings = image::read_maps(input.image.pid);
  if (!mappings) return mappings.error();
  auto stage = build_stage(input, *mappings, kApart);
  if (!stage) return stage.error();
  return audit_stage(input, memory, *stage);
}

}  // namespace mdl::patch
