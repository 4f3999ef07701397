#include "runtime/arch/x86_64/deferred.h"

#include "runtime/arch/target_data.h"

namespace mdl::arch {
namespace {

constexpr uint8_t kNoCarry = 3;  // jnc: condition codes, SDM volume 1, appendix B

uint32_t displacement(int64_t cell) {
  return static_cast<uint32_t>(cell);
}

void emit_place(Emitter& e, uint32_t depth) {
  e.bytes({0x4c, 0x8d, 0x94, 0x24}), e.imm32(depth);  // lea depth(%rsp), %r10
}

// Taken when the word does not lead where it did.
size_t emit_slot_test(Emitter& e, const Deferral& deferral) {
  e.push(rax);
  e.mov_imm64(r10, deferral.slot);
  e.bytes({0x4d, 0x8b, 0x12});  // mov (%r10), %r10
  e.mov_imm64(rax, deferral.value);
  e.bytes({0x49, 0x39, 0xc2});  // cmp %rax, %r10
  if (deferral.unbound) {
    const size_t bound = e.branch(kEqual);
    e.mov_imm64(rax, deferral.unbound);
    e.bytes({0x49, 0x39, 0xc2});  // cmp %rax, %r10
    e.fill(bound, e.here());
  }
  e.pop(rax);
  return e.branch(kNotEqual);
}

}  // namespace

size_t emit_is_outermost(Emitter& e, const Raised& guard, uint32_t depth) {
  emit_place(e, depth);
  e.bytes({0x4d, 0x39, 0x93}), e.imm32(displacement(guard.outermost));  // cmp %r10, outermost(%r11)
  return e.branch(kEqual);
}

Waiting emit_defer(Emitter& e, const Piece& piece, const Deferral& deferral, uint32_t depth,
                   uint64_t resident, int64_t anomalies) {
  Waiting out{};
  for (const Raised& what : piece.lowers) {  // most hits are not in the outermost frame, or it is down
    emit_place(e, depth);
    e.bytes({0x4d, 0x39, 0x93}), e.imm32(displacement(what.outermost));  // cmp %r10, outermost(%r11)
    out.run.push_back(e.branch(kNotEqual));
    e.bytes({0x49, 0x83, 0xbb}), e.imm32(displacement(what.count)), e.bytes({0});  // cmpq $0, count(%r11)
    out.run.push_back(e.branch(kEqual));
  }
  if (deferral.slot) {
    const size_t other = emit_slot_test(e, deferral);
    const size_t same = e.jump();
    e.fill(other, e.here());
    e.bytes({0x49, 0x83, 0x83}), e.imm32(displacement(anomalies)), e.bytes({1});  // addq $1, anomalies(%r11)
    out.run.push_back(e.jump());
    e.fill(same, e.here());
  }
  emit_place(e, depth);
  e.bytes({0x68}), e.imm32(piece.waits);  // push $cell
  e.call_own(resident + defer_offset());
  e.bytes({0x48, 0x8d, 0x64, 0x24, 8});  // lea 8(%rsp), %rsp
  out.behind = e.branch(kNoCarry);
  return out;
}

void emit_end_deferred(Emitter& e, uint32_t depth, uint64_t resident) {
  e.bytes({0x49, 0x83, 0x7b, kBlockDeferred, 0});  // cmpq $0, kBlockDeferred(%r11)
  const size_t none = e.branch(kEqual);
  emit_place(e, depth);
  e.call_own(resident + end_deferred_offset());
  e.fill(none, e.here());
}

}  // namespace mdl::arch
