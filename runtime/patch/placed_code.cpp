#include "runtime/patch/placed_code.h"

#include <algorithm>
#include <optional>

namespace mdl::patch {

PlacedCode::PlacedCode(const InsertInput& input, const Stage& stage)
    : input_(input), stage_(stage), tracks_(input.binding.tracks), endings_(input.plan, input.binding) {
  for (const focus::Balance& balance : input.binding.balances) flags_.emplace(balance.function, balance.flag);
  // As resident code looks for them (resident_deferred.inc): by where the flags lie in a block.
  std::ranges::stable_sort(tracks_, {},
                           [&](const focus::TrackedCells& track) { return stage.layout.cells[track.flag]; });
  for (const focus::TrackedCells& track : tracks_) spans_.emplace(track.span, spans_.size());
}

arch::Track PlacedCode::placed(const focus::TrackedCells& track, uint64_t resident) const {
  const std::vector<uint32_t>& at = stage_.layout.cells;
  arch::Track out{at[track.flag], at[track.span], at[track.base]};
  const focus::CellSlot& base = input_.binding.cells[track.base];
  if (!format::is_timer(base.kind)) return out;
  out.clock = {base.kind, base.event};
  out.routine = resident + arch::span_offset();
  out.entry = resident + arch::span_entry_offset(stage_.layout.timer_cells.size(), spans_.at(track.span));
  return out;
}

std::vector<uint64_t> PlacedCode::tables() const {
  std::vector<uint64_t> out;
  for (const image::Range& table : stage_.tables) out.push_back(table.start);
  return out;
}

bool PlacedCode::is_balanced(const FunctionPlan& f, focus::CellId change) const {
  auto [it, end] = flags_.equal_range(f.function);
  return std::any_of(it, end, [&](const auto& balance) { return balance.second == change; });
}

arch::Keys PlacedCode::placed(const FunctionPlan& f, uint32_t table, uint64_t resident) const {
  const focus::KeyTable& t = input_.binding.key_tables[table];
  const std::vector<uint32_t>& at = stage_.layout.cells;
  std::vector<int64_t> keys;
  for (const focus::CellId key : t.of) keys.push_back(at[key]);
  return {.keys = std::move(keys),
          .change = at[t.change],
          .table = stage_.tables[table].start,
          .routine = resident + arch::keys_offset(),
          .balanced = is_balanced(f, t.change) || t.has_sites(),
          .caller = t.caller ? std::optional<int64_t>(at[*t.caller]) : std::nullopt,
          .amount = t.adds ? std::optional<int64_t>(at[t.base]) : std::nullopt};
}

std::vector<arch::Track> PlacedCode::tracks() const {
  std::vector<arch::Track> out;
  for (const focus::TrackedCells& track : tracks_) out.push_back(placed(track, 0));
  return out;
}

int64_t PlacedCode::anomalies(const FunctionPlan& f, const focus::BoundSnippet& snippet) const {
  const resident::Layout& layout = stage_.layout;
  const auto& uses = input_.plan.stencils[snippet.stencil].info.cells;
  std::optional<focus::CellId> kept;  // the one flag or timer that it changes
  for (size_t i = 0; i < uses.size(); i++) {
    const bool counts = format::is_raised(uses[i].kind);
    if (!uses[i].writes || !counts || kept == snippet.cells[i]) continue;
    if (kept) return kBlockAnomalies;
    kept = snippet.cells[i];
  }
  if (!kept || layout.anomalies == 0) return kBlockAnomalies;
  const auto others = static_cast<int64_t>(layout.anomalies_of(layout.cells[*kept]) + sizeof(uint64_t));
  const std::vector<resident::RaisedCell>& raised = stage_.journal.raised;
  const auto cell = std::ranges::lower_bound(raised, *kept, {}, &resident::RaisedCell::cell);
  const auto function = stage_.functions.find(f.function);
  if (cell == raised.end() || cell->cell != *kept || !cell->words || function == stage_.functions.end())
    return others;
  const auto at = std::ranges::lower_bound(cell->functions, function->second);
  if (at == cell->functions.end() || *at != function->second) return others;
  const auto index = static_cast<uint64_t>(at - cell->functions.begin());
  return static_cast<int64_t>(layout.anomalies + (cell->words + index) * sizeof(uint64_t));
}

std::vector<arch::Piece> PlacedCode::pieces(const FunctionPlan& f, const FunctionPlan::Point& point,
                                            uint64_t resident) const {
  const format::PointKind kind = point.wanted.kind;
  bool raises = kind == format::PointKind::entry || kind == format::PointKind::call_before;
  bool lowers = kind == format::PointKind::return_ || kind == format::PointKind::call_after;
  const auto endings = endings_.of(f, point);
  std::vector<arch::Piece> out;
  for (const focus::BoundSnippet& snippet : point.snippets) {
    arch::Piece piece;
    piece.stencil = &input_.plan.stencils[snippet.stencil];
    for (focus::CellId cell : snippet.cells) piece.cells.push_back(stage_.layout.cells[cell]);
    for (focus::CellId guard : snippet.guards) piece.guards.push_back(stage_.layout.cells[guard]);
    for (const focus::TrackedCells& track : snippet.tracks) piece.tracks.push_back(placed(track, resident));
    if (snippet.keys != focus::BoundSnippet::kNoTable) piece.keys = placed(f, snippet.keys, resident);
    if (const auto& ending = endings[out.size()]; ending && ending->can_wait)
      piece.waits = stage_.layout.cells[ending->cell];
    piece.constants = snippet.constants;
    if (!snippet.requests.empty()) piece.request = snippet.requests.front();
    piece.anomalies = anomalies(f, snippet);
    if (auto symbols = input_.binding.symbols.find(snippet.stencil); symbols != input_.binding.symbols.end())
      piece.symbols = symbols->second;
    for (auto [flag, end] = flags_.equal_range(f.function); flag != end; ++flag)
      if ((raises || lowers) && (!piece.keys || piece.keys->amount) &&
          raises_or_lowers(input_.plan, snippet, flag->second, raises))
        (raises ? piece.raises : piece.lowers)
            .push_back(
                resident::raised_cell(stage_.layout, flag->second, input_.binding.cells[flag->second].kind));
    out.push_back(std::move(piece));
  }
  return out;
}

PointPieces PlacedCode::pieces(const FunctionPlan& f, uint64_t resident) const {
  PointPieces out;
  for (const FunctionPlan::Point& point : f.points) out.push_back(pieces(f, point, resident));
  return out;
}

arch::Bytes PlacedCode::resident_code() const {
  const resident::Layout& layout = stage_.layout;
  arch::ResidentParameters p;
  p.header = stage_.data.start;
  p.directory = stage_.data.start + layout.directory();
  p.directory_bytes = layout.slots * kSlotSize;
  p.overflow_block = stage_.data.start + layout.overflow_block();
  p.ended_block = stage_.data.start + layout.ended_block();
  p.taken_block = stage_.data.start + layout.taken_block();
  p.ring = stage_.data.start + layout.ring();
  p.ring_entries = layout.ended;
  p.stride = layout.stride;
  p.timers = layout.timers, p.calls = layout.calls, p.sums = layout.sums, p.cells_end = layout.cells_end;
  p.extremes_end = layout.extremes_end;
  p.news = stage_.news.start;
  p.thread_at = layout.thread_at;
  if (layout.times_calls) p.running = stage_.data.start + layout.running();
  p.deferred = layout.deferred;
  p.anomalies = layout.anomalies;
  p.hit_time = input_.hit_time;
  p.ticks_per_second = input_.ticks_per_second;
  p.errno_at = input_.errno_at;
  std::vector<arch::TimerClock> clocks;
  const focus::CellSlot spare{.kind = format::CellKind::wall_timer, .label = {}};
  for (focus::CellId cell : layout.timer_cells) {
    const focus::CellSlot& slot = cell == resident::kSpareCell ? spare : input_.binding.cells[cell];
    clocks.push_back({slot.kind, slot.event});
  }
  return arch::resident_code(p, clocks, tracks(), tables());
}

}  // namespace mdl::patch
