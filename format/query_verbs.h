// The words with which a query begins. mdlc says what each means (compiler/query/check.cpp); mdl-inject tells by them what
// was meant for a query and is none.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace mdl::format {

inline constexpr std::string_view kQueryVerbs[] = {"count", "calls", "sum", "min",  "max",     "avg",
                                                   "hist",  "time",  "cpu", "self", "latency", "bytes"};
constexpr bool is_query_verb(std::string_view word) {
  return std::ranges::find(kQueryVerbs, word) != std::end(kQueryVerbs);
}

}  // namespace mdl::format
