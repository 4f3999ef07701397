// The toy machine itself: runs code until it returns to where nobody is.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/image/memory.h"
#include "tests/toy/encoding.h"

namespace mdl::toy {

// Memory in one piece, by address.
struct Store final : public image::Memory {
  Store(uint64_t base, size_t size) : base(base), bytes(size) {}
  bool read(uint64_t address, std::span<std::byte> into) const override;
  void write(uint64_t address, std::span<const uint8_t> from);
  uint64_t word(uint64_t address) const;
  void set_word(uint64_t address, uint64_t value);

  uint64_t base;
  std::vector<std::byte> bytes;
};

struct State {
  std::array<uint64_t, kRegisters> registers{};
  uint64_t flags = 0;
  uint64_t steps = 0;
};

// From `entry` until it returns. Throws std::runtime_error for a trap, an access outside of the store, and
// when it runs for longer than any test should.
void run(Store& store, State& state, uint64_t entry);

}  // namespace mdl::toy
