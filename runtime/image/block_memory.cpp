#include "runtime/image/block_memory.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace mdl::image {

const std::byte* BlockMemory::block(uint64_t number) const {
  {
    std::shared_lock lock(mutex_);
    if (auto known = blocks_.find(number); known != blocks_.end()) return known->second.get();
  }
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(kBlock);
  if (!memory_->read(number * kBlock, {bytes.get(), kBlock})) bytes.reset();
  std::unique_lock lock(mutex_);
  return blocks_.try_emplace(number, std::move(bytes)).first->second.get();
}

bool BlockMemory::read(uint64_t address, std::span<std::byte> into) const {
  if (into.size() > kBlock) return memory_->read(address, into);
  while (!into.empty()) {
    const uint64_t offset = address % kBlock;
    const size_t size = std::min<uint64_t>(into.size(), kBlock - offset);
    if (const std::byte* bytes = block(address / kBlock))
      std::memcpy(into.data(), bytes + offset, size);
    else if (!memory_->read(address, into.first(size)))
      return false;
    into = into.subspan(size);
    address += size;
  }
  return true;
}

}  // namespace mdl::image
