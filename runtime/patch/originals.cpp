#include "runtime/patch/originals.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace mdl::patch {
namespace {

constexpr uint64_t kReadAtOnce = uint64_t{1} << 20;

}  // namespace

bool Originals::read(uint64_t address, std::span<std::byte> into) {
  if (address < at_ || address - at_ + into.size() > bytes_.size()) load(address, into.size());
  if (address < at_ || address - at_ + into.size() > bytes_.size()) return false;
  std::memcpy(into.data(), bytes_.data() + (address - at_), into.size());
  return true;
}

void Originals::load(uint64_t address, uint64_t least) {
  at_ = address;
  bytes_.clear();
  const auto after = std::ranges::upper_bound(image_.mappings, address, {}, &image::Mapping::start);
  if (after == image_.mappings.begin() || std::prev(after)->end - address < least) return;
  const image::Mapping& mapping = *std::prev(after);
  if (mapping.end <= address) return;
  const uint64_t most = std::min(mapping.end - address, kReadAtOnce);
  if (!places_ || places_->is_still_there(address)) {
    bytes_.resize(most);
    if (!image::read_mapped(image_.pid, mapping, address, bytes_)) bytes_.clear();
  } else if (const image::Mapping* other = places_->any_mapping_of(address)) {
    if (auto read = image::read_loaded(image_.pid, *other, address, most)) bytes_ = std::move(*read);
  }
}

}  // namespace mdl::patch
