// One walk forward. A fact holds at a label when it holds, equal, on every jump to it and
// on the way that falls into it; all jumps come before it.
//
// A known value is an operand: an immediate, or another temporary that the temporary is a
// copy of. The latter holds as long as neither of the two is written again.
#include "compiler/passes/constant_fold.h"

#include <map>
#include <optional>

#include "compiler/ir/op_info.h"

namespace mdl::passes {
namespace {

using ir::Inst;
using ir::Op;
using ir::Operand;
using Known = std::map<ir::Temp, Operand>;  // ordered: results do not depend on hashing

void forget(Known& known, ir::Temp temp) {
  known.erase(temp);
  std::erase_if(known, [&](const auto& entry) { return entry.second == Operand::temp(temp); });
}

void meet(Known& into, const Known& other) {
  std::erase_if(into, [&](const auto& entry) {
    auto found = other.find(entry.first);
    return found == other.end() || found->second != entry.second;
  });
}

// Where a jump_zero leads, its condition is 0.
void learn_zero(Known& known, const Operand& condition) {
  if (condition.kind == Operand::Kind::temp) known[static_cast<ir::Temp>(condition.value)] = Operand::imm(0);
}

// The operand that an operation copies where one operand alone decides.
std::optional<Operand> identity(const Inst& inst) {
  const Operand& a = inst.a;
  const Operand& b = inst.b;
  bool same = a == b;
  switch (inst.op) {
    case Op::add:
      if (is_imm(b, 0)) return a;
      if (is_imm(a, 0)) return b;
      break;
    case Op::sub:
      if (is_imm(b, 0)) return a;
      if (same) return Operand::imm(0);
      break;
    case Op::mul:
      if (is_imm(b, 1)) return a;
      if (is_imm(a, 1)) return b;
      if (is_imm(a, 0) || is_imm(b, 0)) return Operand::imm(0);
      break;
    case Op::div:
      if (is_imm(b, 1)) return a;
      if (is_imm(b, 0) || is_imm(a, 0)) return Operand::imm(0);
      break;
    case Op::and_:
      if (same || is_imm(b, -1)) return a;
      if (is_imm(a, -1)) return b;
      if (is_imm(a, 0) || is_imm(b, 0)) return Operand::imm(0);
      break;
    case Op::or_:
      if (same || is_imm(b, 0)) return a;
      if (is_imm(a, 0)) return b;
      if (is_imm(a, -1) || is_imm(b, -1)) return Operand::imm(-1);
      break;
    case Op::xor_:
      if (is_imm(b, 0)) return a;
      if (is_imm(a, 0)) return b;
      if (same) return Operand::imm(0);
      break;
    case Op::shl:
    case Op::shr:
      if (is_imm(b) && (b.value & 63) == 0) return a;
      if (is_imm(a, 0)) return Operand::imm(0);
      break;
    case Op::eq:
    case Op::le:
    case Op::ge:
      if (same) return Operand::imm(1);
      break;
    case Op::ne:
    case Op::lt:
    case Op::gt:
      if (same) return Operand::imm(0);
      break;
    default:
      break;
  }
  return std::nullopt;
}

// The operand that the result equals, if there is one.
std::optional<Operand> simplify(const Inst& inst) {
  if (inst.op == Op::copy) return inst.a;
  bool known = is_imm(inst.a) && inst.b.kind != Operand::Kind::temp;
  if (known)
    if (auto value = ir::evaluate(inst.op, inst.a.value, inst.b.value)) return Operand::imm(*value);
  return identity(inst);
}

// By temporary: the number of the last instruction that reads it, counted from 1.
std::vector<size_t> last_uses(const ir::Snippet& snippet) {
  std::vector<size_t> last(snippet.temps, 0);
  for (size_t at = 0; at < snippet.insts.size(); at++)
    ir::each_use(snippet.insts[at], [&](ir::Temp temp) { last[temp] = at + 1; });
  return last;
}

void fold_result(Inst& inst, Known& known) {
  std::optional<Operand> value = simplify(inst);
  if (value) inst = {Op::copy, inst.dst, *value, Operand::none(), 0};
  if (value && *value == Operand::temp(inst.dst)) return;  // `%1 = copy %1` changes nothing
  forget(known, inst.dst);
  if (value) known[inst.dst] = *value;
}

}  // namespace

void constant_fold(ir::Snippet& snippet) {
  const std::vector<size_t> last = last_uses(snippet);
  size_t at = 0;
  std::optional<Known> known = Known{};  // nothing: not reached
  std::map<uint32_t, Known> arriving;    // by label
  std::vector<Inst> kept;
  for (Inst inst : snippet.insts) {
    at++;
    if (known && (inst.op == Op::jump || inst.op == Op::jump_zero))  // what is carried on is what is used
      std::erase_if(*known, [&](const auto& entry) { return last[entry.first] < at; });
    if (inst.op == Op::label) {
      auto there = arriving.find(inst.index);
      if (there != arriving.end() && known) meet(*known, there->second);
      if (there != arriving.end() && !known) known = there->second;
    }
    if (!known && inst.op != Op::label) continue;  // no path leads here
    if (known)
      for (Operand* operand : {&inst.a, &inst.b})
        if (operand->kind == Operand::Kind::temp)
          if (auto found = known->find(static_cast<ir::Temp>(operand->value)); found != known->end())
            *operand = found->second;
    if (ir::info(inst.op).defines) fold_result(inst, *known);
    if (inst.op == Op::jump_zero && is_imm(inst.a)) {
      if (inst.a.value != 0) continue;
      inst = {Op::jump, ir::kNoTemp, Operand::none(), Operand::none(), inst.index};
    }
    if (inst.op == Op::jump || inst.op == Op::jump_zero) {
      Known taken = *known;
      if (inst.op == Op::jump_zero) learn_zero(taken, inst.a);
      auto [there, fresh] = arriving.try_emplace(inst.index, taken);
      if (!fresh) meet(there->second, taken);
      if (inst.op == Op::jump) known.reset();
    }
    kept.push_back(inst);
  }
  snippet.insts = std::move(kept);
}

}  // namespace mdl::passes
