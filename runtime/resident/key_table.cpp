#include "runtime/resident/key_table.h"

#include <bit>

namespace mdl::resident {
namespace {

constexpr uint64_t kFewestSlots = 16;  // a cache line: totals behind them are one each

}  // namespace

KeyTableShape KeyTableShape::of(uint64_t most, format::CellKind kind,
                                const std::vector<format::KeyName>& names) {
  KeyTableShape out{.most = most, .kind = kind};
  for (const format::KeyName name : format::texts_of(names)) {
    const bool files = name == format::KeyName::file || name == format::KeyName::descriptor;
    const bool sockets = name == format::KeyName::socket || name == format::KeyName::descriptor;
    out.descriptors |= uint64_t{(files ? 1U : 0U) | (sockets ? 2U : 0U)} << 8 * out.text_keys++;
  }
  const std::vector<size_t> order = format::order_of_keys(names);
  for (size_t i = 0; i < order.size(); ++i)
    if (names[order[i]] == format::KeyName::site) out.sites |= uint64_t{1} << i;
  return out;
}

KeyTableShape KeyTableShape::usual(uint64_t bytes, format::CellKind kind,
                                   const std::vector<format::KeyName>& names) {
  KeyTableShape out = of(kMostKeys, kind, names);
  while (out.most > kLeastUsual && out.keys_size() > std::min(bytes, kUsualTable)) out.most /= 2;
  return out;
}

uint64_t KeyTableShape::slots_for(uint64_t totals) {
  return std::bit_ceil(std::max(totals * 2, kFewestSlots));
}

KeyTableHeaders key_table_headers(const KeyTableShape& shape, uint64_t keys, std::span<const uint64_t> of,
                                  uint64_t change, uint64_t base, bool by_thread) {
  const uint64_t before = shape.others() - 1;  // numbers that are nobody's
  const auto key = [&](size_t i) { return i < of.size() ? of[i] : 0; };
  const bool plain = of.size() == 1 && !by_thread && !shape.makes_keys();
  KeyTableHeaders out;
  out.first = {keys,
               key(0),
               change,
               base,
               shape.slots() - 1,
               shape.most + before,
               before,
               shape.totals(),
               by_thread,
               shape.others(),
               shape.texts(),
               key(1),
               key(2),
               shape.totals_end(),
               plain ? shape.own() : 0,
               0,
               shape.text_keys,
               shape.descriptors,
               shape.sites,
               shape.blocks(),
               shape.makes_keys()};
  out.own = out.first;
  const auto set = [&](size_t offset, uint64_t word) { out.own[offset / 8] = word; };
  set(kTableMask, shape.slots_own() - 1);
  set(kTableMost, shape.most_own());
  set(kTableUsed, 0);
  set(kTableTotals, shape.own_totals());
  set(kTableOthers, 1);
  set(kTableOwned, 1);
  return out;
}

}  // namespace mdl::resident
