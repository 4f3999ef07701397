#include "runtime/image/loaded.h"

#include <link.h>

#include <array>
#include <span>

#include "runtime/image/object.h"

namespace mdl::image {
namespace {

constexpr size_t kMostObjects = 65536;  // a list that the process has damaged may be a loop
constexpr size_t kMostNamespaces = 64;

template <typename T>
bool read_at(const Memory& memory, uint64_t address, T& into) {
  return address != 0 && memory.read(address, std::as_writable_bytes(std::span(&into, 1)));
}

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

}  // namespace

std::optional<LoadedList> LoadedList::find(const Image& image, const Memory& memory) {
  const Object& program = image.objects.front();
  auto file = open_object(image, program);
  if (!file) return std::nullopt;
  for (const Segment& segment : file->segments()) {
    if (segment.type != PT_DYNAMIC) continue;
    for (uint64_t at = 0; at + sizeof(ElfW(Dyn)) <= segment.memory_size; at += sizeof(ElfW(Dyn))) {
      ElfW(Dyn) entry;
      if (!read_at(memory, program.bias + segment.address + at, entry) || entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_DEBUG && entry.d_un.d_ptr != 0) return LoadedList(entry.d_un.d_ptr);
    }
  }
  return std::nullopt;
}

std::optional<std::vector<uint64_t>> LoadedList::read(const Memory& memory) const {
  std::vector<uint64_t> out;
  uint64_t at = debug_;
  for (size_t spaces = 0; at != 0 && spaces < kMostNamespaces; ++spaces) {
    r_debug head;
    if (!read_at(memory, at, head) || head.r_state != r_debug::RT_CONSISTENT) return std::nullopt;
    for (uint64_t entry = address_of(head.r_map); entry != 0;) {
      link_map map;
      if (!read_at(memory, entry, map) || out.size() / 2 >= kMostObjects) return std::nullopt;
      out.push_back(map.l_addr);
      out.push_back(address_of(map.l_ld));
      entry = address_of(map.l_next);
    }
    // From version 2 on (glibc 2.35) the next namespace's follows the structure: struct r_debug_extended.
    if (head.r_version < 2 || !read_at(memory, at + sizeof head, at)) break;
  }
  return out;
}

}  // namespace mdl::image
