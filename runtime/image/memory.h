// Reading another process's memory. The bytes are the target's and are not trusted.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mdl::image {

// A source of bytes by address. LiveMemory reads a process (process_vm_readv, which needs no
// stop); tests use a buffer.
class Memory {
 public:
  virtual ~Memory() = default;
  // Fills all of `into` from `address`; false when any byte cannot be read.
  virtual bool read(uint64_t address, std::span<std::byte> into) const = 0;
};

class LiveMemory final : public Memory {
 public:
  explicit LiveMemory(pid_t pid) : pid_(pid) {}
  bool read(uint64_t address, std::span<std::byte> into) const override;

 private:
  pid_t pid_;
};

}  // namespace mdl::image
