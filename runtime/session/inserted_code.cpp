#include "runtime/session/inserted_code.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace mdl::inject {

void InsertedCode::add(const patch::Coverage& coverage) {
  for (const patch::FunctionPlan& f : coverage.functions)
    for (const patch::Window& window : f.sites.windows)
      for (const patch::Site& site : window.sites) {
        if (site.again || site.arming == arch::Arming::arm) continue;
        const patch::FunctionPlan::Point& point = f.points[site.point];
        for (const focus::BoundSnippet& snippet : point.snippets)
          for (const uint32_t request : snippet.requests)
            pieces_.push_back({request, snippet.stencil, f.function->address, point.wanted.place, site.kind});
      }
  std::ranges::sort(pieces_);
}

std::optional<uint32_t> InsertedCode::loser(const focus::Binding& after, const patch::Coverage& coverage,
                                            const std::vector<std::optional<uint32_t>>& kept) const {
  std::vector<std::optional<uint32_t>> indices;  // in `after`, by ours
  for (uint32_t i = 0; i < kept.size(); i++) {
    if (!kept[i]) continue;
    if (*kept[i] >= indices.size()) indices.resize(*kept[i] + 1);
    indices[*kept[i]] = i;
  }
  std::vector<Piece> had, lost;
  for (Piece piece : pieces_) {
    if (piece.request >= indices.size() || !indices[piece.request]) continue;
    piece.request = *indices[piece.request];
    had.push_back(piece);
  }
  std::ranges::sort(had);
  InsertedCode has;
  has.add(coverage);
  std::ranges::set_difference(had, has.pieces_, std::back_inserter(lost));
  if (lost.empty()) return std::nullopt;
  std::set<std::pair<uint64_t, format::PointKind>> wanted;
  for (const focus::BoundPoint& point : after.points) wanted.emplace(point.function->address, point.kind);
  for (const Piece& piece : lost)
    if (wanted.contains({piece.function, piece.kind})) return piece.request;
  return std::nullopt;
}

}  // namespace mdl::inject
