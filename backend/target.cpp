#include "backend/target.h"

#include <algorithm>

#include "backend/aarch64/aarch64.h"
#include "backend/riscv64/riscv64.h"
#include "backend/x86_64/x86_64.h"
#include "compiler/ir/op_info.h"

namespace mdl::backend {
namespace {

constexpr const Target* kTargets[] = {&x86_64::kTarget, &aarch64::kTarget, &riscv64::kTarget};

}  // namespace

Counted::Counted(ir::Snippet from)
    : snippet(std::move(from)), writes(snippet.temps, 0), reads(snippet.temps, 0) {
  for (const ir::Inst& inst : snippet.insts) {
    if (ir::info(inst.op).defines) writes[inst.dst]++;
    ir::each_use(inst, [&](ir::Temp temp) { reads[temp]++; });
  }
}

bool Counted::is_fused(size_t at) const {
  const std::vector<ir::Inst>& insts = snippet.insts;
  if (insts[at].op < ir::Op::eq || insts[at].op > ir::Op::ge || at + 1 >= insts.size()) return false;
  ir::Temp dst = insts[at].dst;
  return insts[at + 1].op == ir::Op::jump_zero && insts[at + 1].a == ir::Operand::temp(dst) &&
         writes[dst] == 1 && reads[dst] == 1;
}

std::optional<format::Routine> routine(const ir::Snippet& snippet, const ir::Inst& inst) {
  switch (inst.op) {
    case ir::Op::start_timer:
    case ir::Op::stop_timer: {
      const format::CellClock clock = format::info(snippet.cells[inst.index].kind).clock;
      if (clock == format::CellClock::wall) return std::nullopt;
      return clock == format::CellClock::cpu ? format::Routine::cpu : format::Routine::event;
    }
    case ir::Op::sample_event:
      return format::Routine::event;
    case ir::Op::update:
      return format::info(snippet.cells[inst.index].kind).update;
    case ir::Op::enter:
      return format::Routine::enter;
    case ir::Op::kept:
      return format::Routine::kept;
    case ir::Op::elapsed:
      return format::Routine::elapsed;
    case ir::Op::stayed:
      return format::Routine::stayed;
    case ir::Op::pause:
      return format::Routine::pause;
    case ir::Op::resume:
      return format::Routine::resume;
    case ir::Op::cpu:
      return format::Routine::cpu;
    case ir::Op::now:
      return format::Routine::now;
    case ir::Op::error:
      return format::Routine::error;
    case ir::Op::read_address:
      return format::Routine::read;
    case ir::Op::call:
      return format::Routine::call;
    default:
      return std::nullopt;
  }
}

bool takes_cell(ir::Op op) {
  using enum ir::Op;
  return op == update || op == enter || op == kept || op == elapsed || op == stayed || op == pause ||
         op == resume;
}

Register register_named(std::span<const std::string_view> registers, std::string_view word) {
  const auto found = std::ranges::find(registers, word);
  return found == registers.end() ? kNoRegister : static_cast<Register>(found - registers.begin());
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
