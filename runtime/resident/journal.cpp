#include "runtime/resident/journal.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <utility>

#include "runtime/arch/description.h"
#include "runtime/arch/windows.h"

namespace mdl::resident {
namespace {

void join(std::vector<uint32_t>& list, const std::vector<uint32_t>& more, size_t first) {
  for (const uint32_t index : more) list.push_back(static_cast<uint32_t>(first + index));
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

void absorb_raised(Journal& session, const Journal& extension) {
  const size_t first = session.functions.size();
  session.functions.insert(session.functions.end(), extension.functions.begin(), extension.functions.end());
  for (const RaisedCell& more : extension.raised) {
    auto known = std::ranges::find(session.raised, more.cell, &RaisedCell::cell);
    if (known == session.raised.end())
      known = session.raised.insert(known, RaisedCell{more.cell, more.tied, more.moves, {}, {}});
    known->tied = known->tied && more.tied;
    known->moves = known->moves || more.moves;
    join(known->functions, more.functions, first);
    join(known->requests, more.requests, 0);
  }
}

const image::Mapping* mapping_of(const std::vector<image::Mapping>& mappings, uint64_t address) {
  auto after = std::upper_bound(mappings.begin(), mappings.end(), address,
                                [](uint64_t value, const image::Mapping& one) { return value < one.start; });
  return after != mappings.begin() && address < std::prev(after)->end ? &*std::prev(after) : nullptr;
}

}  // namespace

std::vector<Relay> relays_of(const PatchedWindow& window) {
  std::vector<Relay> out;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(window.patched));
  for (size_t at = window.part == PatchedWindow::Part::host ? arch::kMachine.jump_size : 0;
       window.part != PatchedWindow::Part::window && at < bytes.size(); at += arch::kMachine.jump_size) {
    auto target = arch::branch_target(window.address + at, bytes.subspan(at));
    if (!target) return {};
    out.push_back({window.address + at, *target});
  }
  return out;
}

std::vector<uint64_t> relay_places(const std::vector<PatchedWindow>& windows) {
  std::vector<uint64_t> out;
  for (const PatchedWindow& window : windows)
    for (const Relay& relay : relays_of(window)) out.push_back(relay.at);
  std::sort(out.begin(), out.end());
  return out;
}

std::string began_text(const Journal& journal) {
  const auto began =
      std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(journal.started_ns)));
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(began));
}

std::string requests_text(const Journal& journal, size_t most) {
  std::string out;
  size_t named = 0, more = 0;
  for (const JournalRequest& one : journal.requests) {
    if (one.of != focus::BoundRequest::kNone) continue;  // of a request with `*`
    if (named == most) {
      more++;
      continue;
    }
    out += (named++ == 0 ? "" : ", ") + focus::request_text(one.metric, one.focus);
  }
  return more == 0 ? out : fmt::format("{} and {} more", out, more);
}

void absorb(Journal& session, const Journal& extension) {
  auto replaced = [&](uint64_t address) {
    return std::any_of(extension.files.begin(), extension.files.end(),
                       [&](const PatchedFile& file) { return file.at.contains(address); });
  };
  std::erase_if(session.windows, [&](const PatchedWindow& window) { return replaced(window.address); });
  std::erase_if(session.files, [&](const PatchedFile& file) { return replaced(file.at.start); });
  session.windows.insert(session.windows.end(), extension.windows.begin(), extension.windows.end());
  session.files.insert(session.files.end(), extension.files.begin(), extension.files.end());
  session.stubs.insert(session.stubs.end(), extension.stubs.begin(), extension.stubs.end());
  session.points += extension.points;
  absorb_raised(session, extension);
}

std::vector<PatchedFile> files_at(const std::vector<image::Mapping>& mappings,
                                  const std::vector<PatchedWindow>& windows) {
  std::vector<PatchedFile> out;
  for (const PatchedWindow& window : windows) {  // by address, as the mappings
    if (!out.empty() && out.back().at.contains(window.address)) continue;
    if (const image::Mapping* mapping = mapping_of(mappings, window.address))
      out.push_back({{mapping->start, mapping->end}, mapping->device, mapping->inode, mapping->offset});
  }
  return out;
}

FilePlaces::FilePlaces(std::vector<PatchedFile> files, const std::vector<image::Mapping>& mappings)
    : mappings_(mappings) {
  std::map<std::pair<uint64_t, uint64_t>, const image::Mapping*> mapped;  // by device and inode
  for (const image::Mapping& one : mappings) mapped.try_emplace({one.device, one.inode}, &one);
  std::ranges::stable_sort(files, {}, [](const PatchedFile& file) { return file.at.start; });
  for (const PatchedFile& file : files) {
    const auto found = mapped.find({file.device, file.inode});
    places_.push_back({file, found == mapped.end() ? nullptr : found->second});
  }
}

const FilePlaces::Place* FilePlaces::place_of(uint64_t address) const {
  const auto after =
      std::ranges::upper_bound(places_, address, {}, [](const Place& place) { return place.file.at.start; });
  return after != places_.begin() && std::prev(after)->file.at.contains(address) ? &*std::prev(after)
                                                                                 : nullptr;
}

bool FilePlaces::is_still_there(uint64_t address) const {
  const Place* place = place_of(address);
  const image::Mapping* mapping = mapping_of(mappings_, address);
  return place && mapping && mapping->device == place->file.device && mapping->inode == place->file.inode;
}

const image::Mapping* FilePlaces::any_mapping_of(uint64_t address) const {
  const Place* place = place_of(address);
  return place ? place->mapping : nullptr;
}

bool FilePlaces::is_copied(const PatchedWindow& window, const image::Memory& memory) const {
  const image::Mapping* mapping = mapping_of(mappings_, window.address);
  if (!any_mapping_of(window.address) || !mapping || !mapping->execute) return false;
  std::vector<uint8_t> now(window.patched.size());
  return memory.read(window.address, std::as_writable_bytes(std::span(now))) && now == window.patched;
}

bool is_sound(const Journal& journal) {
  return std::ranges::all_of(journal.raised, [&](const RaisedCell& cell) {
    return cell.cell < journal.kinds.size() && format::is_raised(journal.kinds[cell.cell]) &&
           std::ranges::all_of(cell.requests,
                               [&](uint32_t request) { return request < journal.requests.size(); });
  });
}

bool is_in_place(const Journal& journal, const image::Memory& memory) {
  std::vector<std::byte> head(kJournalHead);
  return memory.read(journal.at.start, head) && head == journal.head;
}

}  // namespace mdl::resident
