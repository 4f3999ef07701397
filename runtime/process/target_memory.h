// Writing another process's memory through /proc/PID/mem, which may write private
// pages that the process itself may not (code): no page is ever made writable.
// The descriptor is opened once: it stays with the address space it was opened on, so a
// program that the process executes meanwhile is never written to.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "base/result.h"
#include "runtime/image/memory.h"

namespace mdl::process {

class TargetMemory final : public image::Memory {
 public:
  static Result<TargetMemory> open(pid_t pid);
  ~TargetMemory() override;
  TargetMemory(TargetMemory&& other) noexcept;
  TargetMemory& operator=(TargetMemory&&) = delete;

  bool read(uint64_t address, std::span<std::byte> into) const override;
  // Writes all of `bytes` and reads them back; false when they are not there afterwards.
  bool write(uint64_t address, std::span<const std::byte> bytes) const;

 private:
  explicit TargetMemory(int file) : file_(file) {}
  int file_;
};

}  // namespace mdl::process
