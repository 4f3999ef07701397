#include "runtime/session/likeness.h"

#include <sys/auxv.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/proc_text.h"
#include "runtime/image/auxiliary.h"
#include "runtime/image/references.h"
#include "runtime/kernel/proc_file.h"

namespace mdl::inject {
namespace {

using image::Mapping;

// What a mapping is, but for its end where it is no file's: the data behind that of a library may grow.
auto identity(const Mapping& mapping) {
  const bool is_of_file = mapping.inode != 0;
  return std::tuple(mapping.start, is_of_file ? mapping.end : 0, mapping.offset, mapping.read, mapping.write,
                    mapping.execute, mapping.shared, mapping.device, mapping.inode, mapping.path);
}

// The mappings of files with code, what else may be executed, and the data of no file right behind these.
std::vector<const Mapping*> code_and_its_data(const std::vector<Mapping>& mappings) {
  std::set<std::pair<uint64_t, uint64_t>> files;
  for (const Mapping& mapping : mappings)
    if (mapping.execute && mapping.inode != 0) files.emplace(mapping.device, mapping.inode);
  std::vector<const Mapping*> out;
  uint64_t behind = 0;
  for (const Mapping& mapping : mappings) {
    const bool is_meant = mapping.execute || files.contains({mapping.device, mapping.inode});
    if (!is_meant && (mapping.inode != 0 || mapping.start != behind)) continue;
    out.push_back(&mapping);
    behind = is_meant ? mapping.end : 0;
  }
  return out;
}

bool are_alike(const std::vector<Mapping>& some, const std::vector<Mapping>& others) {
  return std::ranges::equal(code_and_its_data(some), code_and_its_data(others),
                            [](const Mapping* a, const Mapping* b) { return identity(*a) == identity(*b); });
}

}  // namespace

Likeness::Origin Likeness::origin_of(pid_t pid) {
  const pid_t live = kernel::live_thread(pid);
  Origin out{.program = kernel::proc_link(live, "exe"), .mounts = kernel::proc_link(live, "ns/mnt")};
  struct stat root {};
  if (kernel::stat_proc(live, "root", root)) out.root_device = root.st_dev, out.root = root.st_ino;
  const std::string status = kernel::proc_text(live, "status");
  for (const std::string_view key : {"Uid", "Gid", "Groups", "CapPrm"})
    out.rights.emplace_back(status_value(status, key));
  const std::string vector = kernel::proc_text(live, "auxv");
  for (const uint64_t key : {AT_BASE, AT_SYSINFO_EHDR, AT_ENTRY, AT_EXECFN})
    out.told.push_back(image::auxiliary_value(vector, key).value_or(0));
  return out;
}

Likeness::Likeness(pid_t pid) : origin_(origin_of(pid)) {}

bool Likeness::holds_for(const image::Image& image, pid_t other, const std::vector<Mapping>& mappings) const {
  if (!are_alike(image.mappings, mappings)) return false;
  const Origin origin = origin_of(other);
  if (origin != origin_ || origin.program.empty() || origin.root == 0 || origin.mounts.empty() ||
      origin.rights.front().empty())
    return false;
  const image::LiveMemory memory(kernel::live_thread(other));
  const auto is_code = [&](uint64_t address) {
    const Mapping* mapping = image::mapping_at(mappings, address);
    return mapping && mapping->execute;
  };
  if (!log_.is_true_of(memory, is_code)) return false;
  image::Image its;
  its.pid = other;
  its.mappings = mappings;
  return std::ranges::all_of(image.objects, [&](const image::Object& object) {
    return !object.references || object.references->are_same_in(its, object, memory);
  });
}

}  // namespace mdl::inject
