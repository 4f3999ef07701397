// The code that a session has in place, piece by piece: which request runs what at which point.
//
// A change of requests (patch/change.h) may refuse points, but none that a request has which stays. Points that
// were refused before, by the planner, the audit or a thread that stayed inside, are not had, and a point of a
// library that is gone is wanted by nobody any more.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "format/kinds.h"
#include "runtime/patch/coverage.h"

namespace mdl::inject {

class InsertedCode {
 public:
  // What was inserted of a coverage; all coverages have the same requests.
  void add(const patch::Coverage& coverage);

  // A request that `after`, with a coverage of its own binding, would have less code of than it has here.
  // `kept`: by the requests of that binding, which of these it is.
  std::optional<uint32_t> loser(const focus::Binding& after, const patch::Coverage& coverage,
                                const std::vector<std::optional<uint32_t>>& kept) const;

 private:
  // As often as it has sites.
  struct Piece {
    uint32_t request = 0, stencil = 0;
    uint64_t function = 0, place = 0;  // the function's address; as of focus::BoundPoint
    format::PointKind kind = format::PointKind::entry;
    auto operator<=>(const Piece&) const = default;
  };

  std::vector<Piece> pieces_;  // sorted
};

}  // namespace mdl::inject
