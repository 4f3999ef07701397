// mdlc: metric descriptions to a plan. The steps are in compile.cpp; the command line's
// contract is in docs/man/mdlc.1.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "mdlc/compile.h"
#include "mdlc/explain.h"
#include "mdlc/options.h"
#include "mdlc/output.h"
#include "mdlc/report.h"

namespace mdl::mdlc {
namespace {

int finish(const Error& error) {
  fmt::print(stderr, "mdlc: {}\n", error.text);
  return static_cast<int>(error.status);
}

bool wants_colour() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) && !std::getenv("NO_COLOR") && terminal && std::string(terminal) != "dumb";
}

std::string render(const Diagnostics& diagnostics, const Sources& sources, Format format) {
  switch (format) {
    case Format::json:
      return render_json(diagnostics, sources);
    case Format::sarif:
      return render_sarif(diagnostics, sources);
    case Format::text:
      break;
  }
  return render_text(diagnostics, sources, {.colour = wants_colour()});
}

std::string output_path(const Options& options) {
  if (!options.output.empty()) return options.output;
  return options.emit == Emit::plan ? "plan.bin" : "-";
}

int run(const Options& options) {
  if (!options.explain.empty()) return explain(options.explain);

  Sources sources;
  if (auto read = read_files(options, sources); !read) return finish(read.error());

  Diagnostics diagnostics(options.warnings_are_errors);
  Result<std::string> bytes = compile(options, sources, diagnostics);
  std::fputs(render(diagnostics, sources, options.diagnostics).c_str(), stderr);
  if (!bytes) return finish(bytes.error());
  if (diagnostics.has_errors()) return static_cast<int>(Status::failed);
  if (options.check_only) return static_cast<int>(Status::done);

  if (auto written = write_output(output_path(options), *bytes); !written) return finish(written.error());
  return static_cast<int>(Status::done);
}

}  // namespace
}  // namespace mdl::mdlc

int main(int argc, char** argv) {
  mdl::mdlc::Parsed parsed = mdl::mdlc::parse_options(argc, argv);
  return parsed.exit ? *parsed.exit : mdl::mdlc::run(parsed.options);
}
