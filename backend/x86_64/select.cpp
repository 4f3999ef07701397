// Instruction selection: each IR operation is a few lines of assembly.
//
// Only instructions that the injector's verifier admits may appear here
// (runtime/arch/x86_64/stencil_decode.cpp), and idiv only behind comparisons that exclude a
// divisor of 0 and of -1 (Intel SDM vol. 2, IDIV raises #DE for 0 and for -2^63 / -1).
// Moves are chosen so that they leave the flags alone: saving flags is dear.
#include <fmt/format.h>

#include <limits>

#include "backend/x86_64/x86_64.h"
#include "compiler/ir/op_info.h"

namespace mdl::backend::x86_64 {
namespace {

using ir::Inst;
using ir::Op;
using ir::Operand;

struct Names {
  std::string_view r64, r32, r8;
};
constexpr Names kNames[kRegisters] = {
    {"%rax", "%eax", "%al"},    {"%rcx", "%ecx", "%cl"},    {"%rdx", "%edx", "%dl"},
    {"%rbx", "%ebx", "%bl"},    {"%rsp", "%esp", "%spl"},   {"%rbp", "%ebp", "%bpl"},
    {"%rsi", "%esi", "%sil"},   {"%rdi", "%edi", "%dil"},   {"%r8", "%r8d", "%r8b"},
    {"%r9", "%r9d", "%r9b"},    {"%r10", "%r10d", "%r10b"}, {"%r11", "%r11d", "%r11b"},
    {"%r12", "%r12d", "%r12b"}, {"%r13", "%r13d", "%r13b"}, {"%r14", "%r14d", "%r14b"},
    {"%r15", "%r15d", "%r15b"},
};

constexpr Register kDivision[] = {rax, rdx};  // what idiv reads and writes

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

bool is_imm(const Operand& operand) {
  return operand.kind == Operand::Kind::immediate;
}
bool is_temp(const Operand& operand) {
  return operand.kind == Operand::Kind::temp;
}

// Instructions sign-extend 32-bit immediates; only movabs has one of 64 bits.
bool is_wide(const Operand& operand) {
  return is_imm(operand) && (operand.value < std::numeric_limits<int32_t>::min() ||
                             operand.value > std::numeric_limits<int32_t>::max());
}

// True when a comparison is read by the jump_zero behind it and by nothing else: it
// becomes cmp and a conditional jump.
bool is_fused(const Counted& code, size_t at) {
  const std::vector<Inst>& insts = code.snippet.insts;
  if (!condition(insts[at].op) || at + 1 >= insts.size()) return false;
  ir::Temp dst = insts[at].dst;
  return insts[at + 1].op == Op::jump_zero && insts[at + 1].a == Operand::temp(dst) &&
         code.writes[dst] == 1 && code.reads[dst] == 1;
}

// Division by a divisor that is known and trivial needs no idiv.
bool is_plain_division(const Inst& inst) {
  return is_imm(inst.b) && inst.b.value >= -1 && inst.b.value <= 1;
}

class Selector {
 public:
  Selector(const Counted& code, const Allocation& allocation)
      : code_(code), allocation_(allocation), next_label_(code.snippet.labels) {}

  std::vector<Line> run() {
    for (at_ = 0; at_ < code_.snippet.insts.size(); at_++) select(code_.snippet.insts[at_]);
    return std::move(lines_);
  }

 private:
  // --- lines ---
  template <typename... Args>
  void move(fmt::format_string<Args...> text, Args&&... args) {  // keeps the flags
    lines_.push_back({Line::Kind::plain, fmt::format(text, std::forward<Args>(args)...), 0, false});
  }
  template <typename... Args>
  void compute(fmt::format_string<Args...> text, Args&&... args) {  // sets the flags
    lines_.push_back({Line::Kind::plain, fmt::format(text, std::forward<Args>(args)...), 0, true});
  }
  void jump(uint32_t label) { lines_.push_back({Line::Kind::jump, "jmp", label, false}); }
  void branch(std::string_view condition_code, uint32_t label) {
    lines_.push_back({Line::Kind::branch, fmt::format("j{}", condition_code), label, false});
  }
  void place(uint32_t label) { lines_.push_back({Line::Kind::label, "", label, false}); }

  // --- operands ---
  static std::string_view name(Register r) { return kNames[r].r64; }
  Register reg(const Operand& operand) const { return allocation_.temps[operand.value]; }
  Register dst(const Inst& inst) const { return allocation_.temps[inst.dst]; }
  Register own(size_t i = 0) const { return allocation_.temporaries[at_][i]; }
  static std::string cell(uint32_t index) { return fmt::format("{}{}(%r11)", format::kCellSymbol, index); }

  void set(Register to, int64_t value) {
    if (value >= 0 && value <= std::numeric_limits<uint32_t>::max())
      move("movl ${}, {}", value, kNames[to].r32);  // zero-extends
    else if (is_wide(Operand::imm(value)))
      move("movabsq ${}, {}", value, name(to));
    else
      move("movq ${}, {}", value, name(to));
  }
  void copy(const Operand& from, Register to) {
    if (is_imm(from))
      set(to, from.value);
    else
      copy(reg(from), to);
  }
  void copy(Register from, Register to) {
    if (from != to) move("movq {}, {}", name(from), name(to));
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
        return move("movabsq ${}{}, {}", format::kConstSymbol, inst.index, name(dst(inst)));
      case Op::load:
        return move("movq {}, {}", cell(inst.index), name(dst(inst)));
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
        return copy(inst.a, dst(inst)), compute("negq {}", name(dst(inst)));
      case Op::jump:
        return jump(inst.index);
      case Op::jump_zero:
        return jump_zero(inst);
      case Op::label:
        return place(inst.index);
      case Op::and_:
        return commutative("andq", inst);
      case Op::or_:
        return commutative("orq", inst);
      case Op::xor_:
        return commutative("xorq", inst);
      case Op::shl:
      case Op::shr:
      case Op::symbol:
      case Op::thread:
      case Op::address:
      case Op::start_timer:
      case Op::stop_timer:
      case Op::sample_event:
      case Op::read_address:
      case Op::enter_call:
      case Op::call_arg:
      case Op::call:
      case Op::leave_call:
        return;  // refused by make_stencil
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
    move("movq {}, {}", value, cell(inst.index));
  }

  void add_cell(const Inst& inst) {
    std::string value = source(inst.a, own());
    compute("addq {}, {}", value, cell(inst.index));
  }

  // if (cell > 0) cell -= a, at least 0; else anomalies += 1. From 1 or more, 1 can always
  // be taken; otherwise the sign of what is left decides (also when it has wrapped).
  void release(const Inst& inst) {
    uint32_t anomaly = next_label_++, done = next_label_++;
    std::string value = source(inst.a, own());
    compute("cmpq $0, {}", cell(inst.index));
    branch("le", anomaly);
    compute("subq {}, {}", value, cell(inst.index));
    if (inst.a != Operand::imm(1)) {
      branch("ns", done);
      move("movq $0, {}", cell(inst.index));
    }
    jump(done);
    place(anomaly);
    compute("addq $1, {}(%r11)", format::kAnomalySymbol);
    place(done);
  }

  // dst = a OP b. The result shares no register with b, unless it is the same temporary.
  void commutative(std::string_view mnemonic, const Inst& inst) {
    Operand a = inst.a, b = inst.b;
    bool result_in_b = is_temp(b) && reg(b) == dst(inst);
    if (result_in_b || (is_imm(a) && is_temp(b))) std::swap(a, b);
    copy(a, dst(inst));
    compute("{} {}, {}", mnemonic, source(b, own()), name(dst(inst)));
  }

  void subtract(const Inst& inst) {
    bool result_in_b = is_temp(inst.b) && reg(inst.b) == dst(inst) && inst.a != inst.b;
    if (result_in_b) {  // a - b = -b + a
      compute("negq {}", name(dst(inst)));
      compute("addq {}, {}", source(inst.a, own()), name(dst(inst)));
      return;
    }
    copy(inst.a, dst(inst));
    compute("subq {}, {}", source(inst.b, own()), name(dst(inst)));
  }

  void multiply(const Inst& inst) {
    Operand a = inst.a, b = inst.b;
    if (is_imm(a)) std::swap(a, b);
    if (is_temp(a) && is_imm(b) && !is_wide(b))
      compute("imulq ${}, {}, {}", b.value, name(reg(a)), name(dst(inst)));
    else
      commutative("imulq", inst);
  }

  void divide(const Inst& inst) {
    if (is_plain_division(inst)) {
      if (inst.b.value == 0) return set(dst(inst), 0);
      copy(inst.a, dst(inst));
      if (inst.b.value == -1) compute("negq {}", name(dst(inst)));
      return;
    }
    copy(inst.a, rax);
    if (is_imm(inst.b)) {
      set(own(), inst.b.value);
      compute("cqto");
      compute("idivq {}", name(own()));
    } else {
      divide_by(reg(inst.b));
    }
    copy(rax, dst(inst));
  }

  // rax /= divisor, which is neither in rax nor in rdx.
  void divide_by(Register divisor) {
    uint32_t zero = next_label_++, negate = next_label_++, done = next_label_++;
    compute("testq {0}, {0}", name(divisor));
    branch("e", zero);
    compute("cmpq $-1, {}", name(divisor));
    branch("e", negate);
    compute("cqto");
    compute("idivq {}", name(divisor));
    jump(done);
    place(negate);
    compute("negq %rax");
    jump(done);
    place(zero);
    set(rax, 0);
    place(done);
  }

  // Sets the flags for `a ? b` and answers whether they are those of `b ? a` instead.
  bool compare_operands(const Inst& inst) {
    bool exchange = is_imm(inst.a) && is_temp(inst.b);
    const Operand& a = exchange ? inst.b : inst.a;
    const Operand& b = exchange ? inst.a : inst.b;
    if (is_imm(a)) set(own(1), a.value);
    Register left = is_imm(a) ? own(1) : reg(a);
    if (b == Operand::imm(0))
      compute("testq {0}, {0}", name(left));
    else
      compute("cmpq {}, {}", source(b, own()), name(left));
    return exchange;
  }

  void compare(const Inst& inst) {
    const Condition& row = *condition(inst.op);
    bool exchanged = compare_operands(inst);
    if (is_fused(code_, at_)) {
      at_++;  // the jump_zero behind: taken when the comparison does not hold
      return branch(exchanged ? row.exchanged_opposite : row.opposite, code_.snippet.insts[at_].index);
    }
    move("set{} {}", exchanged ? row.exchanged : row.code, kNames[dst(inst)].r8);
    move("movzbl {}, {}", kNames[dst(inst)].r8, kNames[dst(inst)].r32);
  }

  void jump_zero(const Inst& inst) {
    if (is_imm(inst.a)) {
      if (inst.a.value == 0) jump(inst.index);
      return;
    }
    compute("testq {0}, {0}", name(reg(inst.a)));
    branch("e", inst.index);
  }

  const Counted& code_;
  const Allocation& allocation_;
  std::vector<Line> lines_;
  size_t at_ = 0;
  uint32_t next_label_;  // the snippet's own labels come before
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
    default:
      if (!condition(inst.op)) break;
      // own(0) for a wide immediate, own(1) for the left operand when both are immediates.
      result.temporaries = is_imm(inst.a) && is_imm(inst.b) ? 2 : is_wide(inst.a) || is_wide(inst.b);
      result.no_result = is_fused(code, at);
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
