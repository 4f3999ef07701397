// Memory, read in blocks that are kept: code is decoded by the thousand of functions, each with several small
// reads, and a system call for each of these took a fifth of an attach. The same goes for files.
#pragma once

#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "runtime/image/memory.h"

namespace mdl::image {

// Bytes that were read once stay as they were then (reads of more than a block are not kept): for code, its
// tables and its linkage. Writers of code compare its bytes first. Any number of threads may read.
class BlockMemory final : public Memory {
 public:
  explicit BlockMemory(std::shared_ptr<const Memory> memory) : memory_(std::move(memory)) {}
  // `memory` must outlive this.
  explicit BlockMemory(const Memory& memory) : memory_(std::shared_ptr<void>(), &memory) {}
  bool read(uint64_t address, std::span<std::byte> into) const override;

 private:
  static constexpr uint64_t kBlock = 64 * 1024;  // bytes
  // Null when the block cannot be read as a whole: a mapping ends in it.
  const std::byte* block(uint64_t number) const;

  std::shared_ptr<const Memory> memory_;
  mutable std::shared_mutex mutex_;
  mutable std::unordered_map<uint64_t, std::unique_ptr<std::byte[]>>
      blocks_;  // by address / kBlock; some are null
};

}  // namespace mdl::image
