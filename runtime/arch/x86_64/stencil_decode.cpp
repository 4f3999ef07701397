#include "runtime/arch/x86_64/stencil_decode.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <unordered_map>

#include "runtime/arch/x86_64/disassembler.h"
#include "runtime/plan/verify.h"

namespace mdl::plan::x86_64 {
namespace {

constexpr std::array<std::string_view, kRegisters> kRegisterNames = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp",
                                                                     "rsi", "rdi", "r8",  "r9",  "r10", "r11",
                                                                     "r12", "r13", "r14", "r15"};

struct Admitted {
  std::string_view name;
  Access access = Access::none;
  Flow flow = Flow::next;
  Effect effect = Effect::plain;
};

// Every instruction that a stencil may use. Memory forms are 64 bits wide: a cell.
constexpr Admitted kAdmitted[] = {
    // moves
    {"MOV64rm", Access::load},
    {"MOV64mr", Access::store},
    {"MOV64mi32", Access::store},
    {"MOV64rr", Access::none, Flow::next, Effect::copy},
    {"MOV64rr_REV", Access::none, Flow::next, Effect::copy},
    {"MOV64ri", Access::none, Flow::next, Effect::set},
    {"MOV64ri32", Access::none, Flow::next, Effect::set},
    {"MOV32ri", Access::none, Flow::next, Effect::set},
    {"MOV32rr"},
    {"MOV32rr_REV"},
    {"MOVZX32rr8"},
    {"MOVZX64rr8"},
    {"MOVZX32rr16"},
    {"MOVSX64rr8"},
    {"MOVSX64rr16"},
    {"MOVSX64rr32"},
    {"XCHG64rr"},
    {"LEA64r", Access::none, Flow::next, Effect::address},
    // arithmetic on a cell
    {"ADD64mi8", Access::update},
    {"ADD64mi32", Access::update},
    {"ADD64mr", Access::update},
    {"SUB64mi8", Access::update},
    {"SUB64mi32", Access::update},
    {"SUB64mr", Access::update},
    {"INC64m", Access::update},
    {"DEC64m", Access::update},
    {"NEG64m", Access::update},
    {"XCHG64rm", Access::update},
    // arithmetic with a cell
    {"ADD64rm", Access::load},
    {"SUB64rm", Access::load},
    {"IMUL64rm", Access::load},
    {"IMUL64rmi8", Access::load},
    {"IMUL64rmi32", Access::load},
    {"AND64rm", Access::load},
    {"OR64rm", Access::load},
    {"XOR64rm", Access::load},
    {"CMP64rm", Access::load},
    {"CMP64mr", Access::load},
    {"CMP64mi8", Access::load},
    {"CMP64mi32", Access::load},
    {"TEST64mr", Access::load},
    {"TEST64mi32", Access::load},
    // arithmetic in registers
    {"ADD64rr"},
    {"ADD64rr_REV"},
    {"ADD64ri8"},
    {"ADD64ri32"},
    {"ADD64i32"},
    {"SUB64rr"},
    {"SUB64rr_REV"},
    {"SUB64ri8"},
    {"SUB64ri32"},
    {"SUB64i32"},
    {"AND64rr"},
    {"AND64rr_REV"},
    {"AND64ri8"},
    {"AND64ri32"},
    {"AND64i32"},
    {"OR64rr"},
    {"OR64rr_REV"},
    {"OR64ri8"},
    {"OR64ri32"},
    {"OR64i32"},
    {"XOR64rr"},
    {"XOR64rr_REV"},
    {"XOR64ri8"},
    {"XOR64ri32"},
    {"XOR64i32"},
    {"XOR32rr"},
    {"XOR32rr_REV"},
    {"XOR32ri8"},
    {"AND32ri8"},
    {"AND8rr"},
    {"OR8rr"},
    {"INC64r"},
    {"DEC64r"},
    {"NEG64r"},
    {"NOT64r"},
    {"IMUL64rr"},
    {"IMUL64rri8"},
    {"IMUL64rri32"},
    {"SHL64ri"},
    {"SHR64ri"},
    {"SAR64ri"},
    {"SHL64r1"},
    {"SHR64r1"},
    {"SAR64r1"},
    {"SHL64rCL"},
    {"SAR64rCL"},
    {"CQO", Access::none, Flow::next, Effect::extend_rax},
    {"IDIV64r", Access::none, Flow::next, Effect::divide},
    // comparisons
    {"CMP64rr"},
    {"CMP64rr_REV"},
    {"CMP64ri8", Access::none, Flow::next, Effect::compare},
    {"CMP64ri32", Access::none, Flow::next, Effect::compare},
    {"CMP64i32"},
    {"TEST64rr", Access::none, Flow::next, Effect::test},
    {"TEST64ri32"},
    {"TEST64i32"},
    {"TEST32rr"},
    {"TEST8rr"},
    {"SETCCr"},
    {"CMOV64rr"},
    // branches
    {"JCC_1", Access::none, Flow::if_other},
    {"JCC_4", Access::none, Flow::if_other},
    {"JMP_1", Access::none, Flow::jump},
    {"JMP_4", Access::none, Flow::jump},
    // clocks and resident routines
    {"RDTSC"},
    {"CALL64pcrel32", Access::none, Flow::next, Effect::call},
};

// Condition codes of Jcc and SETcc (Intel SDM vol. 1, appendix B).
constexpr int64_t kConditionEqual = 4;
constexpr int64_t kConditionNotEqual = 5;

// LLVM's view of the target and what is admitted of it: immutable once made, shared by all stencils.
class Admission {
 public:
  static const Admission& get() {
    static const Admission instance;
    return instance;
  }

  // 0 when the bytes are no instruction.
  uint64_t decode(std::span<const std::byte> bytes, llvm::MCInst& inst) const {
    return disassembler_.decode(bytes, 0, inst);
  }
  const Admitted* admitted(unsigned opcode) const {
    const auto found = admitted_.find(opcode);
    return found == admitted_.end() ? nullptr : found->second;
  }
  std::string name(unsigned opcode) const { return disassembler_.instructions().getName(opcode).str(); }
  const llvm::MCInstrDesc& describe(unsigned opcode) const {
    return disassembler_.instructions().get(opcode);
  }
  Register general(unsigned reg) const { return reg < general_.size() ? general_[reg] : kNone; }
  bool is_flags(unsigned reg) const { return reg == flags_; }

 private:
  Admission();

  const arch::x86_64::Disassembler& disassembler_ = arch::x86_64::Disassembler::instance();
  std::unordered_map<unsigned, const Admitted*> admitted_;
  std::vector<Register> general_;  // by LLVM's register number: the general register it is part of
  unsigned flags_ = 0;
};

Admission::Admission() {
  const llvm::MCInstrInfo& instructions = disassembler_.instructions();
  const llvm::MCRegisterInfo& registers = disassembler_.registers();
  std::unordered_map<std::string_view, const Admitted*> by_name;
  for (const Admitted& rule : kAdmitted) by_name.emplace(rule.name, &rule);
  for (unsigned opcode = 0; opcode < instructions.getNumOpcodes(); ++opcode) {
    const llvm::StringRef name = instructions.getName(opcode);
    if (const auto rule = by_name.find({name.data(), name.size()}); rule != by_name.end())
      admitted_.emplace(opcode, rule->second);
  }
  assert(admitted_.size() == std::size(kAdmitted));  // each name is one of LLVM's
  general_.assign(registers.getNumRegs(), kNone);
  for (unsigned reg = 1; reg < registers.getNumRegs(); ++reg) {
    if (llvm::StringRef(registers.getName(reg)) == "EFLAGS") flags_ = reg;
    for (const auto whole : registers.superregs_inclusive(reg)) {
      const Register r = register_named(llvm::StringRef(registers.getName(whole)).lower());
      if (r != kNone) general_[reg] = r;
    }
  }
}

// Legacy prefixes (Intel SDM vol. 2, 2.1.1), a REX byte that another prefix follows, and the bytes that begin
// XOP, VEX, EVEX and REX2 instructions: LLVM decodes REX2 (0xd5, APX) to the very opcodes of the list, and a
// processor without APX traps there.
bool has_prefix(std::span<const std::byte> bytes) {
  const auto legacy = [](uint8_t b) {
    return b == 0xf0 || b == 0xf2 || b == 0xf3 || b == 0x2e || b == 0x36 || b == 0x3e || b == 0x26 ||
           b == 0x64 || b == 0x65 || b == 0x66 || b == 0x67;
  };
  const auto extended = [](uint8_t b) {
    return b == 0x62 || b == 0x8f || b == 0xc4 || b == 0xc5 || b == 0xd5;
  };
  const auto rex = [](uint8_t b) { return b >= 0x40 && b <= 0x4f; };
  const auto first = std::to_integer<uint8_t>(bytes[0]);
  if (legacy(first) || extended(first)) return true;
  if (!rex(first) || bytes.size() < 2) return false;
  const auto second = std::to_integer<uint8_t>(bytes[1]);
  return legacy(second) || rex(second) || extended(second);
}

// Two patterns for each hole, of different signs and never equal to another hole's; those of one byte are
// counts of shifts, of which an instruction has one.
int64_t pattern(size_t hole, uint8_t size, bool second) {
  if (size == 1) return second ? 17 : 34;
  const auto value = static_cast<int64_t>(0x12345678 + hole);
  return second ? -value : value;
}

std::vector<std::byte> fill(const Stencil& stencil, bool second) {
  std::vector<std::byte> code = stencil.code;
  for (size_t i = 0; i < stencil.holes.size(); ++i) {
    const int64_t value = pattern(i, stencil.holes[i].size, second);
    std::memcpy(code.data() + stencil.holes[i].offset, &value, stencil.holes[i].size);
  }
  return code;
}

Error at(uint64_t offset, Rule rule, const std::string& what) {
  return broken(rule, fmt::format("at +{:#x}: {}", offset, what));
}

// Maps the holes inside [offset, offset + size) to the operands that follow them.
Result<void> match_holes(const Stencil& stencil, const llvm::MCInst& a, const llvm::MCInst& b, Decoded& d,
                         size_t& next_hole) {
  for (unsigned i = 0; i < a.getNumOperands(); ++i) {
    const auto &x = a.getOperand(i), &y = b.getOperand(i);
    if (x.isReg() != y.isReg() || x.isImm() != y.isImm() || (!x.isReg() && !x.isImm()))
      return at(d.offset, Rule::same_instruction, "a hole changes what the instruction is");
    if (x.isReg() && x.getReg() != y.getReg())
      return at(d.offset, Rule::same_register, "a hole changes a register");
  }
  for (; next_hole < stencil.holes.size() && stencil.holes[next_hole].offset < d.offset + d.size;
       ++next_hole) {
    const Hole& hole = stencil.holes[next_hole];
    int operand = -1;
    for (unsigned i = 0; i < a.getNumOperands(); ++i)
      if (a.getOperand(i).isImm() && a.getOperand(i).getImm() == pattern(next_hole, hole.size, false) &&
          b.getOperand(i).getImm() == pattern(next_hole, hole.size, true))
        operand = static_cast<int>(i);
    if (hole.offset + hole.size > d.offset + d.size || operand < 0)
      return at(hole.offset, Rule::whole_field,
                "a relocation is not exactly an immediate or displacement field");
    d.holes.emplace(operand, next_hole);
  }
  for (unsigned i = 0; i < a.getNumOperands(); ++i)
    if (a.getOperand(i).isImm() && a.getOperand(i).getImm() != b.getOperand(i).getImm() &&
        !d.holes.contains(static_cast<int>(i)))
      return at(d.offset, Rule::whole_field,
                "a relocation is not exactly an immediate or displacement field");
  return {};
}

void read_operands(const Admission& target, const llvm::MCInst& inst, Decoded& d) {
  const llvm::MCInstrDesc& desc = target.describe(inst.getOpcode());
  for (unsigned i = 0; i < inst.getNumOperands(); ++i) {
    DecodedOperand operand;
    if (inst.getOperand(i).isReg()) {
      operand.no_register = inst.getOperand(i).getReg() == 0;
      operand.reg = target.general(inst.getOperand(i).getReg());
    } else {
      operand.value = inst.getOperand(i).getImm();
    }
    d.operands.push_back(operand);
    if (d.memory < 0 && i < desc.getNumOperands() && i + 4 < inst.getNumOperands() &&
        desc.operands()[i].OperandType == llvm::MCOI::OPERAND_MEMORY)
      d.memory = static_cast<int>(i);
  }
  const auto write = [&](unsigned reg) {
    if (target.is_flags(reg)) {
      d.writes_flags = true;
    } else if (target.general(reg) != kNone) {
      d.written |= bit(target.general(reg));
    } else {
      d.writes_other = true;
    }
  };
  for (unsigned i = 0; i < desc.getNumDefs() && i < inst.getNumOperands(); ++i)
    if (inst.getOperand(i).isReg()) write(inst.getOperand(i).getReg());
  for (const auto reg : desc.implicit_defs()) write(reg);
  const auto read = [&](unsigned reg) {
    if (target.general(reg) != kNone) d.read |= bit(target.general(reg));
  };
  for (unsigned i = desc.getNumDefs(); i < inst.getNumOperands(); ++i)
    if (inst.getOperand(i).isReg()) read(inst.getOperand(i).getReg());
  for (const auto reg : desc.implicit_uses()) read(reg);
}

Result<Decoded> decode_one(const Stencil& stencil, std::span<const std::byte> first,
                           std::span<const std::byte> second, uint32_t offset, size_t& next_hole) {
  const Admission& target = Admission::get();
  llvm::MCInst a, b;
  Decoded d;
  d.offset = offset;
  const uint64_t size = target.decode(first.subspan(offset), a);
  if (size == 0) return at(offset, Rule::decodes, "these bytes are no instruction");
  d.size = static_cast<uint8_t>(size);
  d.opcode = a.getOpcode();
  d.name = target.name(a.getOpcode());
  const Admitted* rule = target.admitted(a.getOpcode());
  if (!rule)
    return at(offset, Rule::listed, fmt::format("instruction {} is not on the list of a stencil's", d.name));
  if (has_prefix(first.subspan(offset, size)) || a.getFlags() != 0)
    return at(offset, Rule::prefix, fmt::format("instruction {} has a prefix", d.name));
  if (target.decode(second.subspan(offset), b) != size || b.getOpcode() != a.getOpcode() ||
      b.getNumOperands() != a.getNumOperands() || b.getFlags() != 0)
    return at(offset, Rule::same_instruction, "a hole changes what the instruction is");
  if (auto matched = match_holes(stencil, a, b, d, next_hole); !matched) return matched.error();
  read_operands(target, a, d);
  d.access = rule->access;
  d.flow = rule->flow;
  d.effect = rule->effect;
  if (d.effect == Effect::address) d.memory = 1;  // its operand is no access, so LLVM does not say so
  if (d.effect == Effect::call) {  // what the routines keep (format/kinds.h), not what the ABI does
    d.read = d.written = bit(kR10);
    d.writes_flags = true;
    d.writes_other = false;
  }
  if (d.flow == Flow::if_other && d.operands.size() > 1) {
    if (d.operands[1].value == kConditionEqual) d.flow = Flow::if_equal;
    if (d.operands[1].value == kConditionNotEqual) d.flow = Flow::if_not_equal;
  }
  return d;
}

}  // namespace

std::string_view register_name(Register r) {
  return r == kNone ? "no register" : kRegisterNames[r];
}

Register register_named(std::string_view name) {
  for (int r = 0; r < kRegisters; ++r)
    if (kRegisterNames[r] == name) return static_cast<Register>(r);
  return kNone;
}

Register lowest(uint32_t registers) {
  return static_cast<Register>(std::countr_zero(registers));
}

Result<std::vector<Decoded>> decode_stencil(const Stencil& stencil) {
  const std::vector<std::byte> first = fill(stencil, false), second = fill(stencil, true);
  std::vector<Decoded> code;
  size_t next_hole = 0;
  for (uint32_t offset = 0; offset < first.size();) {
    auto decoded = decode_one(stencil, first, second, offset, next_hole);
    if (!decoded) return decoded.error();
    offset += decoded->size;
    code.push_back(std::move(*decoded));
  }
  return code;
}

Result<void> read_filled(const Stencil& stencil, std::span<const std::byte> filled,
                         std::vector<Decoded>& code) {
  if (stencil.code.size() != filled.size())
    return broken(Rule::filled_same, "its filled code has another size");
  const Admission& target = Admission::get();
  for (Decoded& d : code) {
    llvm::MCInst inst;
    if (target.decode(filled.subspan(d.offset), inst) != d.size || inst.getOpcode() != d.opcode ||
        inst.getNumOperands() != d.operands.size())
      return at(d.offset, Rule::filled_same, "filling a hole changed what the instruction is");
    for (const auto& [operand, hole] : d.holes) {
      if (!inst.getOperand(operand).isImm())
        return at(d.offset, Rule::filled_same, "filling a hole changed an operand");
      d.operands[operand].value = inst.getOperand(operand).getImm();
    }
  }
  return {};
}

}  // namespace mdl::plan::x86_64
