#include "runtime/patch/recover.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/arch/bytes.h"
#include "runtime/arch/description.h"
#include "runtime/arch/windows.h"
#include "runtime/patch/originals.h"
#include "runtime/patch/relay.h"
#include "runtime/resident/footprint.h"

namespace mdl::patch {
namespace {

constexpr uint64_t kChunk = uint64_t{1} << 20;
constexpr uint64_t kOverlap = 16;  // so that no window is cut in two

bool is_code_of_a_file(const image::Mapping& mapping) {
  return mapping.execute && mapping.read && !mapping.shared && mapping.inode != 0 &&
         mapping.path.starts_with('/') && !resident::is_session_mapping(mapping);
}

class Comparison {
 public:
  Comparison(const resident::Footprint& session, std::vector<resident::PatchedWindow>& out)
      : session_(session), out_(out) {}

  // `live` and `file`: the bytes at `address`, as they are and as they were.
  void compare(uint64_t address, std::span<const std::byte> live, std::span<const std::byte> file) {
    for (size_t at = 0; at < live.size(); at++) {
      if (live[at] == file[at]) continue;
      const size_t size = arch::kMachine.jump_size;
      // It may begin at a byte that is the same: a call keeps its first one.
      for (size_t start = at < size - 1 ? 0 : at - (size - 1); start <= at && start + size <= live.size();
           start++) {
        auto bytes = live.subspan(start, size);
        if (!leads_inside(address + start, bytes)) continue;
        // A call in the place of a longer one begins with prefixes that are new.
        const size_t before = arch::call_prefixes(live.first(start));
        add(address + start - before, live.subspan(start - before, before + size),
            file.subspan(start - before, before + size));
        at = start + size - 1;
        break;
      }
      look_for_short_jump(address, live, file, at);
    }
  }

  // Short jumps among what differs, now that all relays are known: where they lead is one.
  void add_short_jumps() {
    for (const ShortJump& jump : short_jumps_) {
      auto relay = std::find_if(out_.begin(), out_.end(),
                                [&](const resident::PatchedWindow& w) { return w.address == jump.target; });
      if (relay == out_.end() || relay->patched.size() != arch::kMachine.jump_size) continue;
      relay->part = resident::PatchedWindow::Part::relay;
      out_.push_back(jump.window);
    }
    std::sort(out_.begin(), out_.end(),
              [](const resident::PatchedWindow& a, const resident::PatchedWindow& b) {
                return a.address < b.address;
              });
    out_.erase(std::unique(out_.begin(), out_.end(),
                           [](const resident::PatchedWindow& a, const resident::PatchedWindow& b) {
                             return a.address == b.address;
                           }),
               out_.end());
  }

  // A jump with jumps right behind it may be a host with its relays. Where it is none, nothing is lost by
  // putting them back together.
  void join_hosts() {
    std::vector<resident::PatchedWindow> joined;
    for (resident::PatchedWindow& window : out_) {
      resident::PatchedWindow* before = joined.empty() ? nullptr : &joined.back();
      const bool in_host = before && before->part != resident::PatchedWindow::Part::relay &&
                           is_jump(*before) && is_jump(window) &&
                           before->address + before->patched.size() == window.address &&
                           before->patched.size() <= kMostRelays * arch::kMachine.jump_size;
      if (!in_host) {
        joined.push_back(std::move(window));
        continue;
      }
      before->part = resident::PatchedWindow::Part::host;
      before->original.insert(before->original.end(), window.original.begin(), window.original.end());
      before->patched.insert(before->patched.end(), window.patched.begin(), window.patched.end());
    }
    out_ = std::move(joined);
  }

 private:
  struct ShortJump {
    resident::PatchedWindow window;
    uint64_t target = 0;
  };

  // True when it begins with one.
  static bool is_jump(const resident::PatchedWindow& window) {
    auto target = arch::branch_target(window.address, std::as_bytes(std::span(window.patched)));
    if (!target) return false;
    const arch::Bytes jump = arch::window_jump(window.address, *target);
    return std::equal(jump.begin(), jump.end(), window.patched.begin());
  }

  static resident::PatchedWindow window_of(uint64_t address, std::span<const std::byte> live,
                                           std::span<const std::byte> file) {
    resident::PatchedWindow window;
    window.address = address;
    for (std::byte b : file) window.original.push_back(static_cast<uint8_t>(b));
    for (std::byte b : live) window.patched.push_back(static_cast<uint8_t>(b));
    return window;
  }

  // One of whose bytes the one at `at` is: the first, or the second where that is the same as in the file.
  void look_for_short_jump(uint64_t address, std::span<const std::byte> live, std::span<const std::byte> file,
                           size_t at) {
    const size_t size = arch::kMachine.short_jump_size;
    for (size_t start = at < size - 1 ? 0 : at - (size - 1); start <= at && start + size <= live.size();
         start++) {
      auto target = arch::short_jump_target(address + start, live.subspan(start, size));
      if (target)
        short_jumps_.push_back(
            {window_of(address + start, live.subspan(start, size), file.subspan(start, size)), *target});
    }
  }

  bool leads_inside(uint64_t address, std::span<const std::byte> bytes) const {
    auto target = arch::branch_target(address, bytes);
    return target && std::any_of(session_.mappings.begin(), session_.mappings.end(),
                                 [&](const image::Range& range) { return range.contains(*target); });
  }

  void add(uint64_t address, std::span<const std::byte> live, std::span<const std::byte> file) {
    if (!out_.empty() && out_.back().address >= address) return;  // seen at the end of the chunk before
    out_.push_back(window_of(address, live, file));
  }

  const resident::Footprint& session_;
  std::vector<resident::PatchedWindow>& out_;
  std::vector<ShortJump> short_jumps_;  // that may be ours
};

}  // namespace

Result<void> check_originals(const image::Image& image, const std::vector<resident::PatchedWindow>& windows,
                             const std::vector<resident::PatchedFile>& files, const image::Memory& memory) {
  const resident::FilePlaces places(files, image.mappings);
  std::vector<const resident::PatchedWindow*> sorted;
  for (const resident::PatchedWindow& window : windows)
    if (places.may_be_at(window, memory)) sorted.push_back(&window);
  std::ranges::stable_sort(sorted, {}, &resident::PatchedWindow::address);
  Originals originals(image, &places);
  for (const resident::PatchedWindow* window : sorted) {
    std::vector<uint8_t> in_file(window->original.size());
    if (originals.read(window->address, std::as_writable_bytes(std::span(in_file))) &&
        in_file == window->original)
      continue;
    return Error{fmt::format("the journal in process {} says of the code at {:#x} what its file does not: "
                             "nothing was written; end the process, or start it again",
                             image.pid, window->address),
                 Status::left_inert};
  }
  return {};
}

Result<std::vector<resident::PatchedWindow>> find_windows(const image::Image& image,
                                                          const resident::Footprint& session,
                                                          const image::Memory& memory) {
  std::vector<resident::PatchedWindow> out;
  std::vector<std::byte> live, file;
  Comparison comparison(session, out);
  for (const image::Mapping& mapping : image.mappings) {
    if (!is_code_of_a_file(mapping)) continue;
    for (uint64_t at = mapping.start; at < mapping.end; at += kChunk) {
      const uint64_t size = std::min(mapping.end - at, kChunk + kOverlap);
      live.resize(size), file.resize(size);
      if (!memory.read(at, live)) continue;  // nobody can execute what is not there
      if (auto ok = image::read_mapped(image.pid, mapping, at, file); !ok)
        return Error{fmt::format(
            "the journal in process {} is lost ({}), and whether its code is as it was cannot be told: {}",
            image.pid, session.damage, ok.error().text)};
      comparison.compare(at, live, file);
    }
  }
  comparison.add_short_jumps();
  comparison.join_hosts();
  return out;
}

}  // namespace mdl::patch
