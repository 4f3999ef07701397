#include "runtime/process/target_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/image/image.h"
#include "runtime/process/target.h"

namespace mdl::process {

Result<TargetMemory> TargetMemory::open(pid_t pid) {
  int file = ::open(fmt::format("/proc/{}/mem", image::live_thread(pid)).c_str(), O_RDWR | O_CLOEXEC);
  if (file >= 0) return TargetMemory(file);
  if (errno == EACCES || errno == EPERM) return permission_error(pid);
  return Error{fmt::format("cannot open the memory of process {}: {}", pid, std::strerror(errno))};
}

TargetMemory::~TargetMemory() {
  if (file_ >= 0) close(file_);
}

TargetMemory::TargetMemory(TargetMemory&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

bool TargetMemory::read(uint64_t address, std::span<std::byte> into) const {
  for (size_t done = 0; done < into.size();) {
    ssize_t got = pread(file_, into.data() + done, into.size() - done, static_cast<off_t>(address + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

bool TargetMemory::write(uint64_t address, std::span<const std::byte> bytes) const {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t put = pwrite(file_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(address + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<size_t>(put);
  }
  std::vector<std::byte> back(bytes.size());
  return read(address, back) && std::equal(bytes.begin(), bytes.end(), back.begin());
}

}  // namespace mdl::process
