#include "runtime/process/counter_access.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include "runtime/arch/description.h"
#include "runtime/process/remote.h"

namespace mdl::process {

Result<void> check_counter_access(pid_t pid, Threads& threads, const TargetMemory& memory,
                                  const image::Image& image, uint64_t scratch) {
  const arch::RemoteCall ask{arch::kMachine.calls.prctl, {PR_GET_TSC, scratch}, false};
  auto results = remote_calls(pid, threads, memory, image, std::span(&ask, 1), {});
  if (!results) return results.error().status == Status::left_inert ? results.error() : Result<void>{};
  const int32_t none = 0;
  int32_t answer = none;
  if (!memory.read(scratch, std::as_writable_bytes(std::span(&answer, 1))) ||
      !memory.write(scratch, std::as_bytes(std::span(&none, 1))))
    return Error{fmt::format("cannot read what process {} may do", pid)};
  if (answer != PR_TSC_SIGSEGV) return {};
  return Error{
      fmt::format("process {} may not read the time stamp counter (prctl(PR_SET_TSC)), as timers do: it "
                  "would be killed by SIGSEGV; ask for counts only",
                  pid)};
}

}  // namespace mdl::process
