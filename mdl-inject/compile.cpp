#include "mdl-inject/compile.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/installed.h"
#include "base/say.h"
#include "mdl-inject/commands.h"

namespace mdl::inject {
namespace {

// The compiler's path. That beside this program is of the same version.
Result<std::string> find_compiler() {
  constexpr const char* kName = "mdlc";
  std::string path = beside(kName);
  if (access(path.c_str(), X_OK) == 0) return path;
  const char* variable = std::getenv("PATH");
  std::string_view folders = variable == nullptr ? "" : variable;
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folder.size() + 1, folders.size()));
    if (!folder.starts_with('/')) continue;  // not whatever the current folder has
    std::string found = fmt::format("{}/{}", folder, kName);
    if (access(found.c_str(), X_OK) == 0) return found;
  }
  return Error{
      fmt::format("queries and sources are compiled by mdlc, and there is none: neither {} nor on PATH",
                  path.empty() ? "beside mdl-inject" : path)};
}

Result<RunningProgram> start_compiler(const Options& options, const std::string& kind) {
  auto compiler = find_compiler();
  if (!compiler) return compiler.error();
  std::vector<std::string> words = {*compiler, "--emit=" + kind, "-o", "-"};
  if (!options.flavor.empty()) words.push_back("--flavor=" + options.flavor);
  for (const std::string& query : options.typed) words.push_back("--query=" + query);
  for (const std::string& query : options.drill_queries) words.push_back("--query=" + query);
  words.emplace_back("--");
  words.insert(words.end(), options.sources.begin(), options.sources.end());
  // Queries are the operator's own, and need no file; sources may be anybody's, and where nobody else may read.
  return RunningProgram::start(words, options.sources.empty() ? ProgramRights::none : ProgramRights::less);
}

// `bytes by file` names no function, and is about those of all that read and write which there are.
bool names_none(std::string_view query) {
  constexpr std::string_view kVerb = "bytes", kClauses[] = {"by", "if", "within", "as"}, kBlanks = " \t\n";
  if (!query.starts_with(kVerb)) return false;
  query.remove_prefix(std::min(query.size(), query.find_first_not_of(kBlanks, kVerb.size())));
  return std::ranges::find(kClauses, query.substr(0, query.find_first_of(kBlanks))) != std::end(kClauses);
}

}  // namespace

// The metrics of queries are the last ones of the plan, but for those of drills, in their order. From here on each is
// called what was typed, unless the query has a name for it: then that is the display name, too.
Result<void> name_queries(plan::Plan& plan, Options& options) {
  std::vector<format::Metric>& metrics = plan.manifest.metrics;
  const size_t queries = options.typed.size() + options.drill_queries.size();
  if (metrics.size() < queries)
    return Error{"mdlc has made fewer metrics than there are queries: it is of another version",
                 Status::plan_rejected};
  const size_t first = metrics.size() - queries;
  for (size_t i = 0; i < options.typed.size(); ++i) {
    format::Metric& metric = metrics[first + i];
    if (metric.name != metric.id) metric.id = options.typed[i];
    // Where metrics are named, others of the sources are not meant.
    const bool may_be_named = options.sources.empty() || !options.metrics.empty();
    const bool is_open = may_be_named && names_none(options.typed[i]);
    (is_open ? options.metrics : options.queries).push_back(metric.id);
  }
  return {};
}

Result<RunningProgram> start_compiler(const Options& options) {
  return start_compiler(options, "plan");
}

Result<std::string> compiled(RunningProgram& compiler, const Options& options) {
  auto output = compiler.finish();
  if (!output) return output.error();
  if (output->status != 0)
    return Error{options.sources.empty() ? "nothing was changed: the query has no meaning as it is"
                 : options.typed.empty() ? "nothing was changed: the sources have errors"
                                         : "nothing was changed: the queries or the sources have errors"};
  return std::move(output->bytes);
}

int show_mdl(const Options& options) {
  auto compiler = start_compiler(options, "mdl");
  if (!compiler) return fail(compiler.error());
  auto output = compiler->finish();
  if (!output) return fail(output.error());
  say_text(stdout, output->bytes);
  return output->status == 0 ? 0 : static_cast<int>(Status::failed);
}

}  // namespace mdl::inject
