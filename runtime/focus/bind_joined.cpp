#include "runtime/focus/bind_joined.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/plan/join.h"

namespace mdl::focus {
namespace {

// A part's ids and indices, as they are behind those of the parts before it.
class Shift {
 public:
  Shift(const Binding& behind, uint32_t stencils)
      : cells_(static_cast<CellId>(behind.cells.size())),
        requests_(static_cast<uint32_t>(behind.requests.size())),
        tables_(static_cast<uint32_t>(behind.key_tables.size())),
        stencils_(stencils) {}

  uint32_t stencil(uint32_t index) const { return index + stencils_; }
  void cell(CellId& id) const { id += cells_; }
  void request(uint32_t& index) const { index += requests_; }
  void cells(std::vector<CellId>& ids) const {
    std::ranges::for_each(ids, [&](CellId& id) { cell(id); });
  }
  void requests(std::vector<uint32_t>& indices) const {
    std::ranges::for_each(indices, [&](uint32_t& index) { request(index); });
  }
  void tracks(std::vector<TrackedCells>& tracks) const {
    for (TrackedCells& one : tracks) cell(one.flag), cell(one.span), cell(one.base);
  }
  void table(KeyTable& table) const {
    request(table.request);
    cells(table.of);
    cell(table.change), cell(table.keys), cell(table.base);
    if (table.caller) cell(*table.caller);
  }
  void snippet(BoundSnippet& snippet) const {
    snippet.stencil = stencil(snippet.stencil);
    cells(snippet.cells), cells(snippet.guards);
    requests(snippet.requests);
    tracks(snippet.tracks);
    if (snippet.keys != BoundSnippet::kNoTable) snippet.keys += tables_;
  }

 private:
  CellId cells_;
  uint32_t requests_, tables_, stencils_;
};

template <typename List>
void move_behind(List& to, List& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void append_points(Binding& to, std::vector<BoundPoint> points) {
  const auto key = [](const BoundPoint& one) { return std::tuple(one.function, one.kind, one.place); };
  std::map<std::tuple<const image::Function*, format::PointKind, uint64_t>, size_t> known;
  for (size_t i = 0; i < to.points.size(); i++) known.emplace(key(to.points[i]), i);
  for (BoundPoint& point : points)
    if (const auto same = known.find(key(point)); same != known.end())
      move_behind(to.points[same->second].snippets, point.snippets);
    else
      to.points.push_back(std::move(point));
}

bool is_of(const std::string& text, const plan::Part& part) {
  return plan::has_metric(part, split_request(text).metric);
}

// Those of the requests that are the part's.
BindOptions options_of(const plan::Plan& plan, const plan::Part& part, const BindOptions& options) {
  BindOptions out = options;
  const bool is_own = part.tag.empty();
  std::erase_if(out.metrics, [&](const std::string& text) {
    return is_own ? std::ranges::any_of(plan.parts, [&](const auto& one) { return is_of(text, one); })
                  : !is_of(text, part);
  });
  if (is_own) return out;
  out.flavor = part.flavor;
  out.allow_calls = part.allow_calls, out.allow_reads = part.allow_reads;
  return out;
}

}  // namespace

void append(Binding& to, Binding part, uint32_t first_stencil, const std::string& tag) {
  const Shift shift(to, first_stencil);
  for (auto& [stencil, values] : part.symbols) to.symbols.emplace(shift.stencil(stencil), std::move(values));
  for (CellSlot& cell : part.cells) cell.label += tag;
  for (BoundRequest& request : part.requests) {
    shift.cell(request.value);
    if (request.of != BoundRequest::kNone) shift.request(request.of);
  }
  for (BoundPoint& point : part.points)
    for (BoundSnippet& snippet : point.snippets) shift.snippet(snippet);
  for (Balance& balance : part.balances) shift.cell(balance.flag), shift.requests(balance.requests);
  shift.tracks(part.tracks);
  for (KeyTable& table : part.key_tables) shift.table(table);
  append_points(to, std::move(part.points));
  move_behind(to.cells, part.cells);
  move_behind(to.requests, part.requests);
  move_behind(to.balances, part.balances);
  move_behind(to.tracks, part.tracks);
  move_behind(to.key_tables, part.key_tables);
  move_behind(to.lost, part.lost);
  move_behind(to.absent, part.absent);
}

Result<Binding> bind_joined(const plan::Plan& plan, const image::Image& image, const BindOptions& options,
                            image::Codes* codes) {
  Binding out;
  for (const plan::Part& part : plan.parts) {
    const BindOptions own = options_of(plan, part, options);
    if (own.metrics.empty()) continue;
    auto bound = bind(*part.plan, image, own, codes);
    if (bound)
      append(out, std::move(*bound), part.first_stencil, part.tag);
    else if (options.again && !part.tag.empty())
      out.lost.push_back(bound.error().text);  // the others' are measured all the same
    else
      return bound.error();
  }
  return out;
}

}  // namespace mdl::focus
