#include "runtime/image/memory.h"

#include <unistd.h>

#include <cstring>

#include "base/watchdog.h"
#include "runtime/kernel/memory.h"

namespace mdl::image {

LiveMemory::LiveMemory(pid_t pid) : file_(kernel::open_memory(pid)) {}

LiveMemory::~LiveMemory() {
  if (file_ >= 0) close(file_);
}

bool LiveMemory::read(uint64_t address, std::span<std::byte> into) const {
  return file_ >= 0 && kernel::read_memory(file_, address, into);
}

bool BufferMemory::read(uint64_t address, std::span<std::byte> into) const {
  if (address < base_ || address - base_ > bytes_.size()) return false;
  uint64_t at = address - base_;
  if (into.size() > bytes_.size() - at) return false;
  if (!into.empty()) std::memcpy(into.data(), bytes_.data() + at, into.size());
  return true;
}

FileMemory::~FileMemory() {
  close(descriptor_);
}

bool FileMemory::read(uint64_t address, std::span<std::byte> into) const {
  const Watched watched(Watched::Of::file);
  size_t done = 0;
  while (done < into.size()) {
    uint64_t at = address + done;
    if (at < address || at > INT64_MAX) return false;
    ssize_t count = pread(descriptor_, into.data() + done, into.size() - done, static_cast<off_t>(at));
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace mdl::image
