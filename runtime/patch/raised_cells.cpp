#include "runtime/patch/raised_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace mdl::patch {
namespace {

using format::PointKind;

class RaisedCells {
 public:
  RaisedCells(const plan::Plan& plan, const focus::Binding& binding, resident::Journal& journal)
      : plan_(plan), binding_(binding), journal_(journal) {
    for (const focus::Balance& balance : binding.balances) {
      (balance.of_calls ? by_calls_ : by_entries_).insert({balance.function, balance.flag});
      if (!is_kept(balance.flag)) continue;
      resident::RaisedCell& cell = of(balance.flag);
      cell.requests.insert(cell.requests.end(), balance.requests.begin(), balance.requests.end());
    }
  }

  void add(const FunctionPlan& f) {
    for (const FunctionPlan::Point& point : f.points)
      for (const focus::BoundSnippet& snippet : point.snippets) {
        const auto& uses = plan_.stencils[snippet.stencil].info.cells;
        for (size_t i = 0; i < uses.size(); i++)
          if (uses[i].writes && is_kept(snippet.cells[i])) add(f, point.wanted.kind, snippet.cells[i]);
      }
  }

  std::map<const image::Function*, uint32_t> put() {
    for (auto& [id, cell] : cells_) {
      for (std::vector<uint32_t>* list : {&cell.functions, &cell.requests}) {
        std::ranges::sort(*list);
        list->erase(std::unique(list->begin(), list->end()), list->end());
      }
      journal_.raised.push_back(std::move(cell));
    }
    return std::move(functions_);
  }

 private:
  bool is_kept(focus::CellId cell) const { return format::is_raised(binding_.cells[cell].kind); }
  resident::RaisedCell& of(focus::CellId cell) {
    resident::RaisedCell& out = cells_[cell];
    out.cell = cell;
    return out;
  }

  void add(const FunctionPlan& f, PointKind kind, focus::CellId id) {
    const bool at_ends = kind == PointKind::entry || kind == PointKind::return_;
    const bool at_calls = kind == PointKind::call_before || kind == PointKind::call_after;
    const std::pair key{f.function, id};
    resident::RaisedCell& cell = of(id);
    if (!(at_ends && by_entries_.contains(key)) && !(at_calls && by_calls_.contains(key))) {
      cell.tied = false;  // by a loop, a block, between the calls of a timed function
      return;
    }
    cell.moves = cell.moves || (at_ends && jumps_out(*f.code));
    cell.functions.push_back(index(f));
  }

  uint32_t index(const FunctionPlan& f) {
    auto [known, fresh] =
        functions_.try_emplace(f.function, static_cast<uint32_t>(journal_.functions.size()));
    if (fresh)
      journal_.functions.push_back(
          {fmt::format("/Code/{}/{}", f.object->name, f.function->name), f.code->ranges});
    return known->second;
  }

  const plan::Plan& plan_;
  const focus::Binding& binding_;
  resident::Journal& journal_;
  std::set<std::pair<const image::Function*, focus::CellId>> by_entries_, by_calls_;
  std::map<focus::CellId, resident::RaisedCell> cells_;
  std::map<const image::Function*, uint32_t> functions_;  // where they are in the journal
};

bool is_own_code(const image::Code& code, uint64_t address) {
  return std::ranges::any_of(code.ranges, [&](const image::Range& range) { return range.contains(address); });
}

}  // namespace

bool jumps_out(const image::Code& code) {
  if (code.unresolved_jump || !code.complete || !code.doubt.empty()) return true;
  for (const image::Instruction& in : code.instructions) {
    if (!is_own_code(code, in.address)) continue;  // padding
    if ((in.flow == image::Flow::jump || in.flow == image::Flow::branch) && !is_own_code(code, in.target))
      return true;
    if (in.flow != image::Flow::jump_indirect) continue;
    const auto table = std::ranges::find(code.switches, in.address, &image::Switch::jump);
    if (table == code.switches.end() || !table->exact ||
        !std::ranges::all_of(table->targets, [&](uint64_t target) { return is_own_code(code, target); }))
      return true;
  }
  return false;
}

size_t number_words(std::vector<resident::RaisedCell>& cells, size_t first) {
  constexpr size_t kMost = 64;  // functions that are told apart
  size_t next = first;
  for (resident::RaisedCell& cell : cells) {
    if (cell.functions.size() < 2 || cell.functions.size() > kMost) continue;
    cell.words = static_cast<uint32_t>(next);
    next += cell.functions.size();
    cell.words_end = static_cast<uint32_t>(next);
  }
  return next - first;
}

std::map<const image::Function*, uint32_t> describe_raised(const plan::Plan& plan,
                                                           const focus::Binding& binding,
                                                           const Coverage& coverage,
                                                           resident::Journal& journal) {
  RaisedCells cells(plan, binding, journal);
  for (const FunctionPlan& f : coverage.functions)
    if (!f.sites.windows.empty()) cells.add(f);
  return cells.put();
}

}  // namespace mdl::patch
