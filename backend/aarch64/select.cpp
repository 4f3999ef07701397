// Instruction selection: each IR operation is a few lines of assembly.
//
// Offsets in the block are 32 bits in two moves, because a load's own displacement reaches only 4 KiB as
// a relocation; numbers of the request are 64 bits in four. A cell is added to by `stadd`, one
// instruction: an exclusive pair would need a loop, and branches go forward only.
// sdiv yields 0 for a divisor of 0 and wraps at -2^63 / -1 (Arm ARM, C6.2, SDIV): the language's meaning.
#include <algorithm>

#include "backend/aarch64/aarch64.h"
#include "backend/lines.h"
#include "compiler/ir/op_info.h"

namespace mdl::backend::aarch64 {
namespace {

using format::Routine;
using ir::Inst;
using ir::Op;
using ir::Operand;

constexpr Register kRoutine[] = {kScratch, kLink};  // what a call of a routine destroys
constexpr int64_t kMaxImmediate = 4095;             // of add, sub and cmp

struct Condition {
  Op op;
  std::string_view code, opposite;
};
constexpr Condition kConditions[] = {{Op::eq, "eq", "ne"}, {Op::ne, "ne", "eq"}, {Op::lt, "lt", "ge"},
                                     {Op::le, "le", "gt"}, {Op::gt, "gt", "le"}, {Op::ge, "ge", "lt"}};

const Condition* condition(Op op) {
  for (const Condition& row : kConditions)
    if (row.op == op) return &row;
  return nullptr;
}

bool is_imm(const Operand& operand) {
  return operand.kind == Operand::Kind::immediate;
}
// Needs a register of the instruction's own.
bool is_number(const Operand& operand) {
  return is_imm(operand) && operand.value != 0;
}

std::string name(Register r) {
  return r == kZero ? "xzr" : fmt::format("x{}", r);
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

  // The operand's register; a number gets one of the instruction's own.
  Register value(const Operand& operand) {
    if (!is_imm(operand)) return allocation_.temps[operand.value];
    if (operand.value == 0) return kZero;
    Register r = own();
    set(r, operand.value);
    return r;
  }
  void copy(Register from, Register to) {
    if (from != to) lines_.move("mov {}, {}", name(to), name(from));
  }
  void set(Register to, const Operand& from) {
    if (is_imm(from))
      set(to, from.value);
    else
      copy(allocation_.temps[from.value], to);
  }
  void set(Register to, int64_t value) {
    auto part = [](int64_t of, int i) { return static_cast<uint64_t>(of) >> (16 * i) & 0xffff; };
    auto parts = [&](int64_t of) {
      int count = 0;
      for (int i = 0; i < 4; i++) count += part(of, i) != 0;
      return count;
    };
    const bool inverted = parts(~value) < parts(value);
    bool first = true;
    for (int i = 0; i < 4; i++) {
      if (part(inverted ? ~value : value, i) == 0 && !(first && i == 3)) continue;
      if (first)
        lines_.move("{} {}, #{}, lsl #{}", inverted ? "movn" : "movz", name(to),
                    part(inverted ? ~value : value, i), 16 * i);
      else
        lines_.move("movk {}, #{}, lsl #{}", name(to), part(value, i), 16 * i);
      first = false;
    }
  }

  void set_offset(Register to, const std::string& symbol) {
    lines_.move("movz {}, #:abs_g1:{}", name(to), symbol);
    lines_.move("movk {}, #:abs_g0_nc:{}", name(to), symbol);
  }
  void set_wide(Register to, const std::string& symbol) {
    lines_.move("movz {}, #:abs_g3:{}", name(to), symbol);
    lines_.move("movk {}, #:abs_g2_nc:{}", name(to), symbol);
    lines_.move("movk {}, #:abs_g1_nc:{}", name(to), symbol);
    lines_.move("movk {}, #:abs_g0_nc:{}", name(to), symbol);
  }
  static std::string cell(uint32_t index, int word = 0) {
    return word ? fmt::format("{}{}+{}", format::kCellSymbol, index, 8 * word)
                : fmt::format("{}{}", format::kCellSymbol, index);
  }
  void set_address(Register to, const std::string& symbol) {
    set_offset(to, symbol);
    lines_.move("add {0}, x17, {0}", name(to));
  }
  void load(Register to, const std::string& symbol) {
    set_offset(to, symbol);
    lines_.move("ldr {0}, [x17, {0}]", name(to));
  }
  void add_to(Register address, Register amount) {
    lines_.move("stadd {}, [{}]", name(amount), name(address));
  }
  void call_routine(Routine routine) {
    lines_.compute("bl {}{}", format::kRoutineSymbol, format::info(routine).name);
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
        return set_wide(dst(inst), fmt::format("{}{}", format::kConstSymbol, inst.index));
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
        return three("orr", inst);
      case Op::xor_:
        return three("eor", inst);
      case Op::shl:
        return shift("lsl", inst);
      case Op::shr:
        return shift("asr", inst);
      case Op::add:
        return add(inst, "add", "sub");
      case Op::sub:
        return add(inst, "sub", "add");
      case Op::mul:
        return three("mul", inst);
      case Op::div:
        return three("sdiv", inst);
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
        return lines_.jump("b", inst.index);
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
    lines_.move("{} {}, {}, #{}", mnemonic, name(dst(inst)), name(value(inst.a)), inst.b.value & 63);
  }

  // dst = a OP b. A small number is part of the instruction, where register 31 would be the stack pointer.
  void add(const Inst& inst, std::string_view mnemonic, std::string_view opposite) {
    if (!is_imm(inst.b) || inst.b.value < -kMaxImmediate || inst.b.value > kMaxImmediate || is_imm(inst.a))
      return three(mnemonic, inst);
    const bool negative = inst.b.value < 0;
    lines_.move("{} {}, {}, #{}", negative ? opposite : mnemonic, name(dst(inst)), name(value(inst.a)),
                negative ? -inst.b.value : inst.b.value);
  }

  void store(const Operand& what, const std::string& symbol) {
    const Register offset = own(), from = value(what);
    set_offset(offset, symbol);
    lines_.move("str {}, [x17, {}]", name(from), name(offset));
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
    lines_.move("ldr {}, [{}]", name(left), name(address));
    lines_.compute("cmp {}, #0", name(left));
    lines_.branch("b.le", anomaly);
    if (is_imm(inst.a))
      set(left, static_cast<int64_t>(0 - static_cast<uint64_t>(inst.a.value)));
    else
      lines_.move("neg {}, {}", name(left), name(allocation_.temps[inst.a.value]));
    add_to(address, left);
    if (inst.a != Operand::imm(1)) {
      lines_.move("ldr {}, [{}]", name(left), name(address));
      lines_.branch(fmt::format("tbz {}, #63,", name(left)), done);
      lines_.move("str xzr, [{}]", name(address));
    }
    lines_.jump("b", done);
    lines_.place(anomaly);
    count_anomaly(address, left);
    lines_.place(done);
  }

  // Sets the flags for a ? b.
  void compare_operands(const Inst& inst) {
    const bool small = is_imm(inst.b) && inst.b.value >= 0 && inst.b.value <= kMaxImmediate;
    if (small && !is_imm(inst.a)) return lines_.compute("cmp {}, #{}", name(value(inst.a)), inst.b.value);
    const Register a = value(inst.a), b = value(inst.b);
    lines_.compute("cmp {}, {}", name(a), name(b));
  }

  void compare(const Inst& inst) {
    const Condition& row = *condition(inst.op);
    if (!code_.is_fused(at_)) {
      compare_operands(inst);
      return lines_.move("cset {}, {}", name(dst(inst)), row.code);
    }
    const uint32_t label = snippet_.insts[at_ + 1].index;  // where it goes when the comparison does not hold
    const bool zero = inst.b == Operand::imm(0) && !is_imm(inst.a);
    if (zero && (inst.op == Op::eq || inst.op == Op::ne)) {
      lines_.branch(fmt::format("{} {},", inst.op == Op::eq ? "cbnz" : "cbz", name(value(inst.a))), label);
    } else {
      compare_operands(inst);
      lines_.branch(fmt::format("b.{}", row.opposite), label);
    }
    at_++;
  }

  void jump_zero(const Inst& inst) {
    if (!is_imm(inst.a)) return lines_.branch(fmt::format("cbz {},", name(value(inst.a))), inst.index);
    if (inst.a.value == 0) lines_.jump("b", inst.index);
  }

  // --- what lies outside of the snippet: format/kinds.h says what, and why in this order ---
  void symbol(const Inst& inst) {
    const Register to = dst(inst), count = own();
    set_wide(to, fmt::format("{}{}", format::kSymbolSymbol, inst.index));
    lines_.move("ldr {0}, [{0}]", name(to));
    lines_.move("movz {}, #:abs_g0:{}{}", name(count), format::kSymbolLeft, inst.index);
    lines_.move("lsl {0}, {0}, {1}", name(to), name(count));
    lines_.move("movz {}, #:abs_g0:{}{}", name(count), format::kSymbolRight, inst.index);
    lines_.move("asr {0}, {0}, {1}", name(to), name(count));
  }

  // Answers where the clock of the cell is: in `free`, or in the scratch register.
  Register read_clock(const Inst& inst, Register free) {
    const auto by = routine(snippet_, inst);
    if (!by) {
      lines_.move("mrs {}, cntvct_el0", name(free));
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
    lines_.move("ldr {}, [{}, #8]", name(depth), name(address));
    lines_.move("add {0}, {0}, #1", name(depth));
    lines_.move("str {}, [{}, #8]", name(depth), name(address));
    lines_.compute("cmp {}, #1", name(depth));
    lines_.branch("b.ne", done);
    const Register now = read_clock(inst, depth);
    lines_.move("neg {0}, {0}", name(now));
    add_to(address, now);
    lines_.place(done);
  }

  void stop_timer(const Inst& inst) {
    const uint32_t anomaly = lines_.new_label(), inner = lines_.new_label(), done = lines_.new_label();
    const Register address = own(), depth = own();
    set_address(address, cell(inst.index));
    lines_.move("ldr {}, [{}, #8]", name(depth), name(address));
    lines_.compute("cmp {}, #1", name(depth));
    lines_.branch("b.lt", anomaly);
    lines_.branch("b.ne", inner);
    const Register now = read_clock(inst, depth);
    lines_.move("str xzr, [{}, #8]", name(address));
    add_to(address, now);
    lines_.jump("b", done);
    lines_.place(inner);
    lines_.move("sub {0}, {0}, #1", name(depth));
    lines_.move("str {}, [{}, #8]", name(depth), name(address));
    lines_.jump("b", done);
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
    lines_.move("add {}, {}, #8", name(last), name(address));
    lines_.move("swp {}, {}, [{}]", name(kScratch), name(last), name(last));
    lines_.branch(fmt::format("cbz {},", name(last)), done);
    lines_.move("sub {0}, {0}, {1}", name(kScratch), name(last));
    add_to(address, kScratch);
    lines_.place(done);
  }

  void enter_call(const Inst& inst) {
    const Register address = own();
    set_address(address, cell(inst.index));
    lines_.move("ldr {}, [{}]", name(dst(inst)), name(address));
    lines_.compute("cmp {}, #0", name(dst(inst)));
    lines_.move("cset {}, eq", name(dst(inst)));
    add_to(address, dst(inst));
  }

  void call(const Inst& inst) {
    const Register address = own();
    set_address(address, cell(inst.index));
    set_wide(kScratch, fmt::format("{}{}", format::kSymbolSymbol, inst.a.value));
    lines_.move("str {}, [{}, #8]", name(kScratch), name(address));
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
      result.temporaries = 2;
      break;
    case Op::symbol:
    case Op::enter_call:
    case Op::call:
    case Op::leave_call:
      result.temporaries = 1;
      break;
    case Op::store:
    case Op::add_cell:
    case Op::call_arg:
      result.temporaries = static_cast<uint8_t>(1 + is_number(inst.a));
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

std::vector<Line> guard() {
  Lines lines(0);
  lines.move("movz x16, #:abs_g1:{}", format::kGuardSymbol);
  lines.move("movk x16, #:abs_g0_nc:{}", format::kGuardSymbol);
  lines.move("ldr x16, [x17, x16]");
  lines.leave(fmt::format("cbz x16, {}", format::kNextSymbol));
  return lines.take();
}

}  // namespace mdl::backend::aarch64
