// Remote system calls: code that a thread of the target executes for the injector (process/remote.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/arch/bytes.h"
#include "runtime/arch/thread_registers.h"

namespace mdl::arch {

// One system call of a remote stub. An argument equal to kLastResult stands for the
// result of the last call marked `keep`.
struct RemoteCall {
  long number = 0;
  std::vector<uint64_t> args;  // at most 6
  bool keep = false;
};
inline constexpr uint64_t kLastResult = 0xfdfdfdfdfdfdfdfdu;
// An argument that is an offset into the stub's own text data: kTextTag + offset.
inline constexpr uint64_t kTextTag = 0x7e7e7e7e00000000u;

// Code that makes `calls` in order on the thread with `registers` and then puts it back where
// it was, on its own: a thread whose tracer dies at any instruction of it runs on correctly.
// `text` is data that the calls may point to. `address` is where the code will lie; its size does not depend
// on it. All signals are blocked meanwhile, by a call of its own before the first and one behind the last,
// which sets `signal_mask`, the thread's.
struct RemoteStub {
  struct Call {
    long number = 0;
    uint64_t next =
        0;  // the address behind it: where the thread is when it enters and when it leaves the call
  };
  Bytes code;
  std::vector<Call> calls;  // all that it makes, its own among them
};
RemoteStub remote_stub(std::span<const RemoteCall> calls, std::string_view text,
                       const ThreadRegisters& registers, uint64_t signal_mask, uint64_t address);
// For a thread that is about to enter a call: it enters none, and leaves it with an error.
void drop_call(ThreadRegisters&);
// Registers with which the thread executes the stub.
ThreadRegisters remote_entry(const ThreadRegisters&, uint64_t address);

}  // namespace mdl::arch
