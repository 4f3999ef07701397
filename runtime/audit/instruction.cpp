#include "runtime/audit/instruction.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <cstring>

namespace mdl::audit {
namespace {

ZydisDecoder make_decoder(bool only_sizes) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_MINIMAL, only_sizes);
  return decoder;
}

Kind kind_of(const ZydisDecodedInstruction& in) {
  const bool is_direct = in.raw.imm[0].is_relative;
  // They go on behind themselves, or to where the transaction began, wherever they stand.
  if (in.mnemonic == ZYDIS_MNEMONIC_XABORT || in.mnemonic == ZYDIS_MNEMONIC_XEND) return Kind::plain;
  switch (in.meta.category) {
    case ZYDIS_CATEGORY_UNCOND_BR:
      if (in.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR || in.mnemonic != ZYDIS_MNEMONIC_JMP)
        return Kind::other;
      return is_direct ? Kind::jump : Kind::indirect_jump;
    case ZYDIS_CATEGORY_COND_BR:
      if (in.mnemonic == ZYDIS_MNEMONIC_XABORT)
        return Kind::plain;  // goes to where the transaction began, or on
      return in.mnemonic == ZYDIS_MNEMONIC_XBEGIN ? Kind::other : Kind::branch;
    case ZYDIS_CATEGORY_CALL:
      if (in.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR) return Kind::other;
      return is_direct ? Kind::call : Kind::indirect_call;
    case ZYDIS_CATEGORY_RET:
      return in.mnemonic == ZYDIS_MNEMONIC_RET && in.meta.branch_type != ZYDIS_BRANCH_TYPE_FAR ? Kind::return_
                                                                                               : Kind::other;
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_SYSTEM:
      return in.mnemonic == ZYDIS_MNEMONIC_RDTSC || in.mnemonic == ZYDIS_MNEMONIC_RDTSCP ? Kind::plain
                                                                                         : Kind::other;
    default:
      return in.mnemonic == ZYDIS_MNEMONIC_HLT || in.mnemonic == ZYDIS_MNEMONIC_UD0 ||
                     in.mnemonic == ZYDIS_MNEMONIC_UD1 || in.mnemonic == ZYDIS_MNEMONIC_UD2
                 ? Kind::other
                 : Kind::plain;
  }
}

bool is_jcc(const ZydisDecodedInstruction& in) {
  return (in.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && (in.opcode & 0xf0) == 0x70) ||
         (in.opcode_map == ZYDIS_OPCODE_MAP_0F && (in.opcode & 0xf0) == 0x80);
}

bool is_pc_relative(const ZydisDecodedInstruction& in) {
  return (in.attributes & ZYDIS_ATTRIB_HAS_MODRM) && in.raw.modrm.mod == 0 && in.raw.modrm.rm == 5 &&
         in.raw.disp.size == 32;
}

bool equal_but_for(const Instruction& a, const Instruction& b, size_t from, size_t to) {
  for (size_t i = 0; i < a.size; ++i)
    if ((i < from || i >= to) && a.bytes[i] != b.bytes[i]) return false;
  return a.size == b.size;
}

// The size of a displacement that is relative to the pc.
constexpr size_t kOperandSize = 4;

}  // namespace

uint8_t size_of_instruction(std::span<const std::byte> bytes) {
  static const ZydisDecoder decoder = make_decoder(true);
  ZydisDecodedInstruction in;
  return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, bytes.data(), bytes.size(), &in))
             ? in.length
             : 0;
}

std::optional<Instruction> decode(std::span<const std::byte> bytes, uint64_t address) {
  static const ZydisDecoder decoder = make_decoder(false);
  ZydisDecodedInstruction in;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, bytes.data(), bytes.size(), &in)))
    return std::nullopt;
  Instruction out;
  out.address = address;
  out.size = in.length;
  std::memcpy(out.bytes.data(), bytes.data(), in.length);
  out.kind = kind_of(in);
  if (is_jcc(in)) out.condition = in.opcode & 15;
  if (out.kind == Kind::jump || out.kind == Kind::branch || out.kind == Kind::call)
    out.target = out.end() + static_cast<uint64_t>(in.raw.imm[0].value.s);
  if (is_pc_relative(in)) {
    out.operand_at = in.raw.disp.offset;
    out.operand = out.end() + static_cast<uint64_t>(in.raw.disp.value);
  }
  if (!in.raw.imm[0].is_relative && in.raw.imm[0].size >= 32) out.constants[0] = in.raw.imm[0].value.u;
  if (!out.operand_at && in.raw.disp.size == 32) out.constants[1] = static_cast<uint64_t>(in.raw.disp.value);
  out.is_padding = in.mnemonic == ZYDIS_MNEMONIC_NOP || in.mnemonic == ZYDIS_MNEMONIC_INT3;
  out.is_landing = in.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
  out.is_address = in.mnemonic == ZYDIS_MNEMONIC_LEA;
  return out;
}

bool has_same_effect(const Instruction& original, const Instruction& copy) {
  if (original.kind != copy.kind) return false;
  switch (original.kind) {
    case Kind::jump:
      return original.target == copy.target;
    case Kind::branch:
      return original.target == copy.target && original.condition == copy.condition &&
             original.condition != Instruction::kNoCondition;
    case Kind::plain:
    case Kind::indirect_jump:
    case Kind::return_: {
      if (original.operand_at != copy.operand_at || original.operand != copy.operand) return false;
      const size_t at = original.operand_at ? original.operand_at : original.size;
      return equal_but_for(original, copy, at, at + kOperandSize);
    }
    case Kind::call:
    case Kind::indirect_call:
    case Kind::other:
      return false;
  }
  return false;
}

bool goes_on_as(const Instruction& call, const Instruction& jump) {
  if (call.kind == Kind::call) return jump.kind == Kind::jump && jump.target == call.target;
  if (call.kind != Kind::indirect_call || jump.kind != Kind::indirect_jump) return false;
  if (call.operand_at != jump.operand_at || call.operand != jump.operand || call.size != jump.size)
    return false;
  // ff /2 and ff /4 (SDM volume 2, CALL and JMP): the ModRM byte follows the last ff.
  const auto opcode = std::find(call.bytes.begin(), call.bytes.begin() + call.size, 0xff);
  const auto modrm = static_cast<size_t>(opcode - call.bytes.begin()) + 1;
  if (modrm >= call.size || (call.bytes[modrm] & 0x38) != 0x10 || (jump.bytes[modrm] & 0x38) != 0x20)
    return false;
  Instruction as_jump = call;
  as_jump.bytes[modrm] = static_cast<uint8_t>((call.bytes[modrm] & ~0x38) | 0x20);
  const size_t at = call.operand_at ? call.operand_at : call.size;
  return equal_but_for(as_jump, jump, at, at + kOperandSize);
}

}  // namespace mdl::audit
