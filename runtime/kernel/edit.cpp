#include "runtime/kernel/edit.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/watchdog.h"
#include "runtime/kernel/memory.h"

namespace mdl::kernel {
namespace {

constexpr uint64_t kPage = 4096;  // the smallest page there is, so a write in it is in one page of any size

bool holds(const std::byte* at, std::span<const uint8_t> bytes) {
  return std::memcmp(at, bytes.data(), bytes.size()) == 0;
}

// The edits [first, last) lie in one page.
void edit_page(int memory, std::span<const Edit> edits, size_t first, size_t last, bool only_look,
               Edited& out) {
  uint64_t start = edits[first].address, end = start;
  for (size_t i = first; i < last; i++) end = std::max<uint64_t>(end, edits[i].address + edits[i].to.size());
  std::vector<std::byte> page(end - start);
  if (!read_memory(memory, start, page)) {
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
  if (overwrite(memory, start, page)) return;
  out.changed.resize(changed_before);
  out.failed = true;
}

}  // namespace

Edited apply_edits(int memory, std::span<const Edit> edits, bool only_look) {
  Edited out;
  for (size_t first = 0; first < edits.size() && !out.failed;) {
    size_t last = first + 1;
    while (last < edits.size() && edits[last].address / kPage == edits[first].address / kPage) last++;
    edit_page(memory, edits, first, last, only_look, out);
    first = last;
  }
  return out;
}

bool overwrite(int memory, uint64_t address, std::span<const std::byte> bytes) {
  const Watched watched;
  for (size_t done = 0; done < bytes.size();) {
    ssize_t put =
        pwrite(memory, bytes.data() + done, bytes.size() - done, static_cast<off_t>(address + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<size_t>(put);
  }
  std::vector<std::byte> back(bytes.size());
  return read_memory(memory, address, back) && std::equal(bytes.begin(), bytes.end(), back.begin());
}

}  // namespace mdl::kernel
