// What something was found out from: the bytes that were read of a process's memory, as they were then. It is true of
// another process, too, that has the same bytes there.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/image/memory.h"

namespace mdl::image {

// Any number of threads may note. It holds a copy of all that was read.
class ReadLog {
 public:
  void note(uint64_t address, std::span<const std::byte> bytes);
  void note_unreadable(uint64_t address, uint64_t size);
  void note_place(uint64_t address, unsigned width, uint64_t added, uint64_t place);
  // Whether a memory has the same wherever something was read, and of places the same, or what leads to no code either.
  bool is_true_of(const Memory& memory, llvm::function_ref<bool(uint64_t)> is_code) const;

 private:
  static constexpr uint64_t kPage = 4096;  // bytes
  struct Page {
    std::bitset<kPage> is_known;
    std::array<std::byte, kPage> bytes;
  };
  struct Place {
    uint64_t address = 0, added = 0, place = 0;
    unsigned width = 0;  // bytes
  };

  mutable std::mutex mutex_;
  bool has_changed_ = false;                                   // something was read twice, and differed
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;  // by address / kPage
  std::vector<std::pair<uint64_t, uint64_t>> unreadable_;      // address and size of each read that failed
  std::vector<Place> places_;
};

// Notes what is read. Both outlive it; without a log it is the memory itself.
class LoggedMemory final : public Memory {
 public:
  LoggedMemory(const Memory& memory, ReadLog* log) : memory_(memory), log_(log) {}
  bool read(uint64_t address, std::span<std::byte> into) const override {
    const bool is_read = memory_.read(address, into);
    if (log_) is_read ? log_->note(address, into) : log_->note_unreadable(address, into.size());
    return is_read;
  }
  const Memory& unlogged() const override { return memory_.unlogged(); }
  void note_place(uint64_t address, unsigned width, uint64_t added, uint64_t place) const override {
    if (log_) log_->note_place(address, width, added, place);
  }

 private:
  const Memory& memory_;
  ReadLog* log_;
};

}  // namespace mdl::image
