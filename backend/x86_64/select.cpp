// Instruction selection: each IR operation is a few lines of assembly.
//
// Only instructions that the injector's verifier admits may appear here
// (runtime/arch/x86_64/stencil_decode.cpp), and idiv only behind comparisons that exclude a
// divisor of 0 and of -1 (Intel SDM vol. 2, IDIV raises #DE for 0 and for -2^63 / -1).
// Moves are chosen so that they leave the flags alone: saving flags is dear.
#include <fmt/format.h>

#include <limits>

#include "backend/lines.h"
#include "backend/x86_64/x86_64.h"
#include "compiler/ir/op_info.h"

namespace mdl::backend::x86_64 {
namespace {

using ir::Inst;
using ir::Op;
using ir::Operand;

constexpr Register kDivision[] = {rax, rdx};  // what idiv reads and writes
constexpr Register kShiftCount[] = {rcx};

// A comparison's condition code, its opposite, and it with the operands exchanged.
struct Condition {
  Op op;
  std::string_view code, opposite, exchanged, exchanged_opposite;
};
constexpr Condition kConditions[] = {
    {Op::eq, "e", "ne", "e", "ne"}, {Op::ne, "ne", "e", "ne", "e"}, {Op::lt, "l", "ge", "g", "le"},
    {Op::le, "le", "g", "ge", "l"}, {Op::gt, "g", "le", "l", "ge"}, {Op::ge, "ge", "l", "le", "g"},
};

const Condition* condition(Op op) {
  for (const Condition& row : kConditions)
    if (row.op == op) return &row;
  return nullptr;
}

bool is_temp(const Operand& operand) {
  return operand.kind == Operand::Kind::temp;
}

// Division by a divisor that is known and trivial needs no idiv.
bool is_plain_division(const Inst& inst) {
  return is_imm(inst.b) && inst.b.value >= -1 && inst.b.value <= 1;
}

class Selector {
 public:
  Selector(const Counted& code, const Allocation& allocation)
      : code_(code), allocation_(allocation), lines_(code.snippet.labels) {}

  std::vector<Line> run() {
    for (at_ = 0; at_ < code_.snippet.insts.size(); at_++) select(code_.snippet.insts[at_]);
    return lines_.take();
  }

 private:
  // --- operands ---
  static std::string_view name(Register r) { return kNames[r].r64; }
  static std::string jcc(std::string_view condition_code) { return fmt::format("j{}", condition_code); }
  Register reg(const Operand& operand) const { return allocation_.temps[operand.value]; }
  Register dst(const Inst& inst) const { return allocation_.temps[inst.dst]; }
  Register own(size_t i = 0) const { return allocation_.temporaries[at_][i]; }
  static std::string cell(uint32_t index) { return fmt::format("{}{}(%r11)", format::kCellSymbol, index); }

  void set(Register to, int64_t value) {
    if (value >= 0 && value <= std::numeric_limits<uint32_t>::max())
      lines_.move("movl ${}, {}", value, kNames[to].r32);  // zero-extends
    else if (is_wide(Operand::imm(value)))
      lines_.move("movabsq ${}, {}", value, name(to));
    else
      lines_.move("movq ${}, {}", value, name(to));
  }
  void copy(const Operand& from, Register to) {
    if (is_imm(from))
      set(to, from.value);
    else
      copy(reg(from), to);
  }
  void copy(Register from, Register to) {
    if (from != to) lines_.move("movq {}, {}", name(from), name(to));
  }
  // The operand as the source of an instruction; a wide immediate goes through `through`.
  std::string source(const Operand& operand, Register through) {
    if (is_temp(operand)) return std::string(name(reg(operand)));
    if (!is_wide(operand)) return fmt::format("${}", operand.value);
    set(through, operand.value);
    return std::string(name(through));
  }

  // --- operations ---
  void select(const Inst& inst) {
    switch (inst.op) {
      case Op::copy:
        return copy(inst.a, dst(inst));
      case Op::arg:
        return copy(kTarget.arguments[inst.index], dst(inst));
      case Op::result:
        return copy(kTarget.result, dst(inst));
      case Op::constant:
        return lines_.move("movabsq ${}{}, {}", format::kConstSymbol, inst.index, name(dst(inst)));
      case Op::load:
        return lines_.move("movq {}, {}", cell(inst.index), name(dst(inst)));
      case Op::store:
        return store(inst);
      case Op::add_cell:
        return add_cell(inst);
      case Op::release:
        return release(inst);
      case Op::add:
        return commutative("addq", inst);
      case Op::sub:
        return subtract(inst);
      case Op::mul:
        return multiply(inst);
      case Op::div:
        return divide(inst);
      case Op::neg:
        return copy(inst.a, dst(inst)), lines_.compute("negq {}", name(dst(inst)));
      case Op::extend:
        return extend(inst);
      case Op::jump:
        return lines_.jump("jmp", inst.index);
      case Op::jump_zero:
        return jump_zero(inst);
      case Op::label:
        return lines_.place(inst.index);
      case Op::and_:
        return commutative("andq", inst);
      case Op::or_:
        return commutative("orq", inst);
      case Op::xor_:
        return commutative("xorq", inst);
      case Op::shl:
        return shift("shlq", inst);
      case Op::shr:
        return shift("sarq", inst);
      case Op::symbol:
      case Op::thread:
      case Op::address:
      case Op::start_timer:
      case Op::stop_timer:
      case Op::sample_event:
      case Op::update:
      case Op::enter:
      case Op::kept:
      case Op::elapsed:
      case Op::stayed:
      case Op::pause:
      case Op::resume:
      case Op::cpu:
      case Op::now:
      case Op::error:
      case Op::read_address:
      case Op::enter_call:
      case Op::call_arg:
      case Op::call:
      case Op::leave_call:
        return select_outside(code_, allocation_, at_, lines_);
      case Op::eq:
      case Op::ne:
      case Op::lt:
      case Op::le:
      case Op::gt:
      case Op::ge:
        return compare(inst);
    }
  }

  void store(const Inst& inst) {
    std::string value = source(inst.a, own());
    lines_.move("movq {}, {}", value, cell(inst.index));
  }

  void add_cell(const Inst& inst) {
    std::string value = source(inst.a, own());
    lines_.compute("addq {}, {}", value, cell(inst.index));
  }

  // if (cell > 0) cell -= a, at least 0; else anomalies += 1. From 1 or more, 1 can always
  // be taken; otherwise the sign of what is left decides (also when it has wrapped).
  void release(const Inst& inst) {
    uint32_t anomaly = lines_.new_label(), done = lines_.new_label();
    std::string value = source(inst.a, own());
    lines_.compute("cmpq $0, {}", cell(inst.index));
    lines_.branch(jcc("le"), anomaly);
    lines_.compute("subq {}, {}", value, cell(inst.index));
    if (inst.a != Operand::imm(1)) {
      lines_.branch(jcc("ns"), done);
      lines_.move("movq $0, {}", cell(inst.index));
    }
    lines_.jump("jmp", done);
    lines_.place(anomaly);
    lines_.compute("addq $1, {}(%r11)", format::kAnomalySymbol);
    lines_.place(done);
  }

  // dst = a OP b. The result shares no register with b, unless it is the same temporary.
  void commutative(std::string_view mnemonic, const Inst& inst) {
    Operand a = inst.a, b = inst.b;
    bool result_in_b = is_temp(b) && reg(b) == dst(inst);
    if (result_in_b || (is_imm(a) && is_temp(b))) std::swap(a, b);
    copy(a, dst(inst));
    lines_.compute("{} {}, {}", mnemonic, source(b, own()), name(dst(inst)));
  }

  void subtract(const Inst& inst) {
    bool result_in_b = is_temp(inst.b) && reg(inst.b) == dst(inst) && inst.a != inst.b;
    if (result_in_b) {  // a - b = -b + a
      lines_.compute("negq {}", name(dst(inst)));
      lines_.compute("addq {}, {}", source(inst.a, own()), name(dst(inst)));
      return;
    }
    copy(inst.a, dst(inst));
    lines_.compute("subq {}, {}", source(inst.b, own()), name(dst(inst)));
  }

  void multiply(const Inst& inst) {
    Operand a = inst.a, b = inst.b;
    if (is_imm(a)) std::swap(a, b);
    if (is_temp(a) && is_imm(b) && !is_wide(b))
      lines_.compute("imulq ${}, {}, {}", b.value, name(reg(a)), name(dst(inst)));
    else
      commutative("imulq", inst);
  }

  // A count that is not known goes through %cl, which takes its low 6 bits.
  void shift(std::string_view mnemonic, const Inst& inst) {
    if (is_imm(inst.b)) {
      copy(inst.a, dst(inst));
      lines_.compute("{} ${}, {}", mnemonic, inst.b.value & 63, name(dst(inst)));
      return;
    }
    copy(inst.a, own());
    copy(inst.b, rcx);
    lines_.compute("{} %cl, {}", mnemonic, name(own()));
    copy(own(), dst(inst));
  }

  // Moves that extend: a write of 32 bits clears the upper half (Intel SDM vol. 1, 3.4.1.1).
  void extend(const Inst& inst) {
    if (is_imm(inst.a)) return set(dst(inst), *ir::evaluate(Op::extend, inst.a.value, inst.b.value));
    const Names &from = kNames[reg(inst.a)], &to = kNames[dst(inst)];
    switch (inst.b.value) {
      case 8:
        return lines_.move("movsbq {}, {}", from.r8, to.r64);
      case 16:
        return lines_.move("movswq {}, {}", from.r16, to.r64);
      case 32:
        return lines_.move("movslq {}, {}", from.r32, to.r64);
      case -8:
        return lines_.move("movzbl {}, {}", from.r8, to.r32);
      case -16:
        return lines_.move("movzwl {}, {}", from.r16, to.r32);
      default:
        return lines_.move("movl {}, {}", from.r32, to.r32);
    }
  }

  void divide(const Inst& inst) {
    if (is_plain_division(inst)) {
      if (inst.b.value == 0) return set(dst(inst), 0);
      copy(inst.a, dst(inst));
      if (inst.b.value == -1) lines_.compute("negq {}", name(dst(inst)));
      return;
    }
    copy(inst.a, rax);
    if (is_imm(inst.b)) {
      set(own(), inst.b.value);
      lines_.compute("cqto");
      lines_.compute("idivq {}", name(own()));
    } else {
      divide_by(reg(inst.b));
    }
    copy(rax, dst(inst));
  }

  // rax /= divisor, which is neither in rax nor in rdx.
  void divide_by(Register divisor) {
    uint32_t zero = lines_.new_label(), negate = lines_.new_label(), done = lines_.new_label();
    lines_.compute("testq {0}, {0}", name(divisor));
    lines_.branch(jcc("e"), zero);
    lines_.compute("cmpq $-1, {}", name(divisor));
    lines_.branch(jcc("e"), negate);
    lines_.compute("cqto");
    lines_.compute("idivq {}", name(divisor));
    lines_.jump("jmp", done);
    lines_.place(negate);
    lines_.compute("negq %rax");
    lines_.jump("jmp", done);
    lines_.place(zero);
    set(rax, 0);
    lines_.place(done);
  }

  // Sets the flags for `a ? b` and answers whether they are those of `b ? a` instead.
  bool compare_operands(const Inst& inst) {
    bool exchange = is_imm(inst.a) && is_temp(inst.b);
    const Operand& a = exchange ? inst.b : inst.a;
    const Operand& b = exchange ? inst.a : inst.b;
    if (is_imm(a)) set(own(1), a.value);
    Register left = is_imm(a) ? own(1) : reg(a);
    if (b == Operand::imm(0))
      lines_.compute("testq {0}, {0}", name(left));
    else
      lines_.compute("cmpq {}, {}", source(b, own()), name(left));
    return exchange;
  }

  void compare(const Inst& inst) {
    const Condition& row = *condition(inst.op);
    bool exchanged = compare_operands(inst);
    if (code_.is_fused(at_)) {
      at_++;  // the jump_zero behind: taken when the comparison does not hold
      return lines_.branch(jcc(exchanged ? row.exchanged_opposite : row.opposite),
                           code_.snippet.insts[at_].index);
    }
    lines_.move("set{} {}", exchanged ? row.exchanged : row.code, kNames[dst(inst)].r8);
    lines_.move("movzbl {}, {}", kNames[dst(inst)].r8, kNames[dst(inst)].r32);
  }

  void jump_zero(const Inst& inst) {
    if (is_imm(inst.a)) {
      if (inst.a.value == 0) lines_.jump("jmp", inst.index);
      return;
    }
    lines_.compute("testq {0}, {0}", name(reg(inst.a)));
    lines_.branch(jcc("e"), inst.index);
  }

  const Counted& code_;
  const Allocation& allocation_;
  Lines lines_;
  size_t at_ = 0;
};

}  // namespace

Needs needs(const Counted& code, size_t at) {
  const Inst& inst = code.snippet.insts[at];
  Needs result;
  switch (inst.op) {
    case Op::store:
    case Op::add_cell:
    case Op::release:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::and_:
    case Op::or_:
    case Op::xor_:
      result.temporaries = is_wide(inst.a) || is_wide(inst.b);
      break;
    case Op::div:
      if (is_plain_division(inst)) break;
      result.temporaries = is_imm(inst.b);
      result.destroys = kDivision;
      break;
    case Op::shl:
    case Op::shr:
      if (is_imm(inst.b)) break;
      result.temporaries = 1;
      result.destroys = kShiftCount;
      break;
    default:
      if (is_outside(inst.op)) return needs_outside(code, at);
      if (!condition(inst.op)) break;
      // own(0) for a wide immediate, own(1) for the left operand when both are immediates.
      result.temporaries = is_imm(inst.a) && is_imm(inst.b) ? 2 : is_wide(inst.a) || is_wide(inst.b);
      result.no_result = code.is_fused(at);
  }
  return result;
}

std::vector<Line> select(const Counted& code, const Allocation& allocation) {
  return Selector(code, allocation).run();
}

std::vector<Line> guard() {
  return {{Line::Kind::plain, fmt::format("cmpq $0, {}(%r11)", format::kGuardSymbol), 0, true},
          {Line::Kind::leave, fmt::format("je {}", format::kNextSymbol), 0, false}};
}

}  // namespace mdl::backend::x86_64
