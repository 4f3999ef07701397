// The entry of a started program, where it waits until it is instrumented (process/arrival.h).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/arch/bytes.h"
#include "runtime/arch/system_calls.h"
#include "runtime/arch/thread_registers.h"
#include "runtime/image/image.h"

namespace mdl::arch {

// Code at which a program waits in front of its entry, in the process that knows itself as `pid`; in any
// other it goes on at once. It writes `entry` to the address `word` and waits for as long as the word at
// `beat` changes at least every 0.8 s; then it goes on to `entry`. `mark` stands behind its first jump. It is
// position dependent, of one size.
struct EntryStub {
  Bytes code;
  uint64_t beat = 0;   // an address
  image::Range waits;  // while a thread is here, the stack has `stack` bytes of its own
  size_t stack = 0;
};
EntryStub entry_stub(std::string_view mark, pid_t pid, uint64_t entry, uint64_t word, uint64_t address);
// The registers of a thread that waits there, as they were, at the entry. `stack`: from its stack pointer on.
ThreadRegisters leave_entry_stub(const ThreadRegisters&, std::span<const std::byte> stack, uint64_t entry);
std::vector<PlannedCall> entry_stub_calls();

}  // namespace mdl::arch
