#include "runtime/patch/change.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "runtime/focus/continuation.h"
#include "runtime/patch/commit.h"
#include "runtime/patch/extend.h"
#include "runtime/patch/reach.h"
#include "runtime/patch/transaction.h"
#include "runtime/process/lock.h"
#include "runtime/resident/footprint.h"
#include "runtime/resident/spare_cells.h"

namespace mdl::patch {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

bool meet(const image::Range& one, const image::Range& other) {
  return one.start < other.end && other.start < one.end;
}

// What `ranges` have in common with none of `stay`.
std::vector<image::Range> rest_of(std::vector<image::Range> ranges, const std::vector<image::Range>& stay) {
  for (const image::Range& one : stay) {
    std::vector<image::Range> rest;
    for (const image::Range& range : ranges) {
      if (!meet(range, one)) rest.push_back(range);
      if (!meet(range, one)) continue;
      if (range.start < one.start) rest.push_back({range.start, one.start});
      if (one.end < range.end) rest.push_back({one.end, range.end});
    }
    ranges = std::move(rest);
  }
  return ranges;
}

// The memory of a session that only its code of before needs, whose data stay.
std::vector<image::Range> old_code(const std::vector<image::Mapping>& mappings,
                                   const resident::Journal& session, const Stage& stage) {
  std::vector<image::Range> stay = {session.data, session.news, session.armed, stage.journal_at};
  stay.insert(stay.end(), stage.islands.begin(), stage.islands.end());
  for (const ReusedStubs& reused : stage.reused) stay.push_back(reused.at);
  std::vector<image::Range> out;
  for (const image::Mapping& mapping : mappings)
    if (resident::is_session_mapping(mapping) && !mapping.write) out.push_back({mapping.start, mapping.end});
  return rest_of(std::move(out), stay);
}

// The tables of keyed requests. Those that stay have them, with the same cells; others get one.
std::vector<std::optional<resident::JournalTable>> tables_of(const resident::Journal& session,
                                                             const focus::Binding& binding) {
  std::vector<std::optional<resident::JournalTable>> out;
  for (const focus::KeyTable& table : binding.key_tables) {
    const focus::BoundRequest& request = binding.requests[table.request];
    const auto known = std::ranges::find_if(session.tables, [&](const resident::JournalTable& one) {
      const resident::JournalRequest& of = session.requests[one.request];
      return of.metric == request.metric && of.focus == request.focus;
    });
    out.emplace_back();
    if (known == session.tables.end()) continue;
    out.back() = *known;
    out.back()->request = table.request;
  }
  return out;
}

// The tables of requests that go.
std::vector<image::Range> old_tables(const resident::Journal& session, const Stage& stage) {
  std::vector<image::Range> out;
  for (const resident::JournalTable& table : session.tables)
    if (std::ranges::find(stage.tables, table.at.start, &image::Range::start) == stage.tables.end())
      out.push_back(table.at);
  return out;
}

// Some thread is in a function to which another one has jumped, whose flag or timer ends with it: it is known
// by the place of its cell.
bool something_waits(const resident::Journal& session, const image::Memory& memory) {
  const resident::Layout& layout = session.layout;
  std::vector<uint64_t> directory(layout.slots * 2);
  if (!memory.read(session.data.start + layout.directory(), std::as_writable_bytes(std::span(directory))))
    return true;
  for (uint64_t slot = 0; slot < layout.slots; slot++) {
    uint64_t depth = 0;
    if (directory[slot * 2] == 0) continue;
    if (!memory.read(session.data.start + layout.block(slot) + kBlockDeferred,
                     std::as_writable_bytes(std::span(&depth, 1))) ||
        depth != 0)
      return true;
  }
  return false;
}

}  // namespace

Result<Continuation> continue_cells(const resident::Journal& session, const focus::Binding& binding,
                                    std::span<const std::optional<uint32_t>> kept) {
  Continuation out;
  out.successor.tables = tables_of(session, binding);
  auto layout = resident::change_cells(session.layout, session.kinds, binding.cells, kept);
  if (!layout) return layout.error();
  out.successor.layout = std::move(*layout);
  std::vector<bool> stays(session.kinds.size());
  for (const std::optional<uint32_t>& cell : kept) {
    out.fresh.push_back(!cell);
    if (cell) stays[*cell] = true;
  }
  const auto append = [&](std::vector<image::Range>& to, uint32_t offset, format::CellKind kind) {
    for (const image::Range& words : resident::words_of(session.layout, offset, kind)) to.push_back(words);
  };
  for (size_t i = 0; i < stays.size(); i++) {
    if (stays[i]) continue;
    append(out.cleared, session.layout.cells[i], session.kinds[i]);
    out.lowers = out.lowers || format::is_raised(session.kinds[i]);
  }
  for (size_t i = 0; i < kept.size(); i++)
    if (!kept[i]) {
      append(out.begun, out.successor.layout.cells[i], binding.cells[i].kind);
      if (binding.cells[i].kind == format::CellKind::entries)
        out.begun_entries.push_back(out.successor.layout.cells[i]);
    }
  return out;
}

OriginalMemory::OriginalMemory(const image::Memory& live, const resident::Journal& session,
                               const std::vector<image::Mapping>& mappings)
    : live_(live) {
  const resident::FilePlaces places(session.files, mappings);
  for (const resident::PatchedWindow& window : session.windows)
    if (places.is_still_there(window.address)) windows_.push_back(&window);
  std::ranges::sort(windows_, {}, &resident::PatchedWindow::address);
}

bool OriginalMemory::read(uint64_t address, std::span<std::byte> into) const {
  if (!live_.read(address, into)) return false;
  const uint64_t longest = 64;  // no window has so many bytes
  auto window = std::ranges::lower_bound(windows_, address < longest ? 0 : address - longest, {},
                                         &resident::PatchedWindow::address);
  for (; window != windows_.end() && (*window)->address < address + into.size(); ++window)
    for (size_t i = 0; i < (*window)->original.size(); i++)
      if (const uint64_t at = (*window)->address + i; at >= address && at - address < into.size())
        into[at - address] = std::byte{(*window)->original[i]};
  return true;
}

std::vector<image::Range> stub_pages(const resident::Journal& session,
                                     const std::vector<image::Mapping>& mappings) {
  std::vector<image::Range> out;
  for (const image::Mapping& mapping : mappings) {
    if (!resident::is_session_mapping(mapping) || !mapping.execute) continue;
    for (const image::Range& one : session.stubs)
      if (meet(one, {mapping.start, mapping.end}))
        out.push_back({std::max(one.start, mapping.start), std::min(one.end, mapping.end)});
  }
  return out;
}

Result<Inserted> change(const InsertInput& input, const process::TargetMemory& memory,
                        const resident::Journal& session, const Continuation& cells,
                        const ChangeSteps& steps) {
  const Clock::time_point begun = Clock::now();
  auto lock = process::TransactionLock::take(input.image.pid, 2s);
  if (!lock) return lock.error();
  if (!resident::is_in_place(session, memory))
    return Error{
        fmt::format("another mdl-inject has removed the instrumentation of process {}", input.image.pid)};
  auto mappings = image::read_maps(input.image.pid);
  if (!mappings) return mappings.error();
  const OriginalMemory original(memory, session, *mappings);
  Successor successor = cells.successor;
  successor.stubs = stub_pages(session, *mappings);
  Inserted out;
  const auto commit_change = [&](Stage& stage) {
    const Replaced replaced{
        .session = session,
        .old_code =
            [&](const std::vector<image::Mapping>& mappings) { return old_code(mappings, session, stage); },
        .first_look = [&]() -> Result<bool> {
          if (cells.lowers && something_waits(session, memory)) return false;
          if (auto ok = steps.read_last(); !ok) return ok.error();
          auto forgotten =
              resident::forget_calls(session.layout, session.data.start, cells.begun_entries, memory);
          if (!forgotten) return forgotten.error();
          return true;
        },
        .last_look =
            [&] { return resident::clear_words(session.layout, session.data.start, cells.cleared, memory); },
        .old_tables = old_tables(session, stage)};
    return commit(input, memory, stage, out, &replaced);
  };
  auto stage = put_in(
      input, memory,
      {.session = &session,
       .check = [&](const std::vector<image::Mapping>&) { return steps.goes_on(); },
       .successor = &successor,
       .original = &original,
       .commit = commit_change,
       .check_coverage = [&]() -> Result<void> {
         if (auto ok = steps.goes_on(); !ok) return ok;
         return steps.check_coverage();
       }},
      out, [&](Stage& failed, const Error& why) {
        if (failed.code_written) return why;  // some of it may be in use
        std::vector<image::Range> mapped = failed.islands;
        mapped.push_back(failed.journal_at);  // before the tables that it names
        if (failed.new_armed) mapped.push_back(failed.armed);
        for (const NewTable& table : failed.new_tables) mapped.push_back(table.at);
        (void)give_back(mapped, input.image, memory);
        // Threads may have been counted as being inside already.
        (void)resident::clear_words(session.layout, session.data.start, cells.begun, memory).operator bool();
        return why;
      });
  if (!stage) return stage.error();
  out.journal = std::move(stage->journal);
  note_losses(input.plan, input.binding, input.coverage, out.journal);
  out.journal.ends_deferred = ends_deferred(input.coverage);
  out.took = Clock::now() - begun;
  return out;
}

}  // namespace mdl::patch
