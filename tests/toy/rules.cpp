// What a stencil of the toy machine may do: count in a declared cell, load and compare, and branch forward.
#include "runtime/arch/decoder.h"
#include "runtime/plan/verify.h"
#include "tests/toy/encoding.h"

namespace mdl::plan::toy {
namespace {

using namespace mdl::toy;

constexpr uint32_t kImmediate = 1, kRelative = 2;  // relocation types

std::optional<FieldShape> field_shape(uint32_t type) {
  if (type != kImmediate && type != kRelative) return std::nullopt;
  return FieldShape{4, type == kRelative};
}

Error at(size_t offset, Rule rule, const std::string& what) {
  return broken(rule, what + " at offset " + std::to_string(offset));
}

const Hole* hole_at(const Stencil& stencil, size_t offset) {
  for (const Hole& hole : stencil.holes)
    if (hole.offset == offset) return &hole;
  return nullptr;
}

Result<void> verify_one(const Stencil& stencil, size_t offset) {
  const Word word = word_at(stencil.code.data() + offset);
  const Hole* hole = hole_at(stencil, offset + 4);
  switch (word.operation) {
    case set:
    case compare:
      return word.a < kScratch ? Result<void>() : at(offset, Rule::registers, "a register of the machine");
    case branch:
      return hole && hole->kind == HoleKind::next ? Result<void>() : at(offset, Rule::next, "a branch");
    case load:
    case count:
      if (word.b != kBlock || word.c != kNone)
        return at(offset, Rule::block, "memory that is not the block's");
      if (word.operation == load && word.a >= kScratch)
        return at(offset, Rule::registers, "a register of the machine");
      return hole && (hole->kind == HoleKind::cell || hole->kind == HoleKind::guard)
                 ? Result<void>()
                 : at(offset, Rule::cell, "a place that is no cell");
    default:
      return at(offset, Rule::listed, "an instruction that is not on the list");
  }
}

Result<void> verify_stencil(const Stencil& stencil) {
  if (stencil.code.size() % kSize != 0) return at(stencil.code.size(), Rule::decodes, "half an instruction");
  for (size_t offset = 0; offset < stencil.code.size(); offset += kSize)
    if (auto ok = verify_one(stencil, offset); !ok) return ok;
  return {};
}

Result<void> verify_filled_stencil(const Stencil& stencil, std::span<const std::byte> code,
                                   uint64_t block_size) {
  for (const Hole& hole : stencil.holes) {
    const int64_t value = word_at(code.data() + hole.offset - 4).immediate;
    const bool is_next = hole.kind == HoleKind::next;
    if (is_next ? value < 0 : value < 0 || static_cast<uint64_t>(value) + 8 > block_size)
      return at(hole.offset, is_next ? Rule::filled_next : Rule::filled_cell, "a wrong value");
  }
  return verify_stencil(stencil);
}

void note_decoded(Stencil& stencil) {
  for (size_t offset = 0; offset < stencil.code.size(); offset += kSize) {
    image::Instruction in;
    image::Detail detail;
    if (!arch::decode_instruction(std::span(stencil.code).subspan(offset), offset, in, detail)) return;
    stencil.read |= in.reads & ~image::kFlags;
    stencil.written |= in.touches & ~image::kFlags;
  }
}

}  // namespace

extern const TargetRules kStencilRules;
const TargetRules kStencilRules = {"toy",          0x70f,        field_shape,
                                   verify_stencil, note_decoded, verify_filled_stencil};

}  // namespace mdl::plan::toy
