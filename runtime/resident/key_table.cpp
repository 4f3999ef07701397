#include "runtime/resident/key_table.h"

#include <bit>

namespace mdl::resident {

uint64_t KeyTableShape::slots() const {
  return std::bit_ceil(most * 2);
}

std::array<uint64_t, 9> key_table_header(const KeyTableShape& shape, uint64_t keys, uint64_t key,
                                         uint64_t change, uint64_t base, bool by_thread) {
  return {keys, key, change, base, shape.slots() - 1, shape.most, 0, shape.totals(), by_thread};
}

}  // namespace mdl::resident
