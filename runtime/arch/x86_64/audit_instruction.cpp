// The auditor's x86-64 instructions, decoded by Zydis. Of the rest of this folder only the search for displacements is used.
//
// Displacements of 32 bits follow an opcode (call e8, jmp e9, jcc 0f 80..8f) or the ModRM byte of an operand
// relative to the pc (SDM volume 2, table 2-2); code is no operand of an instruction with an immediate.
#include <Zydis/Zydis.h>

#include <algorithm>
#include <cstring>

#include "runtime/arch/x86_64/displacements.h"
#include "runtime/audit/instruction.h"

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

bool is_opposite(const Instruction& branch, const Instruction& other) {
  return branch.condition != Instruction::kNoCondition && other.condition == (branch.condition ^ 1);
}

// The bytes before a displacement are the opcode of a call or a jump, the last one of a jcc's, or a ModRM.
void find_leads(std::span<const std::byte> text, uint64_t start, const image::Range& watched, Report report) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const auto is_operand = [&](size_t at) { return (bytes[at - 1] & 0xc7) == 0x05; };
  const auto is_address = [&](size_t at) {
    return at > 1 && bytes[at - 2] == 0x8d && is_operand(at);
  };  // lea
  arch::find_displacements(text, start, watched, [&](size_t at, uint64_t to) {
    const uint8_t before = bytes[at - 1];
    if ((before & 0xfe) == 0xe8 || ((before & 0xf0) == 0x80 && at > 1 && bytes[at - 2] == 0x0f) ||
        (is_operand(at) && !is_address(at)))
      report({start + at, to});
  });
  constexpr size_t kSize = 6;  // from the opcode to the displacement's end
  for (size_t opcode = 0; opcode + kSize <= text.size(); ++opcode) {
    const void* next = std::memchr(bytes + opcode, 0x8d, text.size() - kSize + 1 - opcode);
    if (!next) break;
    opcode = static_cast<size_t>(static_cast<const uint8_t*>(next) - bytes);
    const size_t at = opcode + 2;
    if (is_address(at)) report({start + at, arch::target_of(bytes, at, start), true});
  }
}

// A program at a fixed place below 4 GiB has its own addresses as operands of 32 bits.
void find_constants(std::span<const std::byte> text, uint64_t start, const image::Range& watched,
                    Report report) {
  if (start + text.size() > UINT32_MAX) return;
  for (size_t at = 1; at + 4 <= text.size(); ++at) {
    uint32_t word;
    std::memcpy(&word, text.data() + at, sizeof word);
    if (watched.contains(word)) report({start + at, word});
  }
}

// jcc 70..7f, loop and jrcxz e0..e3, jmp eb, with a displacement of eight bits.
void find_short_leads(std::span<const std::byte> text, uint64_t start, const image::Range& watched,
                      Report report) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const uint64_t first = std::max(start + 1, watched.start - std::min<uint64_t>(watched.start, 128));
  const uint64_t last = std::min(start + text.size(), watched.end + 128);
  for (uint64_t at = first; at < last; ++at) {
    const uint8_t opcode = bytes[at - 1 - start];
    if ((opcode & 0xf0) != 0x70 && (opcode & 0xfc) != 0xe0 && opcode != 0xeb) continue;
    const uint64_t to = at + 1 + static_cast<uint64_t>(int64_t{static_cast<int8_t>(bytes[at - start])});
    if (watched.contains(to)) report({at, to});
  }
}

}  // namespace mdl::audit
