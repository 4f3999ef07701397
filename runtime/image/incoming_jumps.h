// Jumps into the middle of a function that come from outside of it, and instructions that take an address there.
//
// Compilers do not make them, hand-written assembly does: glibc's mempcpy jumps behind the first
// instruction of memmove, so that a jump written over that entry would be torn. Decoding all
// code of an object to find them costs seconds for a big one, so:
//
// - far jumps are found by looking at every place of the text for a displacement that leads there and
//   has their opcode before it: once per object, once for some functions that are known before, or once
//   for each of a few (a ms for each 5 MB, and as long to read them, which is done once where they are not
//   many). Other bytes are taken for a jump now and then; its random target costs a patch site in ten
//   thousand.
// - short jumps (Instruction::short_form) come from the neighbours, which are decoded.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/image/image.h"

namespace mdl::image {

struct IncomingJump {
  uint64_t target = 0;
  uint64_t source = 0;     // 0: a call of what call frame information describes from there on, which are many
  bool is_formed = false;  // no jump: its address is taken
  auto operator<=>(const IncomingJump&) const = default;
};

class FarJumps {
 public:
  // What will be asked about, before anything is: that is looked for at once. What comes later is looked for by itself.
  void expect(std::vector<Range> ranges);
  // Those that lead into `range`, but not to its start, by target. Any thread may ask. The first few questions are
  // answered by looking for just these; then all of the object's are listed.
  std::vector<IncomingJump> into(const Object& object, const Range& range, const Memory& memory) {
    return within(object, {range.start + 1, range.end}, memory);
  }
  // Those that lead into `range` or to its start.
  std::vector<IncomingJump> within(const Object& object, const Range& range, const Memory& memory);

 private:
  struct Text {
    Range range;
    std::vector<std::byte> bytes;
  };
  using Texts = std::shared_ptr<const std::vector<Text>>;  // those that can be read
  Texts texts_of(const Object& object, const Memory& memory);
  static std::vector<IncomingJump> find(const Object& object, const Texts& texts, const Range& within,
                                        llvm::function_ref<bool(uint64_t)> is_meant);
  const Range* expected(uint64_t address) const;

  std::vector<Range> expected_;  // sorted, and apart from each other
  std::once_flag found_;
  std::vector<IncomingJump> into_expected_;  // sorted
  std::atomic<unsigned> asked_ = 0;
  std::mutex reading_;
  Texts texts_;  // until all are listed, and of no large object
  std::once_flag listed_;
  std::vector<IncomingJump> jumps_;  // sorted; such calls once for each target
};

// Short jumps in the code on both sides that lead into `range`, but not to its start.
std::vector<IncomingJump> near_jumps_into(const Object& object, const Range& range, const Memory& memory);
// The same, with those to its start.
std::vector<IncomingJump> near_jumps_within(const Object& object, const Range& range, const Memory& memory);

}  // namespace mdl::image
