#include "runtime/kernel/edit.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "base/watchdog.h"
#include "runtime/kernel/direct.h"

namespace mdl::kernel::direct {
namespace {

// The files that can be written through, by the number of their writer. Each goes when nobody uses it any more.
class Writers {
 public:
  using File = std::shared_ptr<const int>;

  uint32_t add(int file) {
    const std::lock_guard lock(mutex_);
    all_[++last_] = {
        std::shared_ptr<const int>(new int(file), [](const int* one) { close(*one), delete one; }), 1};
    return last_;
  }
  File find(uint32_t writer) {
    const std::lock_guard lock(mutex_);
    auto found = all_.find(writer);
    return found == all_.end() ? nullptr : found->second.file;
  }
  bool use(uint32_t writer, int more) {
    const std::lock_guard lock(mutex_);
    auto found = all_.find(writer);
    if (found == all_.end()) return false;
    if ((found->second.uses += more) == 0) all_.erase(found);
    return true;
  }

 private:
  struct One {
    File file;
    int uses = 0;
  };
  std::mutex mutex_;
  std::map<uint32_t, One> all_;
  uint32_t last_ = 0;
};

Writers& writers() {
  static Writers all;
  return all;
}

bool write_memory(int memory, uint64_t address, std::span<const std::byte> bytes) {
  const Watched watched;
  for (size_t done = 0; done < bytes.size();) {
    ssize_t put =
        pwrite(memory, bytes.data() + done, bytes.size() - done, static_cast<off_t>(address + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<size_t>(put);
  }
  return true;
}

bool holds(const std::byte* at, std::span<const uint8_t> bytes) {
  return std::memcmp(at, bytes.data(), bytes.size()) == 0;
}

// Behind the edits of so many pages, from that of `first` on. Who asks may be taken over, and have them in any order.
size_t end_of(std::span<const Edit> edits, size_t first, uint64_t pages) {
  size_t last = first + 1;
  while (last < edits.size() && edits[last].address >= edits[last - 1].address &&
         page_of(edits[last]) - page_of(edits[first]) < pages)
    last++;
  return last;
}

// `bytes`, which begin at `start`, with one write for all of a page that these have changed.
void write_pages(int memory, std::span<const Edit> edits, std::span<const size_t> changed, uint64_t start,
                 std::span<const std::byte> bytes) {
  for (size_t i = 0; i < changed.size();) {
    uint64_t at = edits[changed[i]].address, end = at;
    for (; i < changed.size() && page_of(edits[changed[i]]) == at / kPage; i++)
      end = std::max<uint64_t>(end, edits[changed[i]].address + edits[changed[i]].to.size());
    if (!write_memory(memory, at, bytes.subspan(at - start, end - at))) return;
  }
}

// The edits [first, last), of neighbouring pages: threads may stand meanwhile, and a call takes longer than its page.
void edit_stretch(int memory, std::span<const Edit> edits, size_t first, size_t last, bool only_look,
                  Edited& out) {
  uint64_t start = edits[first].address, end = start;
  for (size_t i = first; i < last; i++) end = std::max<uint64_t>(end, edits[i].address + edits[i].to.size());
  std::vector<std::byte> bytes(end - start);
  if (!read_memory(memory, start, bytes)) {
    const size_t after = end_of(edits.first(last), first, 1);
    for (size_t i = first; i < last && after == last; i++) out.foreign.push_back(i);
    if (after < last) edit_stretch(memory, edits, first, after, only_look, out);  // others can be read
    if (after < last && !out.failed) edit_stretch(memory, edits, after, last, only_look, out);
    return;
  }
  const size_t before = out.changed.size();
  for (size_t i = first; i < last; i++) {
    std::byte* at = bytes.data() + (edits[i].address - start);
    if (holds(at, edits[i].from)) {
      std::memcpy(at, edits[i].to.data(), edits[i].to.size());
      out.changed.push_back(i);
    } else if (!holds(at, edits[i].to)) {
      out.foreign.push_back(i);
    }
  }
  const auto changed = out.changed.begin() + static_cast<ptrdiff_t>(before);
  if (only_look || changed == out.changed.end()) return;
  write_pages(memory, edits, {changed, out.changed.end()}, start, bytes);
  const bool is_read = read_memory(memory, start, bytes);
  const auto gone = std::remove_if(changed, out.changed.end(), [&](size_t i) {
    return !is_read || !holds(bytes.data() + (edits[i].address - start), edits[i].to);
  });
  out.failed = gone != out.changed.end();
  out.changed.erase(gone, out.changed.end());
}

}  // namespace

uint32_t open_writer(pid_t tid) {
  const int file = open(("/proc/" + std::to_string(tid) + "/mem").c_str(), O_RDWR | O_CLOEXEC);
  return file < 0 ? 0 : writers().add(file);
}

bool duplicate_writer(uint32_t writer) {
  return writers().use(writer, 1);
}

bool close_writer(uint32_t writer) {
  return writers().use(writer, -1);
}

bool read_writer(uint32_t writer, uint64_t address, std::span<std::byte> into) {
  const Writers::File file = writers().find(writer);
  return file && read_memory(*file, address, into);
}

Edited apply_edits(uint32_t writer, std::span<const Edit> edits, bool only_look) {
  Edited out;
  const Writers::File file = writers().find(writer);
  out.failed = !file;
  for (size_t first = 0, last = 0; first < edits.size() && !out.failed; first = last)
    edit_stretch(*file, edits, first, last = end_of(edits, first, 8), only_look, out);
  return out;
}

bool overwrite(uint32_t writer, uint64_t address, std::span<const std::byte> bytes) {
  const Writers::File file = writers().find(writer);
  if (!file || !write_memory(*file, address, bytes)) return false;
  std::vector<std::byte> back(bytes.size());
  return read_memory(*file, address, back) && std::ranges::equal(bytes, back);
}

}  // namespace mdl::kernel::direct
