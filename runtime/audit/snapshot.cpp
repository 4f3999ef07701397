#include "runtime/audit/snapshot.h"

#include <algorithm>

namespace mdl::audit {

bool Snapshot::take(const image::Object& object, const image::Image& image) {
  text_.clear();
  data_.clear();
  const auto hold = [&](std::vector<image::BufferMemory>& pieces, const image::Range& range) {
    std::vector<std::byte> bytes(range.end - range.start);
    if (!memory_.read(range.start, bytes)) return false;
    pieces.emplace_back(std::move(bytes), range.start);
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
  const auto holds = [&](const image::BufferMemory& one) { return one.read(address, into); };
  return std::ranges::any_of(text_, holds) || std::ranges::any_of(data_, holds);
}

}  // namespace mdl::audit
