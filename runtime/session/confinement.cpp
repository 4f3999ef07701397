#include "runtime/session/confinement.h"

#include <fmt/format.h>

#include "runtime/process/seccomp.h"
#include "runtime/process/target.h"

namespace mdl::inject {
namespace {

constexpr format::Routine kRoutines[] = {
#define X(id, name, feature, ns) format::Routine::id,
    MDL_ROUTINES(X)
#undef X
};

Error refuse(pid_t pid, const std::string& name, const std::string& why) {
  return {fmt::format(
      "process {} ({}) cannot be instrumented: {}: nothing was changed; allow that system call in "
      "the process's filter (of a systemd unit: SystemCallFilter=)",
      pid, name, why)};
}

}  // namespace

Result<Allowed> read_allowed(pid_t pid, const process::TargetMemory& memory, const std::string& name,
                             bool follow) {
  auto sandbox = process::Sandbox::read(pid, memory);
  if (!sandbox) return sandbox.error();
  Allowed out;
  if (std::string why =
          sandbox->why_denied_to_all(arch::insertion_calls(follow, process::read_status(pid).locks_memory));
      !why.empty())
    return refuse(pid, name, why);
  if (std::string why = sandbox->why_denied(arch::resident_calls(false, follow)); !why.empty())
    return refuse(pid, name, why);
  out.asks_id = sandbox->why_denied(arch::resident_calls(true)).empty();
  for (format::Routine routine : kRoutines)
    if (std::string why = sandbox->why_denied(arch::routine_calls(routine)); !why.empty())
      out.denied[routine] = why;
  out.denied_links = sandbox->why_denied(arch::descriptor_calls());
  return out;
}

}  // namespace mdl::inject
