#include "runtime/session/thread_starts.h"

#include "runtime/image/main_function.h"
#include "runtime/image/unwind.h"
#include "runtime/process/paused_memory.h"
#include "runtime/process/threads.h"

namespace mdl::inject {

std::vector<uint64_t> thread_starts(const image::Image& image, const process::TargetMemory& memory,
                                    std::chrono::milliseconds max_pause) {
  constexpr size_t kAround = 2;  // frames outside of the start routine: of clone, and of the C library
  std::vector<uint64_t> out;
  if (auto main = image::find_main(image, memory)) out.push_back(*main);
  image::Unwinder unwinder(image);
  process::Threads threads(image.pid, memory);
  constexpr int kAttempts = 5;
  std::vector<uint64_t> starts;
  for (int attempt = 0; attempt < kAttempts; attempt++) {
    if (!threads.stop_all(std::chrono::milliseconds(2000), max_pause) && !threads.is_late()) return out;
    const process::PausedMemory now(memory, threads.stopped_since(), max_pause);
    const bool is_late = threads.is_late();
    starts.clear();
    for (pid_t tid : threads.stopped()) {
      auto registers = threads.registers(tid);
      if (!registers || tid == image.pid) continue;
      image::Stack stack = unwinder.walk(arch::unwind_registers(*registers), now);
      if (!stack.complete || stack.frames.size() <= kAround) continue;
      const image::Frame& start = stack.frames[stack.frames.size() - 1 - kAround];
      starts.push_back(start.is_call ? start.pc - 1 : start.pc);
    }
    threads.release_all();
    if (!is_late && !now.is_over()) break;
    process::rest_after(std::chrono::steady_clock::now() - threads.stopped_since());
  }
  out.insert(out.end(), starts.begin(), starts.end());
  return out;
}

}  // namespace mdl::inject
