#include "runtime/patch/edit.h"

#include <span>
#include <vector>

#include "runtime/arch/arch.h"

namespace mdl::patch {

bool edit_around_breakpoints(const Edit& edit, const process::TargetMemory& memory) {
  std::vector<uint8_t> now(edit.from.size());
  if (!memory.read(edit.address, std::as_writable_bytes(std::span(now)))) return false;
  std::vector<uint8_t> to(edit.to.begin(), edit.to.end());
  for (size_t i = 0; i < now.size(); i++)
    if (now[i] == arch::kBreakpoint && edit.from[i] != arch::kBreakpoint)
      to[i] = now[i];
    else if (now[i] != edit.from[i] && now[i] != edit.to[i])
      return false;
  const Edit careful{edit.address, now, to};
  const Edited done = memory.edit(std::span(&careful, 1));
  return !done.failed && done.foreign.empty();
}

}  // namespace mdl::patch
