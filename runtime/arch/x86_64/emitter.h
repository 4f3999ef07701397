// The few instructions that the injector itself writes, encoded by hand: it contains no
// assembler (architecture, decision 2). Encodings after the Intel SDM, volume 2. Every
// method appends one instruction, whose assembly stands behind it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace mdl::arch {

enum Reg : uint8_t { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15 };

class Emitter {
 public:
  // `address`: where the first byte of `out` that this emitter appends will lie.
  Emitter(std::vector<uint8_t>& out, uint64_t address) : out_(out), base_(address - out.size()) {}

  uint64_t here() const { return base_ + out_.size(); }
  size_t size() const { return out_.size(); }

  void bytes(std::initializer_list<uint8_t> list) { out_.insert(out_.end(), list); }
  void bytes(std::span<const uint8_t> list) { out_.insert(out_.end(), list.begin(), list.end()); }
  void imm32(uint32_t value) { little(value, 4); }
  void imm64(uint64_t value) { little(value, 8); }

  void push(Reg r) { rex_b(r), bytes({static_cast<uint8_t>(0x50 + (r & 7))}); }  // push r
  void pop(Reg r) { rex_b(r), bytes({static_cast<uint8_t>(0x58 + (r & 7))}); }   // pop r
  void mov_imm64(Reg r, uint64_t value) {                                        // movabs $value, r
    bytes({static_cast<uint8_t>(r >= 8 ? 0x49 : 0x48), static_cast<uint8_t>(0xb8 + (r & 7))});
    imm64(value);
  }
  void mov_imm(Reg r,
               uint64_t value) {  // the shorter of movabs and mov $value, r32 (which clears the upper half)
    if (value >> 32) return mov_imm64(r, value);
    rex_b(r), bytes({static_cast<uint8_t>(0xb8 + (r & 7))});
    imm32(static_cast<uint32_t>(value));
  }
  void jump(uint64_t target) { bytes({0xe9}), relative(target); }  // jmp target
  void call(uint64_t target) { bytes({0xe8}), relative(target); }  // call target
  void call_own(uint64_t target) {  // see resident.S: movq $0, -8(%rsp) behind it
    call(target);
    bytes({0x48, 0xc7, 0x44, 0x24, 0xf8});
    imm32(0);
  }
  void lea_pc(Reg r, uint64_t target) {  // lea target(%rip), r
    bytes({static_cast<uint8_t>(r >= 8 ? 0x4c : 0x48), 0x8d, static_cast<uint8_t>(0x05 | (r & 7) << 3)});
    relative(target);
  }
  size_t jump() {  // the same as jump(target), filled later
    bytes({0xe9});
    imm32(0);
    return out_.size() - 4;
  }
  // jcc target, with a 32-bit displacement filled later; returns where it is in `out`.
  size_t branch(uint8_t condition) {
    bytes({0x0f, static_cast<uint8_t>(0x80 + condition)});
    imm32(0);
    return out_.size() - 4;
  }
  void branch(uint8_t condition, uint64_t target) { fill(branch(condition), target); }
  void fill(size_t field, uint64_t target) {
    auto value = static_cast<uint32_t>(target - (base_ + field + 4));
    for (int i = 0; i < 4; i++) out_[field + static_cast<size_t>(i)] = static_cast<uint8_t>(value >> (8 * i));
  }

 private:
  void rex_b(Reg r) {
    if (r >= 8) bytes({0x41});
  }
  void relative(uint64_t target) { imm32(static_cast<uint32_t>(target - (here() + 4))); }
  void little(uint64_t value, int count) {
    for (int i = 0; i < count; i++) out_.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }

  std::vector<uint8_t>& out_;
  uint64_t base_;
};

inline constexpr uint8_t kEqual = 4;         // je: condition codes, SDM volume 1, appendix B
inline constexpr uint8_t kNotEqual = 5;      // jne
inline constexpr uint8_t kBelow = 2;         // jb
inline constexpr uint8_t kLessOrEqual = 14;  // jle

}  // namespace mdl::arch
