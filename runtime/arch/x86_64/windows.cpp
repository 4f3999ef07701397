// The bytes that are written over code: jumps of several sizes, and calls in the place of calls.
//
// e9 rel32 is the usual jump. Where there is no room for it, eb rel8 leads to one in padding nearby, or only
// the first of its bytes are written: those behind it, of the next instruction, are the upper bytes of its
// displacement as they stand (a punned jump: Duck and others, "Binary rewriting without control flow
// recovery", PLDI 2020). A call in the place of a longer one has prefixes that mean nothing there.
#include "runtime/arch/windows.h"

#include <algorithm>
#include <cstdint>

#include "runtime/arch/description.h"
#include "runtime/arch/displacement.h"
#include "runtime/arch/x86_64/emitter.h"

namespace mdl::arch {
namespace {

bool is_rex(uint8_t byte) {
  return (byte & 0xf0) == 0x40;
}

// Where the opcode stands: behind a REX prefix. Instructions with other prefixes are not looked at.
size_t opcode_at(const image::Instruction& in) {
  return !in.bytes.empty() && is_rex(in.bytes[0]) ? 1 : 0;
}

uint8_t byte_at(const image::Instruction& in, size_t at) {
  return at < in.bytes.size() ? in.bytes[at] : 0;
}

// Opcodes of one byte with a register or memory operand that read and write nothing else: add, or, and,
// sub, xor, cmp in both directions, test, mov, movslq, and shifts and arithmetic with an immediate.
constexpr uint8_t kPlain[] = {0x01, 0x03, 0x09, 0x0b, 0x21, 0x23, 0x29, 0x2b, 0x31, 0x33, 0x38, 0x39, 0x3a,
                              0x3b, 0x63, 0x81, 0x83, 0x84, 0x85, 0x88, 0x89, 0x8a, 0x8b, 0xc0, 0xc1, 0xc7};

bool works_on_registers(const image::Instruction& in, size_t at) {
  uint8_t opcode = byte_at(in, at);
  if ((opcode & 0xf8) == 0xb8) return true;  // mov $immediate, register
  if (opcode == 0x8d) return true;           // lea
  bool between_registers = (byte_at(in, at + 1) & 0xc0) == 0xc0;
  if (opcode == 0x0f) {  // movzx, movsx, setcc: SDM volume 2, table A-3
    uint8_t second = byte_at(in, at + 1);
    bool plain = (second & 0xf0) == 0x90 || (second & 0xf6) == 0xb6;
    return plain && (byte_at(in, at + 2) & 0xc0) == 0xc0;
  }
  return between_registers && std::find(std::begin(kPlain), std::end(kPlain), opcode) != std::end(kPlain);
}

constexpr uint8_t kCallIndirect = 2, kJumpIndirect = 4;  // ff /2, ff /4

}  // namespace

std::optional<uint32_t> pushed_by(const image::Instruction& in) {
  size_t at = opcode_at(in);
  uint8_t opcode = byte_at(in, at), operand = byte_at(in, at + 1);
  if (in.flow != image::Flow::next || in.is_landing) return std::nullopt;
  if ((opcode & 0xf8) == 0x50 && in.size == at + 1) return 8;  // push register
  constexpr uint8_t kSubRsp = 0xec;                            // /5, rsp
  bool wide = at == 1 && in.bytes[0] == 0x48;
  if (wide && opcode == 0x83 && operand == kSubRsp && in.size == 4 && in.bytes[3] < 0x80) return in.bytes[3];
  if (in.touches & image::register_bit(rsp)) return std::nullopt;
  if (!works_on_registers(in, at)) return std::nullopt;
  return 0;
}

bool can_turn(const image::Instruction& in) {
  if (in.flow == image::Flow::call) return in.size == kMachine.jump_size;
  if (in.flow != image::Flow::call_indirect || in.size < 6 || in.size > 7) return false;
  size_t at = opcode_at(in);
  uint8_t operand = byte_at(in, at + 1);
  if (byte_at(in, at) != 0xff || (operand >> 3 & 7) != kCallIndirect || operand >> 6 == 3) return false;
  // The stack pointer is another one behind the call.
  bool on_stack = (operand & 7) == 4 && (byte_at(in, at + 2) & 7) == 4 && !(at == 1 && (in.bytes[0] & 1));
  return !on_stack;
}

bool emit_turned(Bytes& out, uint64_t address, const image::Instruction& in) {
  image::Instruction jump = in;
  jump.flow = image::Flow::jump;
  if (in.flow == image::Flow::call) return emit_displaced(out, address, jump);
  jump.flow = image::Flow::jump_indirect;
  uint8_t& operand = jump.bytes[opcode_at(in) + 1];
  operand = static_cast<uint8_t>((operand & 0xc7) | kJumpIndirect << 3);
  return emit_displaced(out, address, jump);
}

Bytes window_jump(uint64_t at, uint64_t target) {
  Bytes out;
  emit_jump(out, at, target);
  return out;
}

Bytes window_call(uint64_t at, uint32_t size, uint64_t target) {
  Bytes out;
  Emitter e(out, at);
  if (size > 5) e.bytes({0x67});  // addr32, and
  if (size > 6) e.bytes({0x48});  // rex.W: neither means anything to call rel32
  e.call(target);
  return out;
}

size_t call_prefixes(std::span<const std::byte> before) {
  const size_t size = before.size();
  if (size >= 2 && before[size - 2] == std::byte{0x67} && before[size - 1] == std::byte{0x48}) return 2;
  return size >= 1 && before[size - 1] == std::byte{0x67} ? 1 : 0;
}

std::optional<uint64_t> short_jump_target(uint64_t at, std::span<const std::byte> bytes) {
  if (bytes.size() < kMachine.short_jump_size || bytes[0] != std::byte{0xeb}) return std::nullopt;
  return at + kMachine.short_jump_size + static_cast<uint64_t>(int64_t{static_cast<int8_t>(bytes[1])});
}

bool short_jump_reaches(uint64_t at, uint64_t target) {
  auto distance = static_cast<int64_t>(target - at - kMachine.short_jump_size);
  return distance == static_cast<int8_t>(distance);
}

Bytes window_short_jump(uint64_t at, uint64_t target) {
  return {0xeb, static_cast<uint8_t>(target - at - kMachine.short_jump_size)};
}

image::Range punned_targets(uint64_t at, uint32_t written, std::span<const uint8_t> kept) {
  uint32_t displacement = 0;
  for (size_t i = 0; i < kept.size(); i++)
    displacement |= static_cast<uint32_t>(kept[i]) << 8 * (written - 1 + i);
  uint64_t first =
      at + kMachine.jump_size + static_cast<uint64_t>(int64_t{static_cast<int32_t>(displacement)});
  return {first, first + (uint64_t{1} << 8 * (written - 1))};
}

Bytes far_jump(uint64_t target) {
  Bytes out;
  Emitter e(out, 0);
  e.bytes({0x3e, 0xff, 0x25, 0, 0, 0, 0});  // notrack jmp *0(%rip)
  e.imm64(target);
  return out;
}

}  // namespace mdl::arch
