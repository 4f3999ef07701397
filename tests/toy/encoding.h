// The toy machine: a target that exists for the tests only. Shared code is compiled without a target and
// linked with this one here, so what it knows of another machine by itself is wrong in these tests.
//
// It is unlike x86_64 where that is cheap. Each instruction has 8 bytes: {operation, a, b, c, immediate}, the
// immediate 32 bits with sign, little-endian. There are 48 general registers. A call puts the return address
// into a register, so nothing lies on the stack at an entry. There are no short jumps, and so no punned ones.
// It has one thread, and no signals: what lies below the stack pointer is nobody's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace mdl::toy {

inline constexpr uint64_t kSize = 8;  // of every instruction

enum Operation : uint8_t {
  trap,           // also what fills code
  nop,            //
  landing,        // where an indirect branch may lead
  set,            // a = immediate
  move,           // a = b
  add,            // a += b
  add_immediate,  // a += immediate
  address,        // a = pc + immediate
  load,           // a = [b + c * 8 + immediate]; c == kNone: without index
  store,          // [b + immediate] = a
  count,          // [b + immediate] += 1
  compare,        // flags = a ? immediate
  compare_both,   // flags = a ? b
  get_flags,      // a = flags
  set_flags,      // flags = a
  jump,           // pc + immediate
  jump_far,       // the address in the 8 bytes behind it
  branch,         // pc + immediate, if the condition a holds
  call,           // kLink = pc; pc + immediate
  call_register,  // kLink = pc; a
  jump_register,  // a
  ret,            // kLink
  system_call,    // of number r0
  operations,     // how many there are
};

// Conditions; one and its opposite differ in bit 0. Above is without sign.
enum Test : uint8_t { equal, not_equal, above, not_above, below, not_below };

inline constexpr uint8_t kNone = 0xff;
// Numbers of registers: the result and what passes arguments, what calls keep, and the machine's own.
enum Register : uint8_t {
  kResult = 0,
  kArgument = 1,
  kKept = 20,
  kLastKept = 29,
  kSpare = 41,
  kScratch = 42,
  kOther = 43,
  kBlock = 44,
  kThread = 45,
  kLink = 46,
  kStack = 47,
  kRegisters = 48,
};

struct Word {
  uint8_t operation = trap, a = 0, b = 0, c = kNone;
  int32_t immediate = 0;
};

inline Word word_at(const void* bytes) {
  Word out;
  std::memcpy(&out, bytes, sizeof out);
  return out;
}

// Code as it is written.
class Assembler {
 public:
  Assembler(std::vector<uint8_t>& out, uint64_t address) : out_(out), base_(address - out.size()) {}
  uint64_t here() const { return base_ + out_.size(); }
  void put(Word word) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&word);
    out_.insert(out_.end(), bytes, bytes + sizeof word);
  }
  // With an immediate that leads to `target`.
  void lead(Operation operation, uint64_t target, uint8_t a = 0) {
    put({operation, a, 0, kNone, static_cast<int32_t>(target - here() - kSize)});
  }

 private:
  std::vector<uint8_t>& out_;
  uint64_t base_;
};

static_assert(sizeof(Word) == kSize);

}  // namespace mdl::toy
