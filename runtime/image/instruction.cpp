#include "runtime/image/instruction.h"

#include "runtime/arch/decoder.h"

namespace mdl::image {

std::vector<Instruction> decode(std::span<const std::byte> bytes, uint64_t address) {
  std::vector<Instruction> instructions;
  Instruction instruction;
  Detail detail;
  for (size_t at = 0; at < bytes.size(); at += instruction.size) {
    if (!arch::decode_instruction(bytes.subspan(at), address + at, instruction, detail)) break;
    instructions.push_back(instruction);
  }
  return instructions;
}

bool may_fault(const Instruction& instruction) {
  Instruction again;
  Detail detail;
  const auto bytes = std::as_bytes(std::span(instruction.bytes.data(), instruction.bytes.size()));
  return !arch::decode_instruction(bytes, instruction.address, again, detail) ||
         arch::may_fault(again, detail);
}

}  // namespace mdl::image
