// How riscv64 spells what backend/load_store.cpp selects. There are no condition flags.
//
// Offsets in the block are lui and a 12-bit displacement. No standard relocation fills 64 bits of
// instructions, so the numbers of a request come as two symbols of 32 bits each, low and high
// (format/halves.h). A cell is added to by `amoadd.d`, one instruction.
// div yields -1 for a divisor of 0 (RISC-V ISA, 7.2), where the language says 0: a mask makes it so.
#include "backend/load_store.h"
#include "backend/riscv64/riscv64.h"
#include "compiler/ir/op_info.h"
#include "format/halves.h"

namespace mdl::backend::riscv64 {
namespace {

using format::Routine;
using ir::Inst;
using ir::Op;
using ir::Operand;

constexpr Register kRoutine[] = {kScratch, t0};
constexpr Register kUpdate[] = {kScratch, kUpdated, t0};
constexpr LoadStoreMachine kMachine = {.zero = zero,
                                       .zero_name = "zero",
                                       .or_ = "or",
                                       .xor_ = "xor",
                                       .left = "sll",
                                       .right = "sra",
                                       .routine = kRoutine,
                                       .update = kUpdate,
                                       .wide_needs_own = true};

// A comparison: the branch that is taken when it does not hold.
struct Condition {
  Op op;
  std::string_view unless;
};
constexpr Condition kConditions[] = {{Op::eq, "bne"}, {Op::ne, "beq"}, {Op::lt, "bge"},
                                     {Op::le, "bgt"}, {Op::gt, "ble"}, {Op::ge, "blt"}};

bool is_short(int64_t value) {  // 12 bits, also when negated
  return value >= -2047 && value <= 2047;
}

class Selector final : public LoadStoreSelector {
 public:
  Selector(const Counted& code, const Allocation& allocation)
      : LoadStoreSelector(code, allocation, kTarget, kMachine) {}

 private:
  void copy_register(Register from, Register to) override { lines_.move("mv {}, {}", name(to), name(from)); }
  void set_number(Register to, int64_t value) override { lines_.move("li {}, {}", name(to), value); }

  // The symbol's value, which has 32 bits with a sign.
  void set_symbol(Register to, const std::string& symbol) {
    lines_.move("lui {}, %hi({})", name(to), symbol);
    lines_.move("addiw {0}, {0}, %lo({1})", name(to), symbol);
  }
  void set_wide(Register to, const char* prefix, uint32_t index, Register own) override {
    set_symbol(own, fmt::format("{}{}{}", prefix, format::kHighHalf, index));
    lines_.move("slli {0}, {0}, 32", name(own));
    set_symbol(to, fmt::format("{}{}{}", prefix, format::kLowHalf, index));
    lines_.move("add {0}, {0}, {1}", name(to), name(own));
  }
  // The base to which %lo of the symbol is to be added.
  void set_base(Register to, const std::string& symbol) {
    lines_.move("lui {}, %hi({})", name(to), symbol);
    lines_.move("add {0}, {0}, t6", name(to));
  }
  void set_address(Register to, const std::string& symbol) override {
    set_base(to, symbol);
    lines_.move("addi {0}, {0}, %lo({1})", name(to), symbol);
  }
  void load_cell(Register to, const std::string& symbol) override {
    set_base(to, symbol);
    lines_.move("ld {0}, %lo({1})({0})", name(to), symbol);
  }
  void store_cell(Register from, const std::string& symbol, Register own) override {
    set_base(own, symbol);
    lines_.move("sd {}, %lo({})({})", name(from), symbol, name(own));
  }
  void load(Register to, Register address, int offset) override {
    lines_.move("ld {}, {}({})", name(to), offset, name(address));
  }
  void store(Register from, Register address, int offset) override {
    lines_.move("sd {}, {}({})", name(from), offset, name(address));
  }
  void add_to(Register address, Register amount) override {
    lines_.move("amoadd.d zero, {}, ({})", name(amount), name(address));
  }
  void exchange(Register with, Register address) override {
    lines_.move("amoswap.d {0}, {1}, ({0})", name(address), name(with));
  }
  void add_number(Register to, Register from, int value) override {
    lines_.move("addi {}, {}, {}", name(to), name(from), value);
  }
  void negate(Register to, Register from) override { lines_.move("neg {}, {}", name(to), name(from)); }
  void subtract(Register to, Register what) override {
    lines_.move("sub {0}, {0}, {1}", name(to), name(what));
  }
  void set_if_zero(Register to) override { lines_.move("seqz {0}, {0}", name(to)); }
  void shift_symbol(Register to, Register own, uint32_t index) override {
    lines_.move("addi {}, zero, %lo({}{})", name(own), format::kSymbolLeft, index);
    lines_.move("sll {0}, {0}, {1}", name(to), name(own));
    lines_.move("addi {}, zero, %lo({}{})", name(own), format::kSymbolRight, index);
    lines_.move("sra {0}, {0}, {1}", name(to), name(own));
  }
  void branch_if(Zero how, Register r, uint32_t label) override {
    constexpr std::string_view kBranches[] = {"beqz", "bnez", "blez", "bgez"};  // as Zero
    lines_.branch(fmt::format("{} {},", kBranches[static_cast<size_t>(how)], name(r)), label);
  }
  void jump(uint32_t label) override { lines_.jump("j", label); }
  void read_counter(Register to) override { lines_.move("rdtime {}", name(to)); }
  void call_routine(Routine routine) override {
    lines_.move("call t0, {}{}", format::kRoutineSymbol, format::info(routine).name);
  }

  void extend(const Inst& inst) override {
    const int64_t width = inst.b.value;
    const std::string_view from = name(value(inst.a)), to = name(dst(inst));
    if (width == 32) return lines_.move("sext.w {}, {}", to, from);
    if (width == -8) return lines_.move("andi {}, {}, 255", to, from);
    const int64_t away = 64 - (width < 0 ? -width : width);
    lines_.move("slli {}, {}, {}", to, from, away);
    lines_.move("{} {}, {}, {}", width < 0 ? "srli" : "srai", to, to, away);
  }

  void shift_number(std::string_view mnemonic, Register to, Register from, int64_t by) override {
    lines_.move("{}i {}, {}, {}", mnemonic, name(to), name(from), by);
  }

  void add(const Inst& inst, int sign) override {
    if (!is_imm(inst.b) || !is_short(inst.b.value)) return three(sign > 0 ? "add" : "sub", inst);
    lines_.move("addi {}, {}, {}", name(dst(inst)), name(value(inst.a)), sign * inst.b.value);
  }

  // The result may be in the register of either operand; the mask is made before.
  void divide(const Inst& inst) override {
    if (is_imm(inst.b)) {
      if (inst.b.value == 0) return set_number(dst(inst), 0);
      return three("div", inst);
    }
    const Register mask = own(), a = value(inst.a), b = value(inst.b);
    lines_.move("snez {}, {}", name(mask), name(b));
    lines_.move("neg {0}, {0}", name(mask));
    lines_.move("div {}, {}, {}", name(dst(inst)), name(a), name(b));
    lines_.move("and {0}, {0}, {1}", name(dst(inst)), name(mask));
  }

  void compare(const Inst& inst, bool fused) override {
    const Register a = value(inst.a), b = value(inst.b);
    if (fused) {
      std::string_view unless;
      for (const Condition& row : kConditions)
        if (row.op == inst.op) unless = row.unless;
      return lines_.branch(fmt::format("{} {}, {},", unless, name(a), name(b)), fused_label());
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
};

}  // namespace

Needs needs(const Counted& code, size_t at) {
  Needs result = needs_load_store(code, at, kMachine);
  const Inst& inst = code.snippet.insts[at];
  if (inst.op == Op::div && inst.b.kind != Operand::Kind::immediate) result.temporaries++;  // the mask
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
