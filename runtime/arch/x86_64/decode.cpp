// x86_64 instructions, decoded with LLVM MC.
//
// The effect of an instruction on the general registers and the flags comes from LLVM's
// instruction tables, corrected where they describe what a compiler may assume and not what the
// machine does (bsf leaves its destination alone for a zero source; a repeated string
// instruction may run no times). Where nothing certain is known, an instruction reads everything.
#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <string_view>

#include "runtime/arch/decoder.h"
#include "runtime/arch/x86_64/disassembler.h"

namespace mdl::arch {
namespace {

using image::Condition;
using image::Detail;
using image::Flow;
using image::Instruction;
using image::InstructionBytes;
using image::kFlags;
using image::kNoRegister;
using image::kPcRegister;
using image::Operation;
using image::Registers;
using llvm::MCInst;
using llvm::MCInstrDesc;
using llvm::MCOperand;

constexpr Registers kEverything = kFlags | 0xffff;
constexpr Registers bit(int number) {
  return image::register_bit(number);
}
constexpr Registers kRax = bit(0), kRcx = bit(1), kRsp = bit(4), kRsi = bit(6), kRdi = bit(7), kR11 = bit(11);

// Facts about an opcode that LLVM's tables do not have, found once per opcode by its name.
enum class FlagEffect : uint8_t {
  partial,  // some flags, or on a condition
  all,      // every arithmetic flag gets a new or an undefined value, whatever the operands
};

struct Opcode {
  Flow flow = Flow::next;
  FlagEffect flags = FlagEffect::partial;
  Operation operation = Operation::other;
  bool is_prefix = false;          // LLVM shows some prefixes as instructions of their own
  bool keeps_destination = false;  // may leave its destination unchanged
  bool is_string = false;
  bool is_loop = false;        // counts in rcx; the tables are silent
  bool is_zero_idiom = false;  // xor, sub: no input when both operands are one register
  bool touches_flags = false;  // and reads them; LLVM's tables are silent
  bool reads_all = false;
  uint8_t displacement_size = 0;  // of a direct jump
  uint8_t load_size = 0;          // of Operation::load
};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "ADD64rr" for family "ADD": the family, then an operand width or form.
bool is_of_family(std::string_view name, std::string_view family) {
  if (!name.starts_with(family)) return false;
  std::string_view rest = name.substr(family.size());
  return rest.starts_with("8") || rest.starts_with("16") || rest.starts_with("32") || rest.starts_with("64");
}

Flow flow_of(std::string_view name, const MCInstrDesc& description) {
  if (is_one_of(name, {"SYSCALL", "SYSENTER", "INT"})) return Flow::system_call;
  if (is_one_of(name, {"INT3", "HLT", "TRAP", "INTO"}) || name.starts_with("UD")) return Flow::stop;
  if (name.starts_with("FARJMP")) return Flow::jump_indirect;
  if (name.starts_with("FARCALL")) return Flow::call_indirect;
  if (description.isReturn() || name.starts_with("IRET") || name.starts_with("LRET") ||
      name.starts_with("SYSRET") || name.starts_with("SYSEXIT"))
    return Flow::return_;
  bool is_direct =
      std::any_of(description.operands().begin(), description.operands().end(),
                  [](const auto& operand) { return operand.OperandType == llvm::MCOI::OPERAND_PCREL; });
  if (description.isCall()) return is_direct ? Flow::call : Flow::call_indirect;
  if (name.starts_with("JMP")) return is_direct ? Flow::jump : Flow::jump_indirect;
  if (name.starts_with("XBEGIN")) return Flow::branch;
  if (description.isBranch()) return is_direct ? Flow::branch : Flow::jump_indirect;
  return Flow::next;
}

Operation operation_of(std::string_view name) {
  if (is_one_of(name, {"MOV64rm", "MOV32rm", "MOVSX64rm32"})) return Operation::load;
  if (is_one_of(name, {"LEA64r", "LEA64_32r", "LEA32r", "LEA16r"})) return Operation::address;
  if (is_one_of(name, {"MOV64rr", "MOV64rr_REV", "MOV32rr", "MOV32rr_REV", "MOVSX64rr32"}))
    return Operation::move;
  if (is_one_of(name, {"ADD64rr", "ADD64rr_REV", "ADD64rm", "ADD32rr", "ADD32rm"})) return Operation::add;
  if (is_one_of(name, {"MOV32ri", "MOV32ri_alt", "MOV64ri32", "MOV64ri"})) return Operation::constant;
  if (is_of_family(name, "CMP") && name.find('i') != std::string_view::npos) return Operation::compare;
  if (is_one_of(name, {"POP64r", "POP64rmr"})) return Operation::pop;
  return Operation::other;
}

// LLVM marks these as having effects that its tables do not hold, but none is on a general
// register or on the flags beyond the operands that it lists.
bool has_only_listed_effects(std::string_view name) {
  return is_one_of(name, {"ENDBR64",    "ENDBR32",    "PAUSE",    "LFENCE",   "MFENCE",     "SFENCE",
                          "LDMXCSR",    "STMXCSR",    "VLDMXCSR", "VSTMXCSR", "VZEROUPPER", "VZEROALL",
                          "NOOP",       "EMMS",       "RDTSC",    "RDTSCP",   "CPUID",      "XGETBV",
                          "RDFSBASE64", "RDGSBASE64", "TRAP",     "INT3",     "HLT"}) ||
         name.starts_with("NOOP") || name.starts_with("PREFETCH") || name.starts_with("CLFLUSH") ||
         name.starts_with("FLD") || name.starts_with("FNSTC") || name.starts_with("XCHG") ||
         name.starts_with("DIV") || name.starts_with("IDIV") || name.starts_with("LOCK_") ||
         name.starts_with("LXADD") || name.starts_with("XADD") || name.starts_with("LCMPXCHG") ||
         name.starts_with("CMPXCHG");
}

Opcode classify(std::string_view name, const MCInstrDesc& description) {
  Opcode opcode;
  opcode.flow = flow_of(name, description);
  opcode.operation = operation_of(name);
  if (opcode.operation == Operation::load) opcode.load_size = name == "MOV64rm" ? 8 : 4;
  opcode.is_prefix = name.ends_with("_PREFIX");
  opcode.is_zero_idiom = is_of_family(name, "XOR") || is_of_family(name, "SUB");
  std::string_view family = name;
  if (family.starts_with("LOCK_")) family.remove_prefix(5);
  for (std::string_view all :
       {"CMP", "TEST", "ADD", "SUB", "AND", "OR", "XOR", "NEG", "ADC", "SBB", "XADD", "CMPXCHG"})
    if (is_of_family(family, all)) opcode.flags = FlagEffect::all;
  // (V)(U)COMISS and its kind: ZF, PF, CF set by the result, OF, SF, AF cleared.
  if (name.find("COMIS") != std::string_view::npos) opcode.flags = FlagEffect::all;
  // "undefined for a zero source" in Intel's manual means unchanged on every processor; a
  // processor without lzcnt and tzcnt runs bsr and bsf.
  opcode.keeps_destination = is_of_family(name, "BSF") || is_of_family(name, "BSR") ||
                             is_of_family(name, "TZCNT") || is_of_family(name, "LZCNT") ||
                             is_of_family(name, "CMOV") || name.starts_with("LAR") || name.starts_with("LSL");
  opcode.is_loop = name.starts_with("LOOP");
  opcode.is_string = name.starts_with("MOVSB") || is_one_of(name, {"MOVSW", "MOVSL", "MOVSQ"}) ||
                     name.starts_with("STOS") || name.starts_with("LODS") || name.starts_with("SCAS") ||
                     name.starts_with("CMPS") || name.starts_with("INSB") || name.starts_with("INSL") ||
                     name.starts_with("INSW") || name.starts_with("OUTS");
  // CMPSS, CMPSD and MOVSB-like vector names that the prefixes above also take in lose nothing but precision.
  opcode.touches_flags = is_one_of(name, {"CMC", "CLC", "STC", "SAHF", "LAHF"}) || name.starts_with("POPF") ||
                         name.starts_with("PUSHF") || is_one_of(name, {"LOOPE", "LOOPNE"});
  opcode.reads_all =
      (description.hasUnmodeledSideEffects() && !has_only_listed_effects(name)) ||
      (opcode.flow != Flow::next && opcode.flow != Flow::jump && opcode.flow != Flow::branch) ||
      name.starts_with("XBEGIN");
  if (name.ends_with("_1") || name.starts_with("LOOP") || is_one_of(name, {"JRCXZ", "JECXZ", "JCXZ"}))
    opcode.displacement_size = 1;
  return opcode;
}

struct RegisterFact {
  int8_t number = kNoRegister;
  bool replaces_all = false;  // 64 bits wide, or 32: those clear the upper half (SDM vol. 1, 3.4.1.1)
};

constexpr std::array<std::pair<const char*, const char*>, 16> kGeneralRegisters = {{
    {"RAX", "EAX"},
    {"RCX", "ECX"},
    {"RDX", "EDX"},
    {"RBX", "EBX"},
    {"RSP", "ESP"},
    {"RBP", "EBP"},
    {"RSI", "ESI"},
    {"RDI", "EDI"},
    {"R8", "R8D"},
    {"R9", "R9D"},
    {"R10", "R10D"},
    {"R11", "R11D"},
    {"R12", "R12D"},
    {"R13", "R13D"},
    {"R14", "R14D"},
    {"R15", "R15D"},
}};

// Tables made of LLVM's descriptions; that of opcodes row by row, since programs use some hundred of its 20,000. Any
// thread may ask.
class Decoder {
 public:
  Decoder();
  uint64_t decode(std::span<const std::byte> bytes, uint64_t address, MCInst& inst) const {
    return disassembler_.decode(bytes, address, inst);
  }
  const MCInstrDesc& description(const MCInst& inst) const {
    return disassembler_.instructions().get(inst.getOpcode());
  }
  const Opcode& opcode(const MCInst& inst) const {
    const unsigned number = inst.getOpcode();
    if (!is_classified_[number].load(std::memory_order_acquire)) classify_opcode(number);
    return opcodes_[number];
  }
  RegisterFact fact(unsigned reg) const { return registers_[reg]; }
  std::string_view register_name(unsigned reg) const { return disassembler_.registers().getName(reg); }
  bool is_flags(unsigned reg) const { return reg == flags_; }
  bool is_pc(unsigned reg) const { return reg == rip_ || reg == eip_; }

 private:
  void classify_opcode(unsigned number) const {
    const llvm::MCInstrInfo& instructions = disassembler_.instructions();
    const std::lock_guard lock(mutex_);
    if (is_classified_[number].load(std::memory_order_relaxed)) return;
    opcodes_[number] = classify(std::string_view(instructions.getName(number)), instructions.get(number));
    is_classified_[number].store(true, std::memory_order_release);
  }

  const x86_64::Disassembler& disassembler_ = x86_64::Disassembler::instance();
  mutable std::mutex mutex_;
  mutable std::vector<Opcode> opcodes_ = std::vector<Opcode>(disassembler_.instructions().getNumOpcodes());
  mutable std::vector<std::atomic<bool>> is_classified_ = std::vector<std::atomic<bool>>(opcodes_.size());
  std::vector<RegisterFact> registers_;
  unsigned flags_ = 0, rip_ = 0, eip_ = 0;
};

Decoder::Decoder() {
  const llvm::MCRegisterInfo& registers = disassembler_.registers();
  registers_.resize(registers.getNumRegs());
  for (unsigned reg = 1; reg < registers.getNumRegs(); ++reg) {
    std::string_view name = registers.getName(reg);
    if (name == "EFLAGS") flags_ = reg;
    if (name == "RIP") rip_ = reg;
    if (name == "EIP") eip_ = reg;
    for (size_t number = 0; number < kGeneralRegisters.size(); ++number) {
      if (name != kGeneralRegisters[number].first) continue;
      for (unsigned sub : registers.subregs_inclusive(reg)) {
        std::string_view sub_name = registers.getName(sub);
        registers_[sub] = {static_cast<int8_t>(number), sub_name == kGeneralRegisters[number].first ||
                                                            sub_name == kGeneralRegisters[number].second};
      }
    }
  }
}

const Decoder& decoder() {
  static const Decoder instance;
  return instance;
}

// Where the ModRM byte is: behind the prefixes, REX and the opcode (SDM volume 2, chapter 2).
// 0 when the bytes end before it.
size_t modrm_offset(std::span<const std::byte> bytes) {
  auto at = [&](size_t i) { return i < bytes.size() ? static_cast<unsigned>(bytes[i]) : 0u; };
  constexpr std::string_view kPrefixes = "\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3";
  size_t i = 0;
  while (i < bytes.size() && kPrefixes.find(static_cast<char>(at(i))) != std::string_view::npos) ++i;
  if (at(i) == 0xc5) return i + 3;                             // VEX, two bytes, then the opcode
  if (at(i) == 0xc4) return i + 4;                             // VEX, three bytes
  if (at(i) == 0x62) return i + 5;                             // EVEX, four bytes
  if (at(i) == 0x8f && (at(i + 1) & 0x1f) >= 8) return i + 4;  // XOP (AMD APM volume 3, 1.8)
  if ((at(i) & 0xf0) == 0x40) ++i;                             // REX
  if (at(i) != 0x0f) return i + 1;
  return at(i + 1) == 0x38 || at(i + 1) == 0x3a ? i + 3 : i + 2;
}

// nop in all its lengths (SDM volume 2, NOP), and int3, which linkers and MSVC fill with.
bool is_padding(std::span<const std::byte> bytes) {
  auto at = [&](size_t i) { return i < bytes.size() ? static_cast<unsigned>(bytes[i]) : 0u; };
  if (bytes.size() == 1) return at(0) == 0x90 || at(0) == 0xcc;
  size_t i = 0;
  while (at(i) == 0x66 || at(i) == 0x2e) ++i;
  if (at(i) == 0x90) return i + 1 == bytes.size();
  if ((at(i) & 0xf8) == 0x48) ++i;  // REX.W
  return at(i) == 0x0f && at(i + 1) == 0x1f;
}

bool is_endbr64(std::span<const std::byte> bytes) {
  constexpr std::array<std::byte, 4> kEndbr64 = {std::byte{0xf3}, std::byte{0x0f}, std::byte{0x1e},
                                                 std::byte{0xfa}};
  return std::ranges::equal(bytes, kEndbr64);
}

void note_read(const RegisterFact& fact, Instruction& instruction) {
  if (fact.number >= 0) instruction.reads |= bit(fact.number);
}

void note_write(const RegisterFact& fact, bool is_certain, Instruction& instruction) {
  if (fact.number < 0) return;
  instruction.touches |= bit(fact.number);
  if (fact.replaces_all && is_certain)
    instruction.writes |= bit(fact.number);
  else
    instruction.reads |= bit(fact.number);  // what is not written stays
}

void note_effects(const MCInst& inst, Instruction& instruction) {
  const Decoder& tables = decoder();
  const MCInstrDesc& description = tables.description(inst);
  const Opcode& opcode = tables.opcode(inst);
  unsigned definitions = description.getNumDefs();
  unsigned count = inst.getNumOperands();
  bool is_zero = false;
  if (opcode.is_zero_idiom && definitions == 1 && count == 3 && inst.getOperand(1).isReg() &&
      inst.getOperand(2).isReg())
    is_zero = inst.getOperand(1).getReg() == inst.getOperand(2).getReg() &&
              tables.fact(inst.getOperand(1).getReg()).replaces_all;
  for (unsigned i = 0; i < count; ++i) {
    const MCOperand& operand = inst.getOperand(i);
    if (!operand.isReg()) continue;
    RegisterFact fact = tables.fact(operand.getReg());
    if (i < definitions)
      note_write(fact, !opcode.keeps_destination, instruction);
    else if (!is_zero)
      note_read(fact, instruction);
  }
  for (unsigned reg : description.implicit_uses()) {
    note_read(tables.fact(reg), instruction);
    if (tables.is_flags(reg)) instruction.reads |= kFlags;
  }
  for (unsigned reg : description.implicit_defs()) {
    note_write(tables.fact(reg), true, instruction);
    if (!tables.is_flags(reg)) continue;
    instruction.touches |= kFlags;
    if (opcode.flags == FlagEffect::all) instruction.writes |= kFlags;
  }
  if (opcode.touches_flags) {
    instruction.reads |= kFlags;
    instruction.touches |= kFlags;
  }
  if (opcode.is_string) {
    constexpr Registers kString = kRax | kRcx | kRsi | kRdi;
    instruction.reads |= kString | kFlags;
    instruction.touches |= kString | kFlags;
    instruction.writes = 0;
  }
  if (opcode.is_loop) instruction.touches |= kRcx;
  if (opcode.flow == Flow::system_call) instruction.touches |= kRax | kRcx | kR11;
  if (opcode.flow == Flow::call || opcode.flow == Flow::call_indirect)
    instruction.touches |= kEverything & ~kRsp;
  if (opcode.reads_all) {
    instruction.reads = kEverything;
    instruction.writes = 0;
    if (opcode.flow == Flow::next) instruction.touches = kEverything;
  }
}

// The index of the first of the five operands of a memory reference, or -1. LLVM does not
// mark lea's as one.
int memory_operand(const MCInst& inst, const MCInstrDesc& description) {
  if (decoder().opcode(inst).operation == Operation::address) return 1;
  for (unsigned i = 0; i + 4 < inst.getNumOperands() && i < description.getNumOperands(); ++i)
    if (description.operands()[i].OperandType == llvm::MCOI::OPERAND_MEMORY)
      return inst.getOperand(i).isReg() && inst.getOperand(i + 1).isImm() && inst.getOperand(i + 2).isReg() &&
                     inst.getOperand(i + 3).isImm()
                 ? static_cast<int>(i)
                 : -1;
  return -1;
}

// The condition of a jcc, whose operands are its target and the condition's code (SDM volume 1, appendix B).
Condition condition_of(const MCInst& inst) {
  constexpr int64_t kAboveOrEqual = 3, kAbove = 7;
  if (decoder().opcode(inst).flow != Flow::branch || inst.getNumOperands() != 2) return Condition::other;
  const MCOperand& code = inst.getOperand(1);
  if (code.isImm() && code.getImm() == kAbove) return Condition::above;
  return code.isImm() && code.getImm() == kAboveOrEqual ? Condition::above_or_equal : Condition::other;
}

void note_detail(const MCInst& inst, Detail& detail) {
  const Decoder& tables = decoder();
  const MCInstrDesc& description = tables.description(inst);
  detail.operation = tables.opcode(inst).operation;
  detail.load_size = tables.opcode(inst).load_size;
  int memory = memory_operand(inst, description);
  if (memory >= 0) {
    auto at = static_cast<unsigned>(memory);
    unsigned base = inst.getOperand(at).getReg();
    detail.has_memory = true;
    detail.memory.base = tables.is_pc(base) ? kPcRegister : tables.fact(base).number;
    detail.memory.scale = static_cast<uint8_t>(inst.getOperand(at + 1).getImm());
    detail.memory.index = tables.fact(inst.getOperand(at + 2).getReg()).number;
    detail.memory.displacement = inst.getOperand(at + 3).getImm();
    // Only fs and gs move an address in 64-bit code (SDM volume 1, 3.4.4); the others are what is
    // left of prefixes such as notrack (3e).
    unsigned segment = inst.getOperand(at + 4).isReg() ? inst.getOperand(at + 4).getReg() : 0;
    std::string_view segment_name = segment ? decoder().register_name(segment) : std::string_view{};
    detail.memory.has_segment = segment_name == "FS" || segment_name == "GS";
  }
  for (unsigned i = 0; i < inst.getNumOperands(); ++i) {
    const MCOperand& operand = inst.getOperand(i);
    bool in_memory =
        memory >= 0 && i >= static_cast<unsigned>(memory) && i < static_cast<unsigned>(memory) + 5;
    if (operand.isImm() && !in_memory) detail.immediate = operand.getImm();
    if (!operand.isReg() || in_memory) continue;
    if (i < description.getNumDefs())
      detail.destination = tables.fact(operand.getReg()).number;
    else
      detail.source = tables.fact(operand.getReg()).number;
  }
  if (detail.operation == Operation::add && detail.has_memory) detail.source = kNoRegister;
  detail.condition = condition_of(inst);
}

// Where the displacement of a pc-relative memory operand is; false when it is not where the
// encoding rules put it.
bool find_pc_relative(const MCInst& inst, std::span<const std::byte> bytes, const Detail& detail,
                      Instruction& instruction) {
  bool names_pc = std::any_of(inst.begin(), inst.end(), [](const MCOperand& operand) {
    return operand.isReg() && decoder().is_pc(operand.getReg());
  });
  if (!names_pc) return true;
  if (!detail.has_memory || detail.memory.base != kPcRegister) return false;
  size_t modrm = modrm_offset(bytes);
  // ModRM.mod = 00, ModRM.rm = 101: disp32 follows (SDM volume 2, 2.2.1.6).
  if (modrm + 5 > bytes.size() || (static_cast<unsigned>(bytes[modrm]) & 0xc7) != 0x05) return false;
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(bytes[modrm + 1 + i]) << (8 * i);
  instruction.pc_relative_at = static_cast<uint8_t>(modrm + 1);
  return static_cast<int32_t>(value) == detail.memory.displacement;
}

// The direct target of a jump, branch or call.
bool find_target(const MCInst& inst, const Opcode& opcode, Instruction& instruction) {
  if (opcode.flow != Flow::jump && opcode.flow != Flow::branch && opcode.flow != Flow::call) return true;
  if (inst.getNumOperands() == 0 || !inst.getOperand(0).isImm()) return false;
  instruction.target =
      instruction.address + instruction.size + static_cast<uint64_t>(inst.getOperand(0).getImm());
  instruction.short_form = opcode.flow != Flow::call && opcode.displacement_size == 1;
  return true;
}

// Its size, with the prefixes that LLVM shows as instructions of their own; 0 where there is none.
uint64_t decode_whole(const Decoder& tables, std::span<const std::byte> bytes, uint64_t address,
                      MCInst& inst) {
  bytes = bytes.first(std::min(bytes.size(), InstructionBytes::kMost));
  for (uint64_t prefixes = 0; prefixes < bytes.size();) {
    inst.clear();
    const uint64_t size = tables.decode(bytes.subspan(prefixes), address + prefixes, inst);
    if (size == 0 || prefixes + size > bytes.size()) return 0;
    prefixes += size;
    if (!tables.opcode(inst).is_prefix) return prefixes;
  }
  return 0;
}

}  // namespace

bool decode_instruction(std::span<const std::byte> bytes, uint64_t address, Instruction& instruction,
                        Detail& detail) {
  const Decoder& tables = decoder();
  MCInst inst;
  const uint64_t size = decode_whole(tables, bytes, address, inst);
  if (size == 0) return false;
  bytes = bytes.first(size);
  const Opcode& opcode = tables.opcode(inst);
  instruction = {};
  detail = {};
  instruction.address = address;
  instruction.size = static_cast<uint8_t>(bytes.size());
  instruction.flow = opcode.flow;
  instruction.bytes.assign(bytes);
  instruction.is_padding = is_padding(bytes);
  instruction.is_landing = is_endbr64(bytes);
  if (!instruction.is_padding) note_effects(inst, instruction);
  note_detail(inst, detail);
  return find_pc_relative(inst, bytes, detail, instruction) && find_target(inst, opcode, instruction);
}

void find_jumps(std::span<const std::byte> bytes, uint64_t start, llvm::function_ref<void(uint64_t)> found) {
  const Decoder& tables = decoder();
  MCInst inst;
  uint64_t size = 0;
  for (uint64_t at = 0; at < bytes.size(); at += size) {
    size = decode_whole(tables, bytes.subspan(at), start + at, inst);
    if (size == 0) return;
    const Flow flow = tables.opcode(inst).flow;
    if ((flow == Flow::jump || flow == Flow::branch) && inst.getNumOperands() != 0 &&
        inst.getOperand(0).isImm())
      found(start + at + size + static_cast<uint64_t>(inst.getOperand(0).getImm()));
  }
}

}  // namespace mdl::arch
