#include "runtime/patch/moved_code.h"

#include <algorithm>
#include <cstring>

#include "runtime/arch/description.h"

namespace mdl::patch {
namespace {

// Windows by what their bytes begin with, and by their place in a page.
class Sought {
 public:
  explicit Sought(std::span<const resident::PatchedWindow* const> windows) : at_(arch::kPage) {
    for (const resident::PatchedWindow* window : windows) {
      if (window->patched.empty()) continue;
      firsts_.insert(window->patched[0]);
      at_[window->address % arch::kPage].push_back(window);
    }
  }

  // Those that are in this text, which begins with a page.
  void find(std::span<const uint8_t> text, std::set<uint64_t>& found) const {
    for (const uint8_t first : firsts_)
      for (size_t at = next(text, 0, first); at < text.size(); at = next(text, at + 1, first))
        for (const resident::PatchedWindow* window : at_[at % arch::kPage])
          if (is_at(*window, text.subspan(at))) found.insert(window->address);
  }

 private:
  static size_t next(std::span<const uint8_t> text, size_t at, uint8_t byte) {
    const void* found = at < text.size() ? std::memchr(&text[at], byte, text.size() - at) : nullptr;
    return found ? static_cast<size_t>(static_cast<const uint8_t*>(found) - text.data()) : text.size();
  }
  static bool is_at(const resident::PatchedWindow& window, std::span<const uint8_t> text) {
    const std::vector<uint8_t>& bytes = window.patched;
    return bytes.size() <= text.size() && std::memcmp(bytes.data(), text.data(), bytes.size()) == 0;
  }

  std::set<uint8_t> firsts_;
  std::vector<std::vector<const resident::PatchedWindow*>> at_;
};

}  // namespace

std::set<uint64_t> find_moved(std::span<const resident::PatchedWindow* const> gone,
                              std::span<const resident::PatchedFile> files,
                              std::span<const image::Mapping> mappings, const image::Memory& memory) {
  std::set<uint64_t> out;
  if (gone.empty()) return out;
  const Sought sought(gone);
  const auto is_ours = [&](const image::Mapping& one) {
    return one.execute && std::ranges::any_of(files, [&](const resident::PatchedFile& file) {
             return one.device == file.device && one.inode == file.inode;
           });
  };
  for (const image::Mapping& mapping : mappings) {
    if (!is_ours(mapping)) continue;
    std::vector<uint8_t> text(mapping.end - mapping.start);
    if (memory.read(mapping.start, std::as_writable_bytes(std::span(text)))) sought.find(text, out);
  }
  return out;
}

}  // namespace mdl::patch
