// How aarch64 spells what backend/load_store.cpp selects.
//
// Offsets in the block are 32 bits in two moves, because a load's own displacement reaches only 4 KiB as
// a relocation; numbers of the request are 64 bits in four. A cell is added to by `stadd`, one
// instruction: an exclusive pair would need a loop, and branches go forward only.
// sdiv yields 0 for a divisor of 0 and wraps at -2^63 / -1 (Arm ARM, C6.2, SDIV): the language's meaning.
#include "backend/aarch64/aarch64.h"
#include "backend/load_store.h"
#include "compiler/ir/op_info.h"

namespace mdl::backend::aarch64 {
namespace {

using format::Routine;
using ir::Inst;
using ir::Op;
using ir::Operand;

constexpr Register kRoutine[] = {kScratch, kLink};
constexpr Register kUpdate[] = {kScratch, kUpdated, kLink};
constexpr LoadStoreMachine kMachine = {.zero = kZero,
                                       .zero_name = "xzr",
                                       .or_ = "orr",
                                       .xor_ = "eor",
                                       .left = "lsl",
                                       .right = "asr",
                                       .routine = kRoutine,
                                       .update = kUpdate};
constexpr int64_t kMaxImmediate = 4095;  // of add, sub and cmp

struct Condition {
  Op op;
  std::string_view code, opposite;
};
constexpr Condition kConditions[] = {{Op::eq, "eq", "ne"}, {Op::ne, "ne", "eq"}, {Op::lt, "lt", "ge"},
                                     {Op::le, "le", "gt"}, {Op::gt, "gt", "le"}, {Op::ge, "ge", "lt"}};

const Condition& condition(Op op) {
  for (const Condition& row : kConditions)
    if (row.op == op) return row;
  return kConditions[0];
}

class Selector final : public LoadStoreSelector {
 public:
  Selector(const Counted& code, const Allocation& allocation)
      : LoadStoreSelector(code, allocation, kTarget, kMachine) {}

 private:
  void copy_register(Register from, Register to) override { lines_.move("mov {}, {}", name(to), name(from)); }
  void set_number(Register to, int64_t value) override {
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
  void set_wide(Register to, const char* prefix, uint32_t index, Register) override {
    const char* sep = "movz";
    for (std::string_view part : {"g3", "g2_nc", "g1_nc", "g0_nc"}) {
      lines_.move("{} {}, #:abs_{}:{}{}", sep, name(to), part, prefix, index);
      sep = "movk";
    }
  }
  void set_address(Register to, const std::string& symbol) override {
    set_offset(to, symbol);
    lines_.move("add {0}, x17, {0}", name(to));
  }
  void load_cell(Register to, const std::string& symbol) override {
    set_offset(to, symbol);
    lines_.move("ldr {0}, [x17, {0}]", name(to));
  }
  void store_cell(Register from, const std::string& symbol, Register own) override {
    set_offset(own, symbol);
    lines_.move("str {}, [x17, {}]", name(from), name(own));
  }
  void load(Register to, Register address, int offset) override {
    lines_.move("ldr {}, {}", name(to), at(address, offset));
  }
  void store(Register from, Register address, int offset) override {
    lines_.move("str {}, {}", name(from), at(address, offset));
  }
  std::string at(Register address, int offset) const {
    return offset ? fmt::format("[{}, #{}]", name(address), offset) : fmt::format("[{}]", name(address));
  }
  void add_to(Register address, Register amount) override {
    lines_.move("stadd {}, [{}]", name(amount), name(address));
  }
  void exchange(Register with, Register address) override {
    lines_.move("swp {0}, {1}, [{1}]", name(with), name(address));
  }
  void add_number(Register to, Register from, int value) override {
    lines_.move("{} {}, {}, #{}", value < 0 ? "sub" : "add", name(to), name(from),
                value < 0 ? -value : value);
  }
  void negate(Register to, Register from) override { lines_.move("neg {}, {}", name(to), name(from)); }
  void subtract(Register to, Register what) override {
    lines_.move("sub {0}, {0}, {1}", name(to), name(what));
  }
  void set_if_zero(Register to) override {
    lines_.compute("cmp {}, #0", name(to));
    lines_.move("cset {}, eq", name(to));
  }
  void shift_symbol(Register to, Register own, uint32_t index) override {
    lines_.move("movz {}, #:abs_g0:{}{}", name(own), format::kSymbolLeft, index);
    lines_.move("lsl {0}, {0}, {1}", name(to), name(own));
    lines_.move("movz {}, #:abs_g0:{}{}", name(own), format::kSymbolRight, index);
    lines_.move("asr {0}, {0}, {1}", name(to), name(own));
  }
  void branch_if(Zero how, Register r, uint32_t label) override {
    switch (how) {
      case Zero::equal:
        return lines_.branch(fmt::format("cbz {},", name(r)), label);
      case Zero::not_equal:
        return lines_.branch(fmt::format("cbnz {},", name(r)), label);
      case Zero::at_least:
        return lines_.branch(fmt::format("tbz {}, #63,", name(r)), label);
      case Zero::at_most:
        lines_.compute("cmp {}, #0", name(r));
        return lines_.branch("b.le", label);
    }
  }
  void jump(uint32_t label) override { lines_.jump("b", label); }
  void read_counter(Register to) override { lines_.move("mrs {}, cntvct_el0", name(to)); }
  void call_routine(Routine routine) override {
    lines_.compute("bl {}{}", format::kRoutineSymbol, format::info(routine).name);
  }

  // The bit fields from bit 0 on (Arm ARM, C6.2, SBFX, UBFX).
  void extend(const Inst& inst) override {
    const int64_t width = inst.b.value;
    lines_.move("{} {}, {}, #0, #{}", width < 0 ? "ubfx" : "sbfx", name(dst(inst)), name(value(inst.a)),
                width < 0 ? -width : width);
  }

  void divide(const Inst& inst) override { three("sdiv", inst); }

  void shift_number(std::string_view mnemonic, Register to, Register from, int64_t by) override {
    lines_.move("{} {}, {}, #{}", mnemonic, name(to), name(from), by);
  }

  // A small number is part of the instruction, where register 31 would be the stack pointer.
  void add(const Inst& inst, int sign) override {
    constexpr std::string_view kMnemonics[] = {"sub", "add"};
    if (!is_imm(inst.b) || inst.b.value < -kMaxImmediate || inst.b.value > kMaxImmediate || is_imm(inst.a))
      return three(kMnemonics[sign > 0], inst);
    const bool negative = inst.b.value < 0;
    lines_.move("{} {}, {}, #{}", kMnemonics[(sign > 0) != negative], name(dst(inst)), name(value(inst.a)),
                negative ? -inst.b.value : inst.b.value);
  }

  // Sets the flags for a ? b.
  void compare_operands(const Inst& inst) {
    const bool small = is_imm(inst.b) && inst.b.value >= 0 && inst.b.value <= kMaxImmediate;
    if (small && !is_imm(inst.a)) return lines_.compute("cmp {}, #{}", name(value(inst.a)), inst.b.value);
    const Register a = value(inst.a), b = value(inst.b);
    lines_.compute("cmp {}, {}", name(a), name(b));
  }

  void compare(const Inst& inst, bool fused) override {
    const Condition& row = condition(inst.op);
    if (!fused) {
      compare_operands(inst);
      return lines_.move("cset {}, {}", name(dst(inst)), row.code);
    }
    // Taken when the comparison does not hold.
    const bool zero = inst.b == Operand::imm(0) && !is_imm(inst.a);
    if (zero && (inst.op == Op::eq || inst.op == Op::ne))
      return branch_if(inst.op == Op::eq ? Zero::not_equal : Zero::equal, value(inst.a), fused_label());
    compare_operands(inst);
    lines_.branch(fmt::format("b.{}", row.opposite), fused_label());
  }
};

}  // namespace

Needs needs(const Counted& code, size_t at) {
  return needs_load_store(code, at, kMachine);
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
