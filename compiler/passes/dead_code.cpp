// Control flow goes forward only, so one walk forward finds what is reached and one walk
// backward finds exactly what is read later. One removal may allow another (a jump over
// nothing, then its condition), so both are repeated until nothing changes; each round
// removes an instruction, so this ends.
#include "compiler/passes/dead_code.h"

#include "compiler/ir/op_info.h"

namespace mdl::passes {
namespace {

using ir::Inst;
using ir::Op;

bool is_jump(const Inst& inst) {
  return inst.op == Op::jump || inst.op == Op::jump_zero;
}

void remove_unreached(ir::Snippet& snippet) {
  std::vector<bool> jumped_to(snippet.labels, false);
  bool reached = true;
  std::erase_if(snippet.insts, [&](const Inst& inst) {
    if (inst.op == Op::label) reached = reached || jumped_to[inst.index];
    if (!reached) return inst.op != Op::label;  // a label stays until no jump names it
    if (is_jump(inst)) jumped_to[inst.index] = true;
    if (inst.op == Op::jump) reached = false;
    return false;
  });
}

// A jump with nothing but labels between it and its target.
bool jumps_to_next(const std::vector<Inst>& insts, size_t at) {
  for (size_t next = at + 1; next < insts.size() && insts[next].op == Op::label; next++)
    if (insts[next].index == insts[at].index) return true;
  return false;
}

void remove_idle_jumps(ir::Snippet& snippet) {
  std::vector<Inst> kept;
  std::vector<bool> named(snippet.labels, false);
  for (size_t at = 0; at < snippet.insts.size(); at++) {
    const Inst& inst = snippet.insts[at];
    if (is_jump(inst) && jumps_to_next(snippet.insts, at)) continue;
    if (is_jump(inst)) named[inst.index] = true;
    if (inst.op == Op::label && !named[inst.index]) continue;
    kept.push_back(inst);
  }
  snippet.insts = std::move(kept);
}

// A set of temporaries: one bit each, joined a word at a time.
class TempSet {
 public:
  explicit TempSet(size_t temps) : words_((temps + 63) / 64, 0) {}
  bool has(ir::Temp t) const { return (words_[t / 64] >> (t % 64) & 1) != 0; }
  void add(ir::Temp t) { words_[t / 64] |= uint64_t{1} << (t % 64); }
  void remove(ir::Temp t) { words_[t / 64] &= ~(uint64_t{1} << (t % 64)); }
  void join(const TempSet& other) {
    for (size_t i = 0; i < words_.size(); i++) words_[i] |= other.words_[i];
  }

 private:
  std::vector<uint64_t> words_;
};

void remove_unread(ir::Snippet& snippet) {
  TempSet live(snippet.temps);
  std::vector<TempSet> live_at(snippet.labels, TempSet(0));
  std::vector<Inst> kept;
  for (size_t at = snippet.insts.size(); at-- > 0;) {
    const Inst& inst = snippet.insts[at];
    bool defines = ir::info(inst.op).defines;
    bool idle = inst.op == Op::copy && inst.a == ir::Operand::temp(inst.dst);
    if (idle || (defines && !live.has(inst.dst) && !ir::has_effect(inst.op))) continue;
    if (defines) live.remove(inst.dst);
    if (inst.op == Op::label) live_at[inst.index] = live;
    if (inst.op == Op::jump) live = live_at[inst.index];
    if (inst.op == Op::jump_zero) live.join(live_at[inst.index]);
    ir::each_use(inst, [&](ir::Temp temp) { live.add(temp); });
    kept.push_back(inst);
  }
  snippet.insts.assign(kept.rbegin(), kept.rend());
}

}  // namespace

void dead_code(ir::Snippet& snippet) {
  size_t before;
  do {
    before = snippet.insts.size();
    remove_unreached(snippet);
    remove_idle_jumps(snippet);
    remove_unread(snippet);
  } while (snippet.insts.size() != before);
}

}  // namespace mdl::passes
