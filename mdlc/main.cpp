// mdlc: metric descriptions to a plan. The steps are in compile.cpp; the command line's
// contract is in docs/man/mdlc.1.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/say.h"
#include "mdlc/compile.h"
#include "mdlc/depfile.h"
#include "mdlc/explain.h"
#include "mdlc/fix.h"
#include "mdlc/lsp/server.h"
#include "mdlc/options.h"
#include "mdlc/output.h"
#include "mdlc/reformat.h"
#include "mdlc/report.h"

namespace mdl::mdlc {
namespace {

int finish(const Error& error) {
  say(stderr, "mdlc: {}\n", error.text);
  return static_cast<int>(error.status);
}

bool wants_colour(Colour colour) {
  if (colour != Colour::automatic) return colour == Colour::always;
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  std::string_view terminal = variable("TERM");
  return isatty(STDERR_FILENO) && variable("NO_COLOR").empty() && !terminal.empty() && terminal != "dumb";
}

// Text has colours of its own, and nothing else that a terminal obeys.
std::string render(const Diagnostics& diagnostics, const Sources& sources, const Options& options) {
  switch (options.diagnostics) {
    case Format::json:
      return for_file(STDERR_FILENO, render_json(diagnostics, sources));
    case Format::sarif:
      return for_file(STDERR_FILENO, render_sarif(diagnostics, sources));
    case Format::text:
      break;
  }
  return render_text(diagnostics, sources, {.colour = wants_colour(options.colour)});
}

void report(const Diagnostics& diagnostics, const Sources& sources, const Options& options) {
  std::fputs(render(diagnostics, sources, options).c_str(), stderr);
}

std::string output_path(const Options& options) {
  if (!options.output.empty()) return options.output;
  return options.emit == Emit::plan && !options.cost ? "plan.bin" : "-";
}

Result<void> write_dependencies(const Options& options, const Sources& sources) {
  if (options.dependencies.empty()) return {};
  std::vector<std::string> files;
  const size_t read = options.libraries.size() + options.files.size();  // behind them stand queries
  for (uint32_t i = 0; i < read; i++) files.push_back(sources[i].path());
  return write_output(options.dependencies, dependencies(output_path(options), files));
}

// On a terminal only: in a build, silence is success.
void say_written(const Options& options, const std::string& path, size_t size) {
  if (options.emit != Emit::plan || options.cost || path == "-" || !isatty(STDERR_FILENO)) return;
  say(stderr, "mdlc: wrote {} ({} bytes, for {}): mdl-inject PID {}\n", path, size, options.target->name,
      path.find('/') == path.npos ? "./" + path : path);
}

int run(const Options& options) {
  if (!options.explain.empty()) return explain(options.explain);
  if (options.language_server) return lsp::serve(options, STDIN_FILENO, STDOUT_FILENO);

  Sources sources;
  if (auto read = read_files(options, sources); !read) return finish(read.error());

  Diagnostics diagnostics(options.warnings);
  if (options.reformat) {
    int status = reformat_files(options, diagnostics, sources);
    report(diagnostics, sources, options);
    return status;
  }
  const query::Expansion queries = add_queries(options, sources, diagnostics);
  Result<std::string> bytes = compile(options, sources, queries, diagnostics);
  report(diagnostics, sources, options);
  if (options.apply_fixes)
    if (auto fixed = apply_fixes(diagnostics, sources); !fixed) return finish(fixed.error());
  if (!bytes) return finish(bytes.error());
  if (diagnostics.has_failed()) return static_cast<int>(Status::failed);
  if (auto written = write_dependencies(options, sources); !written) return finish(written.error());
  if (options.check_only) return static_cast<int>(Status::done);

  const std::string path = output_path(options);
  if (auto written = write_output(path, *bytes); !written) return finish(written.error());
  say_written(options, path, bytes->size());
  return static_cast<int>(Status::done);
}

}  // namespace
}  // namespace mdl::mdlc

int main(int argc, char** argv) {
  mdl::mdlc::Parsed parsed = mdl::mdlc::parse_options(argc, argv);
  return parsed.exit ? *parsed.exit : mdl::mdlc::run(parsed.options);
}
