#include "mdl-inject/plan_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <utility>

#include "base/guarded_path.h"
#include "base/installed.h"
#include "mdl-inject/compile.h"
#include "mdl-inject/drill_queries.h"
#include "mdl-inject/wrong_words.h"
#include "runtime/plan/object_file.h"

namespace mdl::inject {

Result<PlanFile> open_plan_file(Options& options) {
  PlanFile out;
  out.is_compiled = !options.typed.empty() || !options.sources.empty();
  if (out.is_compiled) {
    auto compiler = start_compiler(options);
    if (!compiler) return compiler.error();
    out.compiler.emplace(std::move(*compiler));
    options.plan = !options.sources.empty() ? options.sources[0] : "the query";
  } else {
    auto bytes = plan::read_plan_bytes(options.plan);
    if (!bytes) {
      Error error = bytes.error();
      const std::string meant = access(options.plan.c_str(), F_OK) == 0 ? "" : no_such_plan(options.plan);
      if (!meant.empty()) error.text += "; " + meant;
      return error;
    }
    out.bytes = std::move(*bytes);
    options.standard_plan = is_installed_plan(options.plan);
  }
  if (!options.trusted) return out;
  auto trusted = format::read_trusted_keys(*options.trusted);
  if (!trusted) return trusted.error();
  out.trusted = std::move(*trusted);
  return out;
}

Result<plan::Plan> parse_plan(PlanFile& file, Options& options) {
  if (file.compiler) {
    auto bytes = compiled(*file.compiler, options);
    file.compiler.reset();
    if (!bytes) return bytes.error();
    file.bytes = std::move(*bytes);
  }
  auto plan = plan::read_plan(std::as_bytes(std::span(file.bytes)));
  if (!plan) return Error{fmt::format("{}: {}", options.plan, plan.error().text), plan.error().status};
  if (!file.is_compiled) return plan;
  if (auto ok = name_queries(*plan, options); !ok) return ok.error();
  name_drills(*plan, options);
  return plan;
}

bool is_installed_plan(const std::string& path) {
  namespace fs = std::filesystem;
  // A symbolic link of somebody else could mean another file later.
  if (fs::path(path).parent_path() != installed("plans")) return false;
  const auto real = guarded_path(path);
  return real && *real == path;
}

}  // namespace mdl::inject
