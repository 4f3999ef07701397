// What of a process's memory something was found out from. It is true of another process, too, that has the same bytes
// there.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/image/memory.h"

namespace mdl::image {

// By lines of 64 bytes, all of which count that a read touched. Any number of threads may note.
class ReadLog {
 public:
  void note(uint64_t address, size_t size);
  void note_place(uint64_t address, unsigned width, uint64_t added);
  // Whether two memories hold the same wherever something was read, or of places what leads to no code in both. What cannot
  // be read in one cannot be in the other.
  bool is_same(const Memory& one, const Memory& other, llvm::function_ref<bool(uint64_t)> is_code) const;

 private:
  static constexpr uint64_t kPage = 4096;  // bytes, as many lines as a word has bits
  static constexpr uint64_t kLine = kPage / 64;

  struct Place {
    uint64_t address = 0, added = 0;
    unsigned width = 0;  // bytes
    auto operator<=>(const Place&) const = default;
  };

  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> lines_;  // a bit for each line, by address / kPage
  std::vector<Place> places_;
};

// Notes what is read. Both outlive it; without a log it is the memory itself.
class LoggedMemory final : public Memory {
 public:
  LoggedMemory(const Memory& memory, ReadLog* log) : memory_(memory), log_(log) {}
  bool read(uint64_t address, std::span<std::byte> into) const override {
    if (log_) log_->note(address, into.size());
    return memory_.read(address, into);
  }
  const Memory& unlogged() const override { return memory_.unlogged(); }
  void note_place(uint64_t address, unsigned width, uint64_t added) const override {
    if (log_) log_->note_place(address, width, added);
  }

 private:
  const Memory& memory_;
  ReadLog* log_;
};

}  // namespace mdl::image
