#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "base/watchdog.h"
#include "runtime/kernel/direct.h"

namespace mdl::kernel::direct {

Opened open_memory(pid_t tid) {
  return open_proc(tid, "mem");
}

bool read_memory_of(pid_t tid, uint64_t address, std::span<std::byte> into) {
  const Watched watched;
  // A transfer stops at an unreadable page and reports what came before it.
  while (!into.empty()) {
    iovec local{into.data(), into.size()};
    iovec remote{reinterpret_cast<void*>(address), into.size()};
    const ssize_t got = process_vm_readv(tid, &local, 1, &remote, 1, 0);
    if (got <= 0) return false;
    address += static_cast<size_t>(got);
    into = into.subspan(static_cast<size_t>(got));
  }
  return true;
}

std::optional<bool> compare_memory(pid_t tid, pid_t other) {
  constexpr int kSameMemory = 1;  // KCMP_VM
  const long order = syscall(SYS_kcmp, tid, other, kSameMemory, 0, 0);
  if (order < 0) return std::nullopt;
  return order == 0;
}

}  // namespace mdl::kernel::direct

namespace mdl::kernel {

bool read_memory(int memory, uint64_t address, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = read_some(memory, address, into);
    if (got <= 0) return false;
    address += static_cast<size_t>(got);
    into = into.subspan(static_cast<size_t>(got));
  }
  return true;
}

ssize_t read_some(int memory, uint64_t address, std::span<std::byte> into) {
  const Watched watched;
  ssize_t got = 0;
  do got = pread(memory, into.data(), into.size(), static_cast<off_t>(address));
  while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace mdl::kernel
