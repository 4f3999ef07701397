#include "runtime/image/auxiliary.h"

#include <elf.h>

#include <cstring>

namespace mdl::image {

std::optional<uint64_t> auxiliary_value(std::string_view vector, uint64_t key) {
  for (Elf64_auxv_t entry; vector.size() >= sizeof entry; vector.remove_prefix(sizeof entry)) {
    std::memcpy(&entry, vector.data(), sizeof entry);
    if (entry.a_type == key) return entry.a_un.a_val;
  }
  return std::nullopt;
}

}  // namespace mdl::image
