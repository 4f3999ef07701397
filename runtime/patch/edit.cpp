#include "runtime/patch/edit.h"

#include <algorithm>
#include <span>
#include <vector>

#include "runtime/arch/description.h"

namespace mdl::patch {

bool edit_around_breakpoints(const Edit& edit, const process::TargetMemory& memory) {
  std::vector<uint8_t> now(edit.from.size());
  if (!memory.read(edit.address, std::as_writable_bytes(std::span(now)))) return false;
  std::vector<uint8_t> to(edit.to.begin(), edit.to.end());
  const std::span breakpoint = arch::kMachine.breakpoint;
  const auto is_there = [&](std::span<const uint8_t> bytes, size_t at) {
    return bytes.size() - at >= breakpoint.size() &&
           std::ranges::equal(bytes.subspan(at, breakpoint.size()), breakpoint);
  };
  for (size_t i = 0; i < now.size();) {
    const bool is_foreign = is_there(now, i) && !is_there(edit.from, i);
    const size_t size = is_foreign ? breakpoint.size() : 1;
    if (is_foreign)
      std::copy_n(now.begin() + static_cast<std::ptrdiff_t>(i), size,
                  to.begin() + static_cast<std::ptrdiff_t>(i));
    else if (now[i] != edit.from[i] && now[i] != edit.to[i])
      return false;
    i += size;
  }
  const Edit careful{edit.address, now, to};
  const Edited done = memory.edit(std::span(&careful, 1));
  return !done.failed && done.foreign.empty();
}

}  // namespace mdl::patch
