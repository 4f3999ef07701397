#include "runtime/session/thread_starts.h"

#include "runtime/image/main_function.h"
#include "runtime/image/unwind.h"
#include "runtime/process/threads.h"

namespace mdl::inject {

std::vector<uint64_t> thread_starts(const image::Image& image, const process::TargetMemory& memory) {
  constexpr size_t kAround = 2;  // frames outside of the start routine: of clone, and of the C library
  std::vector<uint64_t> out;
  if (auto main = image::find_main(image, memory)) out.push_back(*main);
  image::Unwinder unwinder(image);
  process::Threads threads(image.pid, memory);
  if (!threads.stop_all(std::chrono::milliseconds(2000))) return out;
  for (pid_t tid : threads.stopped()) {
    auto registers = threads.registers(tid);
    if (!registers || tid == image.pid) continue;
    image::Stack stack = unwinder.walk(arch::unwind_registers(*registers), memory);
    if (!stack.complete || stack.frames.size() <= kAround) continue;
    const image::Frame& start = stack.frames[stack.frames.size() - 1 - kAround];
    out.push_back(start.is_call ? start.pc - 1 : start.pc);
  }
  threads.release_all();
  return out;
}

}  // namespace mdl::inject
