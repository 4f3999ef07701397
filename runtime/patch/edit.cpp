#include "runtime/patch/edit.h"

#include <algorithm>
#include <cstring>

#include "runtime/arch/arch.h"

namespace mdl::patch {
namespace {

using arch::kPage;

bool holds(const std::byte* at, std::span<const uint8_t> bytes) {
  return std::memcmp(at, bytes.data(), bytes.size()) == 0;
}

// The edits [first, last) lie in one page.
void edit_page(std::span<const Edit> edits, size_t first, size_t last, const process::TargetMemory& memory,
               bool only_look, Edited& out) {
  uint64_t start = edits[first].address, end = start;
  for (size_t i = first; i < last; i++) end = std::max<uint64_t>(end, edits[i].address + edits[i].to.size());
  std::vector<std::byte> page(end - start);
  if (!memory.read(start, page)) {
    for (size_t i = first; i < last; i++) out.foreign.push_back(i);
    return;
  }
  size_t changed_before = out.changed.size();
  for (size_t i = first; i < last; i++) {
    std::byte* at = page.data() + (edits[i].address - start);
    if (holds(at, edits[i].from)) {
      std::memcpy(at, edits[i].to.data(), edits[i].to.size());
      out.changed.push_back(i);
    } else if (!holds(at, edits[i].to)) {
      out.foreign.push_back(i);
    }
  }
  if (only_look || out.changed.size() == changed_before) return;
  if (memory.write(start, page)) return;
  out.changed.resize(changed_before);
  out.failed = true;
}

}  // namespace

Edited apply_edits(std::span<const Edit> edits, const process::TargetMemory& memory, bool only_look) {
  Edited out;
  for (size_t first = 0; first < edits.size() && !out.failed;) {
    size_t last = first + 1;
    while (last < edits.size() && edits[last].address / kPage == edits[first].address / kPage) last++;
    edit_page(edits, first, last, memory, only_look, out);
    first = last;
  }
  return out;
}

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
  const Edited done = apply_edits(std::span(&careful, 1), memory);
  return !done.failed && done.foreign.empty();
}

}  // namespace mdl::patch
