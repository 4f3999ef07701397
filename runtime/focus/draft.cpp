#include "runtime/focus/draft.h"

#include <fmt/format.h>

#include <algorithm>

namespace mdl::focus {

Error too_much() {
  return {fmt::format(
      "these requests need more than {} pieces of code in the process; ask for fewer metrics or by a "
      "narrower pattern, such as /Code/app/get*; a query with `by function` has its code once, and a "
      "line for each function that is called",
      kMostSnippets)};
}

CellId Draft::cell(const format::Cell& cell, std::string label) {
  binding_.cells.push_back(
      {cell.kind, std::move(label), format::event(cell.event).value_or(format::Event::minor_faults)});
  return static_cast<CellId>(binding_.cells.size() - 1);
}

size_t Draft::point(const Insertion& insertion) {
  const auto [slot, fresh] =
      points_.try_emplace({insertion.at.function, insertion.kind, insertion.place}, binding_.points.size());
  if (fresh) {
    binding_.points.push_back(
        {insertion.at.object, insertion.at.function, insertion.kind, insertion.place, {}});
    pieces_.emplace_back();
  }
  return slot->second;
}

Result<void> Draft::lay(const std::vector<Insertion>& code, const Cells& cells,
                        const std::vector<CellId>& guards, size_t instance, std::optional<uint32_t> request) {
  laid_ += code.size();
  if (laid_ > kMostSnippets || binding_.cells.size() > kMostSnippets) return too_much();
  for (const Insertion& insertion : code) {
    const format::StencilInfo& info = plan_.stencils[insertion.stencil].info;
    Piece piece;
    piece.instance = instance;
    piece.snippet.stencil = insertion.stencil;
    for (const format::CellUse& use : info.cells) {
      const auto known =
          std::find_if(cells.begin(), cells.end(), [&](const auto& c) { return c.first == use.name; });
      if (known == cells.end())
        return Error{
            fmt::format("stencil `{}` uses `{}`, which its owner does not have", info.name, use.name),
            Status::plan_rejected};
      piece.snippet.cells.push_back(known->second);
    }
    if (insertion.constrained) piece.snippet.guards = guards;
    piece.snippet.constants = insertion.constants;
    piece.snippet.obstacle = insertion.obstacle;
    if (request) piece.snippet.requests = {*request};
    if (insertion.kind == format::PointKind::every) {
      if (instance != kNoInstance)
        return Error{"code at $points belongs to a constraint, and can only be a metric's",
                     Status::plan_rejected};
      every_.push_back({std::move(piece.snippet), insertion.order});
      continue;
    }
    const size_t at = point(insertion);
    if (instance != kNoInstance) instances_[instance].points.push_back(at);
    std::vector<Piece>& there = pieces_[at];
    there.insert(insertion.order == format::Order::append ? there.end() : there.begin(), std::move(piece));
  }
  return {};
}

std::vector<size_t> Draft::balance(const std::vector<Insertion>& code, const format::Cell& cell, CellId id,
                                   uint32_t request) {
  struct Sides {
    bool entry = false, exit = false, before = false, after = false;
  };
  std::unordered_map<const image::Function*, Sides> sides;
  std::vector<const image::Function*> order;
  for (const Insertion& insertion : code) {
    const bool raises =
        insertion.kind == format::PointKind::entry || insertion.kind == format::PointKind::call_before;
    const auto& uses = plan_.stencils[insertion.stencil].info.cells;
    if (std::none_of(uses.begin(), uses.end(), [&](const format::CellUse& use) {
          return use.writes && use.name == cell.name &&
                 (!format::is_timer(cell.kind) || use.starts == raises);
        }))
      continue;
    const auto [slot, fresh] = sides.try_emplace(insertion.at.function);
    if (fresh) order.push_back(insertion.at.function);
    slot->second.entry |= insertion.kind == format::PointKind::entry;
    slot->second.exit |= insertion.kind == format::PointKind::return_;
    slot->second.before |= insertion.kind == format::PointKind::call_before;
    slot->second.after |= insertion.kind == format::PointKind::call_after;
  }
  std::vector<size_t> made;
  auto add = [&](const image::Function* function, bool of_calls) {
    made.push_back(binding_.balances.size());
    binding_.balances.push_back({function, id, of_calls, {request}});
  };
  for (const image::Function* function : order) {
    const Sides& has = sides[function];
    if (has.entry && has.exit) add(function, false);
    if (has.before && has.after) add(function, true);
  }
  return made;
}

void Draft::share(size_t index, uint32_t request) {
  const Instance& instance = instances_[index];
  for (const size_t at : instance.points)
    for (Piece& piece : pieces_[at])
      if (piece.instance == index && piece.snippet.requests.back() != request)
        piece.snippet.requests.push_back(request);
  for (const size_t at : instance.balances) binding_.balances[at].requests.push_back(request);
}

void Draft::share_code(uint32_t first, uint32_t request) {
  const auto join = [&](std::vector<uint32_t>& requests) {
    if (std::find(requests.begin(), requests.end(), first) != requests.end()) requests.push_back(request);
  };
  for (auto& pieces : pieces_)
    for (Piece& piece : pieces) join(piece.snippet.requests);
  for (EverySnippet& one : every_) join(one.snippet.requests);
  for (Balance& balance : binding_.balances) join(balance.requests);
}

void Draft::track(size_t index, const TrackedCells& track) {
  binding_.tracks.push_back(track);
  size_t done = SIZE_MAX;
  for (const size_t at : instances_[index].points) {
    if (at == done) continue;  // several pieces at one point stand in a row in `points`
    done = at;
    for (Piece& piece : pieces_[at]) {
      if (piece.instance != index) continue;
      const auto& uses = plan_.stencils[piece.snippet.stencil].info.cells;
      for (size_t i = 0; i < uses.size(); ++i)
        if (uses[i].writes && piece.snippet.cells[i] == track.flag) {
          auto& tracks = piece.snippet.tracks;
          if (tracks.empty() || tracks.back().span != track.span) tracks.push_back(track);
        }
    }
  }
}

void Draft::change_keys(size_t index, uint32_t table) {
  const KeyTable& keys = binding_.key_tables[table];
  for (const size_t at : instances_[index].points)
    for (Piece& piece : pieces_[at]) {
      const auto& uses = plan_.stencils[piece.snippet.stencil].info.cells;
      for (size_t i = 0; i < uses.size(); ++i)
        if (piece.instance == index && uses[i].writes && piece.snippet.cells[i] == keys.change)
          piece.snippet.keys = table, piece.snippet.texts = format::texts_of(keys.names);
    }
}

Binding Draft::take() {
  for (size_t i = 0; i < pieces_.size(); ++i)
    for (Piece& piece : pieces_[i]) binding_.points[i].snippets.push_back(std::move(piece.snippet));
  return std::move(binding_);
}

}  // namespace mdl::focus
