// Reading another process's memory. The bytes are the target's and are not trusted.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace mdl::image {

// A source of bytes by address. LiveMemory reads a process, which needs no stop, and of it the program that it executed
// when this was made; tests use a buffer.
class Memory {
 public:
  virtual ~Memory() = default;
  // Fills all of `into` from `address`; false when any byte cannot be read.
  virtual bool read(uint64_t address, std::span<std::byte> into) const = 0;
  // Where it is noted what is read (read_log.h): the same, for reads of which nothing is to be noted, and one of a word of
  // so many bytes that matters only for where in code it leads: with `added` to it, to `place`.
  virtual const Memory& unlogged() const { return *this; }
  virtual void note_place(uint64_t /*address*/, unsigned /*width*/, uint64_t /*added*/,
                          uint64_t /*place*/) const {}
};

class LiveMemory final : public Memory {
 public:
  explicit LiveMemory(pid_t pid);
  LiveMemory(const LiveMemory&) = delete;
  LiveMemory& operator=(const LiveMemory&) = delete;
  ~LiveMemory() override;
  bool read(uint64_t address, std::span<std::byte> into) const override;

 private:
  int file_;  // -1 where it may not be read
};

// Bytes held here, the first of them at `base`.
class BufferMemory final : public Memory {
 public:
  explicit BufferMemory(std::vector<std::byte> bytes, uint64_t base = 0)
      : bytes_(std::move(bytes)), base_(base) {}
  bool read(uint64_t address, std::span<std::byte> into) const override;
  std::span<const std::byte> bytes() const { return bytes_; }
  uint64_t base() const { return base_; }

 private:
  std::vector<std::byte> bytes_;
  uint64_t base_;
};

// How many bytes a file takes on its disk. Some file systems do not say.
inline uint64_t stored_bytes(const struct stat& status) {
  constexpr uint64_t kBlock = 512;  // stat(3type)
  return status.st_blocks > 0 ? static_cast<uint64_t>(status.st_blocks) * kBlock : UINT64_MAX;
}

// An open file, by offset. It is read with pread and never mapped: a file that is truncated
// meanwhile yields false, not SIGBUS. Owns the descriptor.
class FileMemory final : public Memory {
 public:
  explicit FileMemory(int descriptor) : descriptor_(descriptor) {}
  ~FileMemory() override;
  FileMemory(const FileMemory&) = delete;
  FileMemory& operator=(const FileMemory&) = delete;
  bool read(uint64_t address, std::span<std::byte> into) const override;

 private:
  int descriptor_;
};

}  // namespace mdl::image
