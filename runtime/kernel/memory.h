// Reading the memory of another process.
//
// The kernel binds a descriptor of /proc/PID/mem to the address space that the process had when it was
// opened, not to the process (process/target_memory.h says what follows from that). Such a descriptor is for
// reading. Writing goes through a writer, a number: its descriptor stays with who makes the calls.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mdl::kernel {

// The memory of a process, or of the thread that has the id; -1 and errno when it may not be opened. It reads
// pages that the process itself may not read, and writes such that it may not write (code).
int open_memory(pid_t tid);

// A writer of the memory; 0 and errno when it may not be opened. Another address space may be behind it than
// behind a descriptor that was opened before or after it: what is read through both tells.
uint32_t open_writer(pid_t tid);
bool read_writer(uint32_t writer, uint64_t address, std::span<std::byte> into);
bool duplicate_writer(uint32_t writer);  // it is to be closed once more
void close_writer(uint32_t writer);

// Fills all of `into`; false when any byte cannot be read.
bool read_memory(int memory, uint64_t address, std::span<std::byte> into);
// One read: how much of it there was. 0 where nobody runs in the memory any more, negative where it has no
// such place.
ssize_t read_some(int memory, uint64_t address, std::span<std::byte> into);
// All of `into` without a descriptor (process_vm_readv(2)): from the memory in which the thread runs now,
// and only what that may read itself.
bool read_memory_of(pid_t tid, uint64_t address, std::span<std::byte> into);

// Whether both threads run in the same memory (kcmp(2)). Nothing when one has ended, or the kernel does not
// tell.
std::optional<bool> compare_memory(pid_t tid, pid_t other);
// With each of these, by one question to a broker.
std::vector<std::optional<bool>> compare_memory_each(pid_t tid, std::span<const pid_t> others);

}  // namespace mdl::kernel
