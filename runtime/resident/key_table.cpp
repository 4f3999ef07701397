#include "runtime/resident/key_table.h"

#include <bit>

namespace mdl::resident {

uint64_t KeyTableShape::slots() const {
  return std::bit_ceil(most * 2);
}

std::array<uint64_t, 13> key_table_header(const KeyTableShape& shape, uint64_t keys,
                                          std::span<const uint64_t> of, uint64_t change, uint64_t base,
                                          bool by_thread) {
  const uint64_t before = shape.others() - 1;  // numbers that are nobody's
  const auto key = [&](size_t i) { return i < of.size() ? of[i] : 0; };
  return {keys,   key(0),         change,    base,           shape.slots() - 1, shape.most + before,
          before, shape.totals(), by_thread, shape.others(), shape.texts(),     key(1),
          key(2)};
}

}  // namespace mdl::resident
