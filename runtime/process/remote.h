// System calls made by a stopped thread of the target on our behalf.
//
// The stub (arch::remote_stub) lies in slack: executable bytes past the end of a code
// segment, up to the end of its page, that belong to no section. The slack is restored
// before the thread is let go. No register is lost and no sleeper woken, even if this process dies half-way.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/arch/remote_stub.h"
#include "runtime/image/image.h"
#include "runtime/kernel/trace.h"
#include "runtime/process/target_memory.h"
#include "runtime/process/threads.h"

namespace mdl::process {

// Makes the calls in order on a thread that is stopped, or on one that this stops (a thread in
// user mode or in a call that can be restarted). Results are the kernel's: -errno on failure.
// All calls are made, also after one that failed.
Result<std::vector<int64_t>> remote_calls(pid_t pid, Threads& threads, const TargetMemory& memory,
                                          const image::Image& image, std::span<const arch::RemoteCall> calls,
                                          std::string_view text);

// The same, while all threads stand, which none of them was before: descriptors belong to all of them. Another
// thread could fork while a call has one open, or put its own file in its place. They stand on afterwards.
// `limit`: of the time that it may take to stop them. Where the calls take longer than that (the thread gets no
// processor), the others go on before.
Result<std::vector<int64_t>> remote_calls_alone(pid_t pid, Threads& threads, const TargetMemory& memory,
                                                const image::Image& image,
                                                std::span<const arch::RemoteCall> calls,
                                                std::string_view text, std::chrono::milliseconds limit);

// True for a thread that enters the call, or leaves it, as a call of 64-bit code.
bool is_at(const __ptrace_syscall_info& made, const arch::RemoteStub::Call& call, bool entering);

// The beginning of a stub's text, by which one that is left is found.
inline constexpr std::string_view kStubMark = "MDLSTUB1";
// Where `size` bytes of slack are free.
std::optional<uint64_t> find_slack(const image::Image& image, size_t size, const TargetMemory& memory);
// Where a killed injector left a stub. A thread may still be in it.
std::vector<image::Range> left_stubs(const TargetMemory& memory, const image::Image& image);
// Puts their bytes back to what the file holds; returns how many places it restored. All threads must be
// stopped, and none of them inside.
int restore_slack(const TargetMemory& memory, const image::Image& image);

}  // namespace mdl::process
