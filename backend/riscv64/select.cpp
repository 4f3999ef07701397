// Instruction selection: each IR operation is a few lines of assembly. There are no condition flags.
//
// Offsets in the block are lui and a 12-bit displacement. No standard relocation fills 64 bits of
// instructions, so the numbers of a request come as two symbols of 32 bits each, low and high
// (format/halves.h). A cell is added to by `amoadd.d`, one instruction.
// div yields -1 for a divisor of 0 (RISC-V ISA, 7.2), where the language says 0: a mask makes it so.
#include "backend/lines.h"
#include "backend/riscv64/riscv64.h"
#include "compiler/ir/op_info.h"
#include "format/halves.h"

namespace mdl::backend::riscv64 {
namespace {

using format::Routine;
using ir::Inst;
using ir::Op;
using ir::Operand;

constexpr Register kRoutine[] = {kScratch, t0};  // what a call of a routine destroys

// A comparison: the branch that is taken when it does not hold.
struct Condition {
  Op op;
  std::string_view unless;
};
constexpr Condition kConditions[] = {{Op::eq, "bne"}, {Op::ne, "beq"}, {Op::lt, "bge"},
                                     {Op::le, "bgt"}, {Op::gt, "ble"}, {Op::ge, "blt"}};

bool is_imm(const Operand& operand) {
  return operand.kind == Operand::Kind::immediate;
}
// Needs a register of the instruction's own.
bool is_number(const Operand& operand) {
  return is_imm(operand) && operand.value != 0;
}
bool is_short(int64_t value) {  // 12 bits, also when negated
  return value >= -2047 && value <= 2047;
}

class Selector {
 public:
  Selector(const Counted& code, const Allocation& allocation)
      : code_(code), snippet_(code.snippet), allocation_(allocation), lines_(snippet_.labels) {}

  std::vector<Line> run() {
    for (at_ = 0; at_ < snippet_.insts.size(); at_++) {
      used_ = 0;
      select(snippet_.insts[at_]);
    }
    return lines_.take();
  }

 private:
  // --- operands ---
  Register dst(const Inst& inst) const { return allocation_.temps[inst.dst]; }
  Register own() { return allocation_.temporaries[at_][used_++]; }

  Register value(const Operand& operand) {
    if (!is_imm(operand)) return allocation_.temps[operand.value];
    if (operand.value == 0) return zero;
    Register r = own();
    set(r, operand.value);
    return r;
  }
  void copy(Register from, Register to) {
    if (from != to) lines_.move("mv {}, {}", name(to), name(from));
  }
  void set(Register to, int64_t value) { lines_.move("li {}, {}", name(to), value); }
  void set(Register to, const Operand& from) {
    if (is_imm(from))
      set(to, from.value);
    else
      copy(allocation_.temps[from.value], to);
  }

  // The symbol's value, which has 32 bits with a sign.
  void set_symbol(Register to, const std::string& symbol) {
    lines_.move("lui {}, %hi({})", name(to), symbol);
    lines_.move("addiw {0}, {0}, %lo({1})", name(to), symbol);
  }
  void set_wide(Register to, Register high, const char* prefix, uint32_t index) {
    set_symbol(high, fmt::format("{}{}{}", prefix, format::kHighHalf, index));
    lines_.move("slli {0}, {0}, 32", name(high));
    set_symbol(to, fmt::format("{}{}{}", prefix, format::kLowHalf, index));
    lines_.move("add {0}, {0}, {1}", name(to), name(high));
  }
  static std::string cell(uint32_t index, int word = 0) {
    return word ? fmt::format("{}{}+{}", format::kCellSymbol, index, 8 * word)
                : fmt::format("{}{}", format::kCellSymbol, index);
  }
  // What %lo of the symbol is to be added to.
  void set_base(Register to, const std::string& symbol) {
    lines_.move("lui {}, %hi({})", name(to), symbol);
    lines_.move("add {0}, {0}, t6", name(to));
  }
  void set_address(Register to, const std::string& symbol) {
    set_base(to, symbol);
    lines_.move("addi {0}, {0}, %lo({1})", name(to), symbol);
  }
  void load(Register to, const std::string& symbol) {
    set_base(to, symbol);
    lines_.move("ld {0}, %lo({1})({0})", name(to), symbol);
  }
  void store(const Operand& what, const std::string& symbol) {
    const Register base = own(), from = value(what);
    set_base(base, symbol);
    lines_.move("sd {}, %lo({})({})", name(from), symbol, name(base));
  }
  void add_to(Register address, Register amount) {
    lines_.move("amoadd.d zero, {}, ({})", name(amount), name(address));
  }
  void call_routine(Routine routine) {
    lines_.move("call t0, {}{}", format::kRoutineSymbol, format::info(routine).name);
  }

  // --- operations ---
  void select(const Inst& inst) {
    switch (inst.op) {
      case Op::copy:
        return set(dst(inst), inst.a);
      case Op::arg:
        return copy(kTarget.arguments[inst.index], dst(inst));
      case Op::result:
        return copy(kTarget.result, dst(inst));
      case Op::constant:
        return set_wide(dst(inst), own(), format::kConstSymbol, inst.index);
      case Op::symbol:
        return symbol(inst);
      case Op::thread:
        return load(dst(inst), format::kThreadSymbol);
      case Op::load:
        return load(dst(inst), cell(inst.index));
      case Op::store:
        return store(inst.a, cell(inst.index));
      case Op::add_cell:
        return add_cell(inst);
      case Op::release:
        return release(inst);
      case Op::address:
        return set_address(dst(inst), cell(inst.index));
      case Op::start_timer:
        return start_timer(inst);
      case Op::stop_timer:
        return stop_timer(inst);
      case Op::sample_event:
        return sample_event(inst);
      case Op::read_address:
        set(kScratch, inst.a);
        call_routine(Routine::read);
        return copy(kScratch, dst(inst));
      case Op::enter_call:
        return enter_call(inst);
      case Op::call_arg:
        return store(inst.a, cell(inst.index, 2 + static_cast<int>(inst.b.value)));
      case Op::call:
        return call(inst);
      case Op::leave_call:
        return store(Operand::imm(0), cell(inst.index));
      case Op::and_:
        return three("and", inst);
      case Op::or_:
        return three("or", inst);
      case Op::xor_:
        return three("xor", inst);
      case Op::shl:
        return shift("sll", inst);
      case Op::shr:
        return shift("sra", inst);
      case Op::add:
        return add(inst, "add", 1);
      case Op::sub:
        return add(inst, "sub", -1);
      case Op::mul:
        return three("mul", inst);
      case Op::div:
        return divide(inst);
      case Op::neg:
        return lines_.move("neg {}, {}", name(dst(inst)), name(value(inst.a)));
      case Op::eq:
      case Op::ne:
      case Op::lt:
      case Op::le:
      case Op::gt:
      case Op::ge:
        return compare(inst);
      case Op::jump:
        return lines_.jump("j", inst.index);
      case Op::jump_zero:
        return jump_zero(inst);
      case Op::label:
        return lines_.place(inst.index);
    }
  }

  void three(std::string_view mnemonic, const Inst& inst) {
    const Register a = value(inst.a), b = value(inst.b);
    lines_.move("{} {}, {}, {}", mnemonic, name(dst(inst)), name(a), name(b));
  }

  void shift(std::string_view mnemonic, const Inst& inst) {
    if (!is_imm(inst.b)) return three(mnemonic, inst);
    lines_.move("{}i {}, {}, {}", mnemonic, name(dst(inst)), name(value(inst.a)), inst.b.value & 63);
  }

  void add(const Inst& inst, std::string_view mnemonic, int sign) {
    if (!is_imm(inst.b) || !is_short(inst.b.value)) return three(mnemonic, inst);
    lines_.move("addi {}, {}, {}", name(dst(inst)), name(value(inst.a)), sign * inst.b.value);
  }

  // The result may be in the register of either operand; the mask is made before.
  void divide(const Inst& inst) {
    if (is_imm(inst.b)) {
      if (inst.b.value == 0) return set(dst(inst), 0);
      return three("div", inst);
    }
    const Register mask = own(), a = value(inst.a), b = value(inst.b);
    lines_.move("snez {}, {}", name(mask), name(b));
    lines_.move("neg {0}, {0}", name(mask));
    lines_.move("div {}, {}, {}", name(dst(inst)), name(a), name(b));
    lines_.move("and {0}, {0}, {1}", name(dst(inst)), name(mask));
  }

  void add_cell(const Inst& inst) {
    const Register address = own(), amount = value(inst.a);
    set_address(address, cell(inst.index));
    add_to(address, amount);
  }

  void count_anomaly(Register address, Register one) {
    set_address(address, format::kAnomalySymbol);
    set(one, 1);
    add_to(address, one);
  }

  // if (cell > 0) cell -= a, at least 0; else anomalies += 1.
  void release(const Inst& inst) {
    const uint32_t anomaly = lines_.new_label(), done = lines_.new_label();
    const Register address = own(), left = own();
    set_address(address, cell(inst.index));
    lines_.move("ld {}, 0({})", name(left), name(address));
    lines_.branch(fmt::format("blez {},", name(left)), anomaly);
    if (is_imm(inst.a))
      set(left, static_cast<int64_t>(0 - static_cast<uint64_t>(inst.a.value)));
    else
      lines_.move("neg {}, {}", name(left), name(allocation_.temps[inst.a.value]));
    add_to(address, left);
    if (inst.a != Operand::imm(1)) {
      lines_.move("ld {}, 0({})", name(left), name(address));
      lines_.branch(fmt::format("bgez {},", name(left)), done);
      lines_.move("sd zero, 0({})", name(address));
    }
    lines_.jump("j", done);
    lines_.place(anomaly);
    count_anomaly(address, left);
    lines_.place(done);
  }

  void compare(const Inst& inst) {
    const Register a = value(inst.a), b = value(inst.b);
    if (code_.is_fused(at_)) {
      std::string_view unless;
      for (const Condition& row : kConditions)
        if (row.op == inst.op) unless = row.unless;
      at_++;  // the jump_zero behind: taken when the comparison does not hold
      return lines_.branch(fmt::format("{} {}, {},", unless, name(a), name(b)), snippet_.insts[at_].index);
    }
    const std::string_view to = name(dst(inst));
    const bool equality = inst.op == Op::eq || inst.op == Op::ne;
    const bool exchanged = inst.op == Op::gt || inst.op == Op::le;
    if (equality)
      lines_.move("xor {}, {}, {}", to, name(a), name(b));
    else
      lines_.move("slt {}, {}, {}", to, name(exchanged ? b : a), name(exchanged ? a : b));
    if (equality) lines_.move("{} {}, {}", inst.op == Op::eq ? "seqz" : "snez", to, to);
    if (inst.op == Op::le || inst.op == Op::ge) lines_.move("xori {0}, {0}, 1", to);
  }

  void jump_zero(const Inst& inst) {
    if (!is_imm(inst.a)) return lines_.branch(fmt::format("beqz {},", name(value(inst.a))), inst.index);
    if (inst.a.value == 0) lines_.jump("j", inst.index);
  }

  // --- what lies outside of the snippet: format/kinds.h says what, and why in this order ---
  void symbol(const Inst& inst) {
    const Register to = dst(inst), count = own();
    set_wide(to, count, format::kSymbolSymbol, inst.index);
    lines_.move("ld {0}, 0({0})", name(to));
    lines_.move("addi {}, zero, %lo({}{})", name(count), format::kSymbolLeft, inst.index);
    lines_.move("sll {0}, {0}, {1}", name(to), name(count));
    lines_.move("addi {}, zero, %lo({}{})", name(count), format::kSymbolRight, inst.index);
    lines_.move("sra {0}, {0}, {1}", name(to), name(count));
  }

  // Answers where the clock of the cell is: in `free`, or in the scratch register.
  Register read_clock(const Inst& inst, Register free) {
    const auto by = routine(snippet_, inst);
    if (!by) {
      lines_.move("rdtime {}", name(free));
      return free;
    }
    if (*by == Routine::event)
      set(kScratch,
          static_cast<int64_t>(format::event(snippet_.cells[inst.index].event).value_or(format::Event())));
    call_routine(*by);
    return kScratch;
  }

  void start_timer(const Inst& inst) {
    const uint32_t done = lines_.new_label();
    const Register address = own(), depth = own();
    set_address(address, cell(inst.index));
    lines_.move("ld {}, 8({})", name(depth), name(address));
    lines_.move("addi {0}, {0}, 1", name(depth));
    lines_.move("sd {}, 8({})", name(depth), name(address));
    lines_.move("addi {0}, {0}, -1", name(depth));
    lines_.branch(fmt::format("bnez {},", name(depth)), done);
    const Register now = read_clock(inst, depth);
    lines_.move("neg {0}, {0}", name(now));
    add_to(address, now);
    lines_.place(done);
  }

  void stop_timer(const Inst& inst) {
    const uint32_t anomaly = lines_.new_label(), inner = lines_.new_label(), done = lines_.new_label();
    const Register address = own(), depth = own();
    set_address(address, cell(inst.index));
    lines_.move("ld {}, 8({})", name(depth), name(address));
    lines_.branch(fmt::format("blez {},", name(depth)), anomaly);
    lines_.move("addi {0}, {0}, -1", name(depth));
    lines_.branch(fmt::format("bnez {},", name(depth)), inner);
    const Register now = read_clock(inst, depth);
    lines_.move("sd zero, 8({})", name(address));
    add_to(address, now);
    lines_.jump("j", done);
    lines_.place(inner);
    lines_.move("sd {}, 8({})", name(depth), name(address));
    lines_.jump("j", done);
    lines_.place(anomaly);
    count_anomaly(address, depth);
    lines_.place(done);
  }

  // The count is exchanged for the last one in one instruction: what a signal handler samples in between
  // is then counted once.
  void sample_event(const Inst& inst) {
    const uint32_t done = lines_.new_label();
    const Register address = own(), last = own();
    set_address(address, cell(inst.index));
    read_clock(inst, kScratch);
    lines_.move("addi {}, {}, 8", name(last), name(address));
    lines_.move("amoswap.d {0}, {1}, ({0})", name(last), name(kScratch));
    lines_.branch(fmt::format("beqz {},", name(last)), done);
    lines_.move("sub {0}, {0}, {1}", name(kScratch), name(last));
    add_to(address, kScratch);
    lines_.place(done);
  }

  void enter_call(const Inst& inst) {
    const Register address = own();
    set_address(address, cell(inst.index));
    lines_.move("ld {}, 0({})", name(dst(inst)), name(address));
    lines_.move("seqz {0}, {0}", name(dst(inst)));
    add_to(address, dst(inst));
  }

  void call(const Inst& inst) {
    const Register address = own(), high = own();
    set_address(address, cell(inst.index));
    set_wide(kScratch, high, format::kSymbolSymbol, static_cast<uint32_t>(inst.a.value));
    lines_.move("sd {}, 8({})", name(kScratch), name(address));
    copy(address, kScratch);
    call_routine(Routine::call);
    copy(kScratch, dst(inst));
  }

  const Counted& code_;
  const ir::Snippet& snippet_;
  const Allocation& allocation_;
  Lines lines_;
  size_t at_ = 0;
  size_t used_ = 0;  // of the instruction's own registers
};

}  // namespace

Needs needs(const Counted& code, size_t at) {
  const Inst& inst = code.snippet.insts[at];
  const uint8_t numbers = static_cast<uint8_t>(is_number(inst.a) + is_number(inst.b));
  Needs result;
  if (routine(code.snippet, inst)) result.destroys = kRoutine;
  switch (inst.op) {
    case Op::copy:
    case Op::read_address:
    case Op::jump_zero:
      break;
    case Op::release:
    case Op::start_timer:
    case Op::stop_timer:
    case Op::sample_event:
    case Op::call:
      result.temporaries = 2;
      break;
    case Op::constant:
    case Op::symbol:
    case Op::enter_call:
    case Op::leave_call:
      result.temporaries = 1;
      break;
    case Op::store:
    case Op::add_cell:
    case Op::call_arg:
      result.temporaries = static_cast<uint8_t>(1 + is_number(inst.a));
      break;
    case Op::div:
      result.temporaries = is_imm(inst.b) ? numbers : static_cast<uint8_t>(1 + is_number(inst.a));
      break;
    default:
      result.temporaries = numbers;
      result.no_result = code.is_fused(at);
  }
  return result;
}

std::vector<Line> select(const Counted& code, const Allocation& allocation) {
  return Selector(code, allocation).run();
}

// A conditional branch reaches 4 KiB only, a jump 1 MiB.
std::vector<Line> guard() {
  Lines lines(0);
  const uint32_t up = lines.new_label();
  lines.move("lui t5, %hi({})", format::kGuardSymbol);
  lines.move("add t5, t5, t6");
  lines.move("ld t5, %lo({})(t5)", format::kGuardSymbol);
  lines.branch("bnez t5,", up);
  lines.leave(fmt::format("j {}", format::kNextSymbol));
  lines.place(up);
  return lines.take();
}

}  // namespace mdl::backend::riscv64
