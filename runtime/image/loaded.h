// The dynamic linker's list of objects: cheap to ask often, so that libraries which come and go are noticed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/image/image.h"

namespace mdl::image {

// The list that linkers keep for debuggers (struct r_debug, link.h; the program's DT_DEBUG leads there).
// glibc and musl keep it; a static program has none. Everything read is the process's and not trusted.
class LoadedList {
 public:
  explicit LoadedList(uint64_t debug) : debug_(debug) {}  // the address of the r_debug
  // `image`: only its program is looked at.
  static std::optional<LoadedList> find(const Image& image, const Memory& memory);

  // {load address, dynamic section} of each object, in the list's order, all namespaces of dlmopen after
  // another. Nothing when it cannot be read, or is just being changed.
  std::optional<std::vector<uint64_t>> read(const Memory& memory);
  // False when read() may say something else than the last time. One or two calls, however long the list is.
  bool is_as_before(const Memory& memory);

 private:
  std::optional<std::vector<uint64_t>> read_from(const Memory& memory) const;

  uint64_t debug_;
  std::vector<BufferMemory> before_;  // the memory that the list was in
  std::vector<Range> asked_;          // what of it was read
  std::vector<std::byte> now_;        // room for a part of it
};

}  // namespace mdl::image
