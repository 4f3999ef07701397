#include "runtime/patch/moved_code.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/arch/description.h"

namespace mdl::patch {
namespace {

constexpr size_t kTelling = 5;  // bytes that nobody else has by chance: a jump to a trampoline

// Windows by what they may begin with, by their place in a page, and by their page.
class Sought {
 public:
  explicit Sought(std::span<const resident::PatchedWindow* const> windows) : at_(arch::kPage) {
    for (const resident::PatchedWindow* window : windows) {
      if (window->patched.empty()) continue;
      firsts_.insert(window->patched[0]);
      at_[window->address % arch::kPage].push_back(window);
      pages_[window->address / arch::kPage].push_back(window);
    }
    firsts_.insert(arch::kMachine.breakpoint[0]);
  }

  // Those that are in this text, which begins with a page.
  void find(std::span<const uint8_t> text, std::set<uint64_t>& found) const {
    for (const uint8_t first : firsts_)
      for (size_t at = next(text, 0, first); at < text.size(); at = next(text, at + 1, first))
        for (const resident::PatchedWindow* window : at_[at % arch::kPage])
          if (is_at(*window, text, at) && (window->patched.size() >= kTelling || is_page(*window, text, at)))
            found.insert(window->address);
  }

 private:
  static size_t next(std::span<const uint8_t> text, size_t at, uint8_t byte) {
    const void* found = at < text.size() ? std::memchr(&text[at], byte, text.size() - at) : nullptr;
    return found ? static_cast<size_t>(static_cast<const uint8_t*>(found) - text.data()) : text.size();
  }
  static bool is_at(const resident::PatchedWindow& window, std::span<const uint8_t> text, size_t at) {
    const std::vector<uint8_t>& bytes = window.patched;
    return at + bytes.size() <= text.size() &&
           std::ranges::equal(std::span(bytes).subspan(1), text.subspan(at + 1, bytes.size() - 1)) &&
           (text[at] == bytes[0] || text[at] == arch::kMachine.breakpoint[0]);
  }
  // Whether all windows of the page of one that is there are.
  bool is_page(const resident::PatchedWindow& window, std::span<const uint8_t> text, size_t at) const {
    return std::ranges::all_of(
        pages_.at(window.address / arch::kPage), [&](const resident::PatchedWindow* other) {
          return is_at(*other, text, at / arch::kPage * arch::kPage + other->address % arch::kPage);
        });
  }

  std::set<uint8_t> firsts_;
  std::vector<std::vector<const resident::PatchedWindow*>> at_;
  std::map<uint64_t, std::vector<const resident::PatchedWindow*>> pages_;
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
