#include "mdlc/explain.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/result.h"
#include "compiler/support/diagnostics.h"

namespace mdl::mdlc {
namespace {

struct Explanation {
  Code code;
  const char* text;
};
constexpr Explanation kExplanations[] = {
#define MDL_EXPLAIN(id, text) {Code::id, text},
#include "mdlc/explain.def"
#undef MDL_EXPLAIN
};

}  // namespace

int explain(const std::string& code) {
  for (const Explanation& row : kExplanations) {
    const CodeInfo& about = info(row.code);
    if (about.name != code) continue;
    fmt::print("{}: {}: {}\n\n{}\n", about.name, about.severity == Severity::error ? "error" : "warning",
               about.text, row.text);
    return static_cast<int>(Status::done);
  }
  fmt::print(stderr,
             "mdlc: there is no code '{}'; codes look like E0201 and stand in brackets behind a message\n",
             code);
  return static_cast<int>(Status::usage);
}

}  // namespace mdl::mdlc
