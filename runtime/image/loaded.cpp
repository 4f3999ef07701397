#include "runtime/image/loaded.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "runtime/image/object.h"

namespace mdl::image {
namespace {

constexpr size_t kMostObjects = 65536;  // a list that the process has damaged may be a loop
constexpr size_t kMostNamespaces = 64;
constexpr uint64_t kNear = 4096;             // between what is nearer lies no whole page
constexpr uint64_t kMostBefore = 256 << 10;  // of bytes

// A memory that notes what is asked for.
class Noted final : public Memory {
 public:
  explicit Noted(const Memory& memory) : memory_(memory) {}
  bool read(uint64_t address, std::span<std::byte> into) const override {
    asked_.push_back({address, address + into.size()});
    return memory_.read(address, into);
  }
  // By address.
  std::vector<Range> asked() const {
    std::vector<Range> out = asked_;
    std::ranges::sort(out, {}, &Range::start);
    return out;
  }

 private:
  const Memory& memory_;
  mutable std::vector<Range> asked_;
};

// Few ranges with all of these, but not with a page that is in none of them. None where it is much: the list of a
// process that has damaged it may be spread over all of its memory.
std::vector<Range> joined(std::span<const Range> ranges) {
  std::vector<Range> out;
  uint64_t size = 0;
  for (const Range& range : ranges) {
    if (out.empty() || range.start - out.back().start >= out.back().end - out.back().start + kNear)
      out.push_back({range.start, range.start});
    const uint64_t end = std::max(out.back().end, range.end);
    size += end - std::exchange(out.back().end, end);
  }
  return size > kMostBefore ? std::vector<Range>() : out;
}

// What is in one of these, and nothing else.
class Parts final : public Memory {
 public:
  explicit Parts(std::span<const BufferMemory> parts) : parts_(parts) {}
  bool read(uint64_t address, std::span<std::byte> into) const override {
    return std::ranges::any_of(parts_, [&](const BufferMemory& part) { return part.read(address, into); });
  }

 private:
  std::span<const BufferMemory> parts_;
};

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

std::optional<std::vector<uint64_t>> LoadedList::read(const Memory& memory) {
  Noted noted(memory);
  auto out = read_from(noted);
  before_.clear();
  if (!out) return out;
  asked_ = noted.asked();
  for (const Range& range : joined(asked_)) {
    std::vector<std::byte> bytes(range.end - range.start);
    if (memory.read(range.start, bytes)) before_.emplace_back(std::move(bytes), range.start);
  }
  if (read_from(Parts(before_)) != out) before_.clear();  // it has changed meanwhile
  return out;
}

// Between what the list is made of lie words of the linker's that change at other times, too.
bool LoadedList::is_as_before(const Memory& memory) {
  auto asked = asked_.begin();
  for (const BufferMemory& part : before_) {
    now_.resize(part.bytes().size());
    if (!memory.read(part.base(), now_)) return false;
    for (; asked != asked_.end() && asked->end <= part.base() + now_.size(); ++asked) {
      const size_t at = asked->start - part.base();
      if (std::memcmp(&now_[at], &part.bytes()[at], asked->end - asked->start) != 0) return false;
    }
  }
  return !before_.empty();
}

std::optional<std::vector<uint64_t>> LoadedList::read_from(const Memory& memory) const {
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
