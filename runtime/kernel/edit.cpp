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
  std::vector<std::byte> back(bytes.size());
  return read_memory(memory, address, back) && std::equal(bytes.begin(), bytes.end(), back.begin());
}

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
  if (write_memory(memory, start, page)) return;
  out.changed.resize(changed_before);
  out.failed = true;
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
  for (size_t first = 0; first < edits.size() && !out.failed;) {
    size_t last = first + 1;
    while (last < edits.size() && page_of(edits[last]) == page_of(edits[first])) last++;
    edit_page(*file, edits, first, last, only_look, out);
    first = last;
  }
  return out;
}

bool overwrite(uint32_t writer, uint64_t address, std::span<const std::byte> bytes) {
  const Writers::File file = writers().find(writer);
  return file && write_memory(*file, address, bytes);
}

}  // namespace mdl::kernel::direct
