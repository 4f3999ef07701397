#include "runtime/patch/moved_code.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/arch/description.h"

namespace mdl::patch {
namespace {

struct InFile {
  uint64_t offset = 0;
  const resident::PatchedWindow* window = nullptr;
};

// Whether our bytes are there, but for breakpoints, and tell it from the original.
bool is_at(const resident::PatchedWindow& window, std::span<const uint8_t> text) {
  const std::vector<uint8_t>& ours = window.patched;
  if (text.size() < ours.size()) return false;
  bool tells = false;
  for (size_t i = 0; i < ours.size(); i++) {
    if (text[i] != ours[i] && text[i] != arch::kMachine.breakpoint[0]) return false;
    tells = tells || (text[i] == ours[i] && (i >= window.original.size() || ours[i] != window.original[i]));
  }
  return tells;
}

class Search {
 public:
  explicit Search(const image::Memory& memory) : memory_(memory) {}

  // What it costs is counted in bytes that are read, whoever made the journal and the mappings.
  bool spend(uint64_t bytes, size_t windows) {
    spent_ += bytes + kPerWindow * windows;
    return spent_ <= kMost;
  }

  // Of windows by their offset. False where it has become too much.
  bool look(const image::Mapping& mapping, std::span<const InFile> windows) {
    const uint64_t end = mapping.offset + (mapping.end - mapping.start);
    auto at = std::ranges::lower_bound(windows, mapping.offset, {}, &InFile::offset);
    while (at != windows.end() && at->offset < end) {
      auto after = at;
      uint64_t last = at->offset;
      for (; after != windows.end() && after->offset < std::min(end, at->offset + kPiece); ++after)
        last = std::max(last, std::min(end, after->offset + after->window->patched.size()));
      if (!look_at(mapping.start + (at->offset - mapping.offset), last - at->offset, std::span(at, after)))
        return false;
      at = after;
    }
    return true;
  }

  std::set<uint64_t> found;

 private:
  static constexpr uint64_t kPiece = 64 << 10;  // that is read at once
  static constexpr uint64_t kMost = 1 << 28;
  static constexpr uint64_t kPerRead = 4 << 10, kPerWindow = 64;

  bool look_at(uint64_t address, uint64_t size, std::span<const InFile> windows) {
    if (!spend(size + kPerRead, windows.size())) return false;
    text_.resize(size);
    const auto behind = [&](const InFile& one) { return one.offset - windows[0].offset; };
    if (memory_.read(address, std::as_writable_bytes(std::span(text_)))) {
      for (const InFile& one : windows)
        if (is_at(*one.window, std::span(text_).subspan(behind(one)))) found.insert(one.window->address);
      return true;
    }
    // A page of it may be unreadable, and hides no other.
    return windows.size() == 1 || std::ranges::all_of(windows, [&](const InFile& one) {
             return look_at(address + behind(one), std::min(size - behind(one), one.window->patched.size()),
                            {&one, 1});
           });
  }

  const image::Memory& memory_;
  uint64_t spent_ = 0;
  std::vector<uint8_t> text_;
};

}  // namespace

std::optional<std::set<uint64_t>> find_moved(std::span<const resident::PatchedWindow* const> gone,
                                             std::span<const resident::PatchedFile> files,
                                             std::span<const image::Mapping> mappings,
                                             const image::Memory& memory) {
  Search search(memory);
  std::vector<const resident::PatchedWindow*> sorted(gone.begin(), gone.end());
  std::ranges::sort(sorted, {}, &resident::PatchedWindow::address);
  std::map<std::pair<uint64_t, uint64_t>, std::vector<InFile>> sought;  // by device and inode
  for (const resident::PatchedFile& file : files) {
    const auto at = [&](uint64_t address) {
      return std::ranges::lower_bound(sorted, address, {}, &resident::PatchedWindow::address);
    };
    if (file.at.end <= file.at.start || at(file.at.start) == at(file.at.end)) continue;
    const std::span in_file(at(file.at.start), at(file.at.end));
    if (!search.spend(0, in_file.size())) return std::nullopt;
    for (const resident::PatchedWindow* window : in_file)
      sought[{file.device, file.inode}].push_back({file.offset + (window->address - file.at.start), window});
  }
  for (auto& [file, windows] : sought) std::ranges::sort(windows, {}, &InFile::offset);
  for (const image::Mapping& mapping : mappings)
    if (const auto of = sought.find({mapping.device, mapping.inode}); of != sought.end())
      if (!search.look(mapping, of->second)) return std::nullopt;
  return std::move(search.found);
}

}  // namespace mdl::patch
