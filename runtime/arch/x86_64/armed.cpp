#include "runtime/arch/x86_64/armed.h"

#include <bit>

#include "runtime/arch/target_data.h"

namespace mdl::arch {
namespace {

constexpr uint8_t kAboveOrEqual = 3, kAbove = 7, kNotSign = 9, kLess = 12;  // condition codes
constexpr uint32_t kStack = 64u << 20;  // as in resident.S: frames of one stack are not farther apart
constexpr uint32_t kEntry = 8;

uint32_t low(int64_t value) {
  return static_cast<uint32_t>(value);
}

// The inverse of an odd number modulo 2^64 (Newton's iteration doubles the valid bits): what is known to be
// a multiple is divided by multiplying.
uint64_t inverse(uint64_t odd) {
  uint64_t out = odd;
  for (int i = 0; i < 5; i++) out *= 2 - odd * out;
  return out;
}

// r10 = the thread's area, by the number of its block. rcx is lost.
void emit_area(Emitter& e, const ArmedCalls& calls) {
  auto zeros = static_cast<uint8_t>(std::countr_zero(calls.stride));
  e.bytes({0x4d, 0x89, 0xda});  // mov %r11, %r10
  e.mov_imm64(rcx, calls.blocks);
  e.bytes({0x49, 0x29, 0xca});         // sub %rcx, %r10
  e.bytes({0x49, 0xc1, 0xea, zeros});  // shr $zeros, %r10
  e.mov_imm64(rcx, inverse(calls.stride >> zeros));
  e.bytes({0x4c, 0x0f, 0xaf, 0xd1});                                                 // imul %rcx, %r10
  e.bytes({0x49, 0xc1, 0xe2, static_cast<uint8_t>(std::countr_zero(kArmedBytes))});  // shl $..., %r10
  e.mov_imm64(rcx, calls.area);
  e.bytes({0x49, 0x01, 0xca});  // add %rcx, %r10
}

void emit_load_depth(Emitter& e) {  // mov kBlockArmed(%r11), %rcx
  e.bytes({0x49, 0x8b, 0x4b, kBlockArmed});
}
void emit_store_depth(Emitter& e) {  // mov %rcx, kBlockArmed(%r11)
  e.bytes({0x49, 0x89, 0x4b, kBlockArmed});
}

void emit_arm(Emitter& e, const ArmedCalls& calls, uint32_t depth, int64_t anomalies) {
  emit_area(e, calls);
  e.bytes({0x49, 0x83, 0x43, kBlockArmed, kEntry});  // addq $8, kBlockArmed(%r11)
  emit_load_depth(e);
  e.bytes({0x48, 0x81, 0xf9}), e.imm32(static_cast<uint32_t>(kArmedBytes));  // cmp $kArmedBytes, %rcx
  size_t full = e.branch(kAbove);
  e.bytes({0x49, 0x89, 0x64, 0x0a, 0xf8});                  // mov %rsp, -8(%r10,%rcx)
  e.bytes({0x49, 0x81, 0x44, 0x0a, 0xf8}), e.imm32(depth);  // addq $depth, -8(%r10,%rcx)
  size_t done = e.jump();
  e.fill(full, e.here());
  e.bytes({0x49, 0x83, 0x6b, kBlockArmed, kEntry});                    // subq $8, kBlockArmed(%r11)
  e.bytes({0x49, 0x83, 0x83}), e.imm32(low(anomalies)), e.bytes({1});  // addq $1, anomalies(%r11)
  e.fill(done, e.here());
}

std::vector<size_t> emit_test(Emitter& e, const PointFrame& frame, uint32_t depth) {
  std::vector<size_t> failed;
  e.lea_pc(rcx, frame.returns_to);
  e.bytes({0x48, 0x39, 0x8c, 0x24}), e.imm32(depth);  // cmp %rcx, depth(%rsp)
  failed.push_back(e.branch(kNotEqual));
  emit_area(e, *frame.calls);
  emit_load_depth(e);
  e.bytes({0x48, 0x8d, 0x94, 0x24}), e.imm32(depth);  // lea depth(%rsp), %rdx
  uint64_t again = e.here();
  e.bytes({0x48, 0x83, 0xe9, kEntry});  // sub $8, %rcx
  failed.push_back(e.branch(kBelow));
  e.bytes({0x49, 0x39, 0x14, 0x0a});  // cmp %rdx, (%r10,%rcx)
  e.branch(kNotEqual, again);
  emit_store_depth(e);
  return failed;
}

// rdx = the stack pointer that longjmp(rdi) will set, as resident.S finds it; the branch when that is
// on another stack.
size_t emit_jump_limit(Emitter& e) {
  e.bytes({0x48, 0x8b, 0x57, 48});                         // mov 48(%rdi), %rdx
  e.bytes({0x48, 0x89, 0xd1});                             // mov %rdx, %rcx
  e.bytes({0x48, 0xc1, 0xc9, 17});                         // ror $17, %rcx
  e.bytes({0x64, 0x48, 0x33, 0x0c, 0x25, 0x30, 0, 0, 0});  // xor %fs:0x30, %rcx
  e.bytes({0x48, 0x89, 0xce});                             // mov %rcx, %rsi
  e.bytes({0x48, 0x29, 0xe6});                             // sub %rsp, %rsi
  e.bytes({0x48, 0x81, 0xfe}), e.imm32(kStack);            // cmp $kStack, %rsi
  e.bytes({0x48, 0x0f, 0x46, 0xd1});                       // cmovbe %rcx, %rdx
  e.bytes({0x48, 0x89, 0xd6});                             // mov %rdx, %rsi
  e.bytes({0x48, 0x29, 0xe6});                             // sub %rsp, %rsi
  e.bytes({0x48, 0x81, 0xfe}), e.imm32(kStack);            // cmp $kStack, %rsi
  return e.branch(kAboveOrEqual);
}

// Cuts off what lies below the limit on this stack.
void emit_cut(Emitter& e, const PointFrame& frame, uint32_t depth) {
  std::vector<size_t> done;
  if (frame.arming == Arming::jump) {
    done.push_back(emit_jump_limit(e));
  } else {
    e.bytes({0x48, 0x8d, 0x94, 0x24}),
        e.imm32(depth + 8);  // lea depth+8(%rsp), %rdx: behind the return address
  }
  emit_area(e, *frame.calls);
  emit_load_depth(e);
  uint64_t again = e.here();
  e.bytes({0x48, 0x85, 0xc9});  // test %rcx, %rcx
  done.push_back(e.branch(kEqual));
  e.bytes({0x49, 0x8b, 0x74, 0x0a, 0xf8});            // mov -8(%r10,%rcx), %rsi
  e.bytes({0x48, 0x29, 0xd6});                        // sub %rdx, %rsi
  done.push_back(e.branch(kNotSign));                 // not below it
  e.bytes({0x48, 0x81, 0xfe}), e.imm32(~kStack + 1);  // cmp $-kStack, %rsi
  done.push_back(e.branch(kLess));                    // on another stack
  e.bytes({0x48, 0x83, 0xe9, kEntry});                // sub $8, %rcx
  emit_store_depth(e);
  e.jump(again);
  for (size_t field : done) e.fill(field, e.here());
}

}  // namespace

image::Registers armed_registers(Arming arming) {
  switch (arming) {
    case Arming::none:
      return 0;
    case Arming::arm:
      return 1u << r10 | 1u << rcx;
    case Arming::test:
      return 1u << r10 | 1u << rcx | 1u << rdx;
    case Arming::catch_:
    case Arming::jump:
      return 1u << r10 | 1u << rcx | 1u << rdx | 1u << rsi;
  }
  return 0;
}

std::vector<size_t> emit_arming(Emitter& e, const PointFrame& frame, uint32_t depth, int64_t anomalies) {
  switch (frame.arming) {
    case Arming::none:
      break;
    case Arming::arm:
      emit_arm(e, *frame.calls, depth, anomalies);
      break;
    case Arming::test:
      return emit_test(e, frame, depth);
    case Arming::catch_:
    case Arming::jump:
      emit_cut(e, frame, depth);
      break;
  }
  return {};
}

}  // namespace mdl::arch
