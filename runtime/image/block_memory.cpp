#include "runtime/image/block_memory.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace mdl::image {

const std::byte* BlockMemory::block(uint64_t number) const {
  auto bytes_of = [](const std::vector<std::byte>& bytes) { return bytes.empty() ? nullptr : bytes.data(); };
  {
    std::shared_lock lock(mutex_);
    if (auto known = blocks_.find(number); known != blocks_.end()) return bytes_of(known->second);
  }
  std::vector<std::byte> bytes(kBlock);
  if (!memory_->read(number * kBlock, bytes)) bytes.clear();
  std::unique_lock lock(mutex_);
  return bytes_of(blocks_.try_emplace(number, std::move(bytes)).first->second);
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
