#include "runtime/audit/snapshot.h"

#include <algorithm>

namespace mdl::audit {

bool Snapshot::take(const image::Object& object, const image::Image& image) {
  text_.clear();
  data_.clear();
  const auto hold = [&](std::vector<Piece>& pieces, const image::Range& range) {
    std::vector<std::byte> bytes(range.end - range.start);
    if (!memory_.read(range.start, bytes)) return false;
    pieces.push_back({range, std::move(bytes)});
    return true;
  };
  const auto is_text = [&](const image::Mapping& mapping) {
    return std::ranges::any_of(object.text, [&](const image::Range& range) {
      return range.start <= mapping.start && mapping.end <= range.end;
    });
  };
  for (const image::Range& range : object.text)
    if (!hold(text_, range)) return false;
  for (const image::Mapping& mapping : image.mappings) {
    if (mapping.path != object.path || !mapping.read || mapping.inode == 0 || is_text(mapping)) continue;
    if (!hold(data_, {mapping.start, mapping.end})) return false;
  }
  return true;
}

bool Snapshot::read_held(uint64_t address, std::span<std::byte> into) const {
  for (const auto* pieces : {&text_, &data_})
    for (const Piece& piece : *pieces) {
      if (!piece.range.contains(address) || piece.range.end - address < into.size()) continue;
      std::copy_n(piece.bytes.begin() + static_cast<std::ptrdiff_t>(address - piece.range.start), into.size(),
                  into.begin());
      return true;
    }
  return false;
}

}  // namespace mdl::audit
