// Linear scan without spilling. A snippet is a few instructions, and control flow goes
// forward only, so a temporary that holds a register from its first write to its last read
// in text order holds it wherever it is live; no graph is needed.
//
// Four moments of instruction p order what happens inside it:
//   4p    operand a is read          4p+1  fixed registers are destroyed
//   4p+2  operand b is read, the result written        4p+3  the end
// so a result may take the register of a, which dies, but never that of b.
//
// A temporary that only ever is $arg[n] or $return stays in the register where the value
// is, if nothing destroys that: reading it costs nothing. Which registers are written
// matters more than how many: the injector saves each that it cannot prove dead. So those
// written anyway come first, then the free scratch register, then the target's order.
#include "backend/allocate.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/op_info.h"

namespace mdl::backend {
namespace {

using ir::Inst;
using ir::Op;

constexpr int64_t kNever = INT64_MAX;

int64_t moment(size_t at, int part) {
  return static_cast<int64_t>(at) * 4 + part;
}

// The register that an instruction copies its result from, if it is an input.
Register source(const Inst& inst, const Target& target) {
  if (inst.op == Op::arg) return target.arguments[inst.index];
  if (inst.op == Op::result) return target.result;
  return kNoRegister;
}

// First moment at which each register is destroyed.
std::vector<int64_t> first_destroyed(const Counted& snippet, const Target& target) {
  std::vector<int64_t> first(target.registers.size(), kNever);
  for (size_t at = 0; at < snippet.snippet.insts.size(); at++)
    for (Register r : target.needs(snippet, at).destroys) first[r] = std::min(first[r], moment(at, 1));
  return first;
}

struct Interval {
  int64_t start = kNever;
  int64_t end = -1;
  ir::Temp hint = ir::kNoTemp;  // operand a where it starts: sharing its register saves a move
  Register* place = nullptr;    // where the answer goes
};

class Allocator {
 public:
  Allocator(const Counted& snippet, const Target& target)
      : code_(snippet),
        target_(target),
        input_until_(target.registers.size(), -1),
        taken_until_(target.registers.size(), -1),
        destroyed_(target.registers.size()) {
    result_.temps.assign(code_.snippet.temps, kNoRegister);
    result_.temporaries.assign(code_.snippet.insts.size(), {kNoRegister, kNoRegister});
    result_.written.assign(target.registers.size(), false);
    set_order();
  }

  Result<Allocation> run() {
    std::vector<Interval> intervals = measure();
    std::stable_sort(intervals.begin(), intervals.end(),
                     [](const Interval& a, const Interval& b) { return a.start < b.start; });
    for (const Interval& interval : intervals) {
      Register r = choose(interval);
      if (r == kNoRegister)
        return Error{
            fmt::format("the code needs more than the {} registers of {} at once: make it simpler, "
                        "or keep partial results in counters",
                        order_.size(), target_.name)};
      *interval.place = r;
      taken_until_[r] = std::max(taken_until_[r], interval.end);
      if (r != target_.scratch) result_.written[r] = true;
    }
    return std::move(result_);
  }

 private:
  // At points with a $return the result's register is live for sure: it comes last.
  void set_order() {
    order_.assign(target_.order.begin(), target_.order.end());
    if (format::info(code_.snippet.point).result)
      std::stable_partition(order_.begin(), order_.end(), [&](Register r) { return r != target_.result; });
  }

  std::vector<Interval> measure() {
    const std::vector<Inst>& insts = code_.snippet.insts;
    std::vector<Interval> temps(code_.snippet.temps);
    std::vector<Interval> intervals;
    auto touch = [&](const ir::Operand& operand, int64_t when) {
      if (operand.kind == ir::Operand::Kind::temp)
        temps[operand.value].end = std::max(temps[operand.value].end, when);
    };
    std::vector<bool> absent(code_.snippet.temps, false);
    for (size_t at = 0; at < insts.size(); at++) {
      Needs needs = target_.needs(code_, at);
      touch(insts[at].a, moment(at, 0));
      touch(insts[at].b, moment(at, 2));
      if (ir::info(insts[at].op).defines) {
        Interval& temp = temps[insts[at].dst];
        if (temp.start == kNever && insts[at].a.kind == ir::Operand::Kind::temp)
          temp.hint = static_cast<ir::Temp>(insts[at].a.value);
        temp.start = std::min(temp.start, moment(at, 2));
        temp.end = std::max(temp.end, moment(at, 2));
        if (needs.no_result) absent[insts[at].dst] = true;
      }
      for (Register r : needs.destroys) {
        destroyed_[r].push_back(moment(at, 1));
        if (r != target_.scratch) result_.written[r] = true;
      }
      for (size_t i = 0; i < needs.temporaries; i++) {
        intervals.push_back({moment(at, 0), moment(at, 3), ir::kNoTemp, &result_.temporaries[at][i]});
      }
    }
    keep_inputs(temps);
    for (ir::Temp temp = 0; temp < temps.size(); temp++) {
      if (temps[temp].start == kNever || absent[temp] || result_.temps[temp] != kNoRegister) continue;
      temps[temp].place = &result_.temps[temp];
      intervals.push_back(temps[temp]);
    }
    return intervals;
  }

  // Settles which temporaries stay where their input is, and until when inputs are needed.
  void keep_inputs(const std::vector<Interval>& temps) {
    for (size_t at = 0; at < code_.snippet.insts.size(); at++) {
      const Inst& inst = code_.snippet.insts[at];
      Register r = source(inst, target_);
      if (r == kNoRegister) continue;
      int64_t until = moment(at, 0);
      bool destroyed = !destroyed_[r].empty() && destroyed_[r].front() < temps[inst.dst].end;
      if (code_.writes[inst.dst] == 1 && !destroyed) {
        result_.temps[inst.dst] = r;
        until = temps[inst.dst].end;
      }
      input_until_[r] = std::max(input_until_[r], until);
    }
  }

  bool is_free(Register r, const Interval& interval) const {
    if (interval.start <= taken_until_[r] || interval.start <= input_until_[r]) return false;
    auto next = std::lower_bound(destroyed_[r].begin(), destroyed_[r].end(), interval.start);
    return next == destroyed_[r].end() || *next > interval.end;
  }

  Register choose(const Interval& interval) const {
    auto costs_nothing = [&](Register r) { return r == target_.scratch || result_.written[r]; };
    Register hint = interval.hint == ir::kNoTemp ? kNoRegister : result_.temps[interval.hint];
    if (hint != kNoRegister && costs_nothing(hint) && is_free(hint, interval)) return hint;
    for (Register r : order_)
      if (result_.written[r] && is_free(r, interval)) return r;
    for (Register r : order_)
      if (is_free(r, interval)) return r;
    return kNoRegister;
  }

  const Counted& code_;
  const Target& target_;
  Allocation result_;
  std::vector<Register> order_;
  std::vector<int64_t> input_until_;             // by register: last moment its first value is needed
  std::vector<int64_t> taken_until_;             // by register: end of its last interval
  std::vector<std::vector<int64_t>> destroyed_;  // by register: moments, rising
};

}  // namespace

ir::Snippet hoist_inputs(const ir::Snippet& snippet, const Target& target) {
  std::vector<int64_t> destroyed = first_destroyed(Counted(snippet), target);
  ir::Snippet result = snippet;
  std::vector<Inst> first;
  std::vector<ir::Temp> hoisted(target.registers.size(), ir::kNoTemp);  // by input register
  for (size_t at = 0; at < result.insts.size(); at++) {
    Inst& inst = result.insts[at];
    Register r = source(inst, target);
    if (r == kNoRegister || moment(at, 0) < destroyed[r]) continue;
    if (hoisted[r] == ir::kNoTemp) {
      hoisted[r] = result.temps++;
      first.push_back({inst.op, hoisted[r], ir::Operand::none(), ir::Operand::none(), inst.index});
    }
    inst = {Op::copy, inst.dst, ir::Operand::temp(hoisted[r]), ir::Operand::none(), 0};
  }
  result.insts.insert(result.insts.begin(), first.begin(), first.end());
  return result;
}

Result<Allocation> allocate(const Counted& snippet, const Target& target) {
  return Allocator(snippet, target).run();
}

}  // namespace mdl::backend
