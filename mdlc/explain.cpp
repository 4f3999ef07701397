#include "mdlc/explain.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/result.h"
#include "base/say.h"
#include "compiler/support/diagnostics.h"

namespace mdl::mdlc {
namespace {

struct Explanation {
  DiagnosticCode code;
  const char* text;
};
constexpr Explanation kExplanations[] = {
#define MDL_EXPLAIN(id, text) {DiagnosticCode::id, text},
#include "mdlc/explain.def"
#undef MDL_EXPLAIN
};

}  // namespace

int explain(const std::string& code) {
  for (const Explanation& row : kExplanations) {
    const CodeInfo& about = info(row.code);
    bool warning = about.severity == Severity::warning;
    if (about.name != code && !(warning && warning_name(row.code) == code)) continue;
    const std::string kind = warning ? fmt::format("warning (-W{})", warning_name(row.code)) : "error";
    say_text(stdout, fmt::format("{}: {}: {}\n\n{}\n", about.name, kind, about.text, row.text));
    return static_cast<int>(Status::done);
  }
  say(stderr,
      "mdlc: there is no code or warning '{}'; codes look like E0201, names like set-flag, and both stand "
      "in brackets behind a message\n",
      code);
  return static_cast<int>(Status::usage);
}

}  // namespace mdl::mdlc
