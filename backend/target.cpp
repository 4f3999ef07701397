#include "backend/target.h"

#include "backend/x86_64/x86_64.h"
#include "compiler/ir/op_info.h"

namespace mdl::backend {
namespace {

constexpr const Target* kTargets[] = {&x86_64::kTarget};

}  // namespace

Counted::Counted(ir::Snippet from)
    : snippet(std::move(from)), writes(snippet.temps, 0), reads(snippet.temps, 0) {
  for (const ir::Inst& inst : snippet.insts) {
    if (ir::info(inst.op).defines) writes[inst.dst]++;
    ir::each_use(inst, [&](ir::Temp temp) { reads[temp]++; });
  }
}

const Target* find_target(std::string_view name) {
  for (const Target* target : kTargets)
    if (target->name == name) return target;
  return nullptr;
}

std::span<const Target* const> all_targets() {
  return kTargets;
}

}  // namespace mdl::backend
