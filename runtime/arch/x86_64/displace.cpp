// Moving instructions: what a window's jump overwrites runs in the trampoline instead.
//
// Most instructions run anywhere as they are. A pc-relative memory operand gets a new
// displacement; a short jump or branch gets its 32-bit form; a direct jump a new displacement.
// Calls, system calls (a restarted one goes back to its own address), loop and jrcxz
// (which have no long form) are not moved.
#include <cstdint>

#include "runtime/arch/displacement.h"
#include "runtime/arch/x86_64/emitter.h"

namespace mdl::arch {
namespace {

// The prefixes that may stand in front of a jump: bnd, notrack and branch hints.
bool is_prefix(uint8_t byte) {
  return byte == 0xf2 || byte == 0x3e || byte == 0x2e;
}

// The condition of a jcc in either form (SDM volume 2, Jcc), -1 for anything else.
int condition(const image::Instruction& in) {
  size_t at = 0;
  while (at < in.bytes.size() && is_prefix(in.bytes[at])) at++;
  if (at < in.bytes.size() && (in.bytes[at] & 0xf0) == 0x70) return in.bytes[at] & 15;
  if (at + 1 < in.bytes.size() && in.bytes[at] == 0x0f && (in.bytes[at + 1] & 0xf0) == 0x80)
    return in.bytes[at + 1] & 15;
  return -1;
}

bool in_reach(uint64_t from, uint64_t to) {
  auto distance = static_cast<int64_t>(to - from);
  return distance == static_cast<int32_t>(distance);
}

}  // namespace

bool can_displace(const image::Instruction& in) {
  switch (in.flow) {
    case image::Flow::next:
    case image::Flow::return_:
    case image::Flow::jump:
    case image::Flow::jump_indirect:
      return true;
    case image::Flow::branch:
      return condition(in) >= 0;
    case image::Flow::call:
    case image::Flow::call_indirect:
    case image::Flow::system_call:
    case image::Flow::stop:
      return false;
  }
  return false;
}

bool emit_displaced(Bytes& out, uint64_t address, const image::Instruction& in) {
  Emitter e(out, address);
  if (in.flow == image::Flow::jump) {
    e.jump(in.target);
    return in_reach(e.here(), in.target);
  }
  if (in.flow == image::Flow::branch) {
    e.branch(static_cast<uint8_t>(condition(in)), in.target);
    return in_reach(e.here(), in.target);
  }
  size_t start = e.size();
  e.bytes(std::span<const uint8_t>(in.bytes));
  if (in.pc_relative_at == 0) return true;
  uint32_t old = 0;
  for (int i = 0; i < 4; i++)
    old |= static_cast<uint32_t>(in.bytes[in.pc_relative_at + static_cast<size_t>(i)]) << (8 * i);
  uint64_t target =
      in.address + in.size + static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(old)));
  auto value = static_cast<uint32_t>(target - e.here());
  for (int i = 0; i < 4; i++)
    out[start + in.pc_relative_at + static_cast<size_t>(i)] = static_cast<uint8_t>(value >> (8 * i));
  return in_reach(e.here(), target);
}

size_t emit_inverted_branch(Bytes& out, uint64_t address, const image::Instruction& branch) {
  return Emitter(out, address).branch(static_cast<uint8_t>(condition(branch) ^ 1));
}

void fill_branch(Bytes& out, uint64_t address, size_t field) {
  Emitter(out, address).fill(field, address);
}

}  // namespace mdl::arch
