// Queries to the MDL that they stand for, as text: what `mdlc --emit=mdl` shows is what is compiled, so that it can be
// kept and compiled by itself.
//
// Each query becomes one metric, with the lists that it needs. Functions are visited by `foreach`, in one value; where a
// value for each is asked for (`/Code/OBJECT/*`), an in-line constraint replaces the base, and the metric's focus says
// for which functions. `within` counts active calls in a flag of the metric, so it needs no constraint and takes a
// function by its name.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ast/query.h"
#include "compiler/support/diagnostics.h"

namespace mdl::query {

// A part of the MDL, and the part of a query that it was made of.
struct Passage {
  uint32_t begin = 0, end = 0;  // in the MDL
  Span origin;
  bool verbatim = false;  // byte for byte; else the whole of it stands for the whole of the origin
};

struct Expansion {
  std::string mdl;
  std::vector<Passage> passages;  // in order

  // Where a place of the MDL comes from: the smallest part of a query that is known.
  Span origin(Span in_mdl) const;
};

// Precondition: the queries are trees of parse_query(), and their sources have the ordinals that the spans say. With
// errors, which are reported, the text must not be used. `flavor`: of the metrics; "" = unix.
Expansion expand(std::vector<ast::Query> queries, const std::vector<const Source*>& texts,
                 std::string_view flavor, Diagnostics& diagnostics);

}  // namespace mdl::query
