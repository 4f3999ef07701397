// Processes that were forked from one another have the same code at the same addresses, and what was found out about one
// of them (its objects, where points are, which of them can be instrumented) is true of the others. It takes seconds and
// hundreds of megabytes for a large program, and there may be hundreds of such processes: so it is found out once, and
// the others are compared with what it came from.
//
// That is: the program, its mappings of files with code, what the kernel and the file system show of these, and each byte
// of its memory as it was read. Whatever differs, the process is looked at by itself. So is one with other rights: what is
// found out about a process is its owner's affair, and nobody else's.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/image/image.h"
#include "runtime/image/read_log.h"

namespace mdl::inject {

class Likeness {
 public:
  // Of a process that is to be looked at: what is read of its memory is to be noted in `log`.
  explicit Likeness(pid_t pid);
  image::ReadLog& log() { return log_; }

  // Whether what `image` holds, and what was found out from it, is true of the process `other` with these mappings.
  bool holds_for(const image::Image& image, pid_t other, const std::vector<image::Mapping>& mappings) const;

 private:
  // As /proc shows them; zeros where it does not.
  struct Origin {
    std::string program, mounts;           // the links exe and ns/mnt
    std::vector<std::string> rights = {};  // users, groups and capabilities
    uint64_t root_device = 0, root = 0;    // of the folder, its device and inode
    std::vector<uint64_t> told = {};       // by the kernel at its start, of what image.cpp reads
    bool operator==(const Origin&) const = default;
  };
  static Origin origin_of(pid_t pid);

  Origin origin_;
  image::ReadLog log_;
};

}  // namespace mdl::inject
