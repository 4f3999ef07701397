#include "mdl-inject/consent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "base/guarded_path.h"
#include "base/installed.h"
#include "base/say.h"
#include "mdl-inject/origin.h"

namespace mdl::inject {

bool is_installed_plan(const std::string& path) {
  namespace fs = std::filesystem;
  // A symbolic link of somebody else could mean another file later.
  if (fs::path(path).parent_path() != installed("plans")) return false;
  const auto real = guarded_path(path);
  return real && *real == path;
}

Result<void> apply_consent(const plan::Plan& plan, Options& options) {
  options.allow_reads = options.allow_reads || is_installed_plan(options.plan);
  const bool own_command = options.start && options.run.empty() && plan.manifest.processes.size() == 1;
  if (!own_command || options.allow_command) return {};
  const format::ProcessDefinition& process = plan.manifest.processes[0];
  return Error{
      fmt::format("{0} wants to start its own command: {1}{2}: allow that with --allow-command, or write the "
                  "command behind "
                  "the plan: -- {1}",
                  options.plan, process.command,
                  process.directory.empty() ? "" : fmt::format(" (in {})", process.directory))};
}

Result<void> admit(const plan::Plan& plan, const Policy& policy, Options& options) {
  if (auto ok = apply_policy(policy, plan, options); !ok) return ok;
  if (auto ok = check_origin(plan, options.plan, options.trusted); !ok) return ok.error();
  // Who types an address to read has agreed to it, unless somebody else has to.
  options.allow_reads = options.allow_reads || (options.is_query() && !policy.signed_only);
  return apply_consent(plan, options);
}

void print_capabilities(std::FILE* out, const plan::Plan& plan, const std::string& path) {
  const plan::Capabilities can = plan::capabilities(plan);
  const auto line = [&](const std::vector<std::string>& names, std::string_view what) {
    if (!names.empty()) say(out, "{}: {}\n", what, fmt::join(names, ", "));
  };
  line(can.reads, is_installed_plan(path) ? "reads memory at addresses that it computes (a standard plan may)"
                                          : "reads memory at addresses that it computes (--allow-reads)");
  line(can.calls, "calls functions of the application (--allow-calls)");
  line(can.commands, "starts a command (--allow-command)");
  line(can.variables, "reads variables of the application");
  line(can.keys, "lists what it finds at run time, by constraint");
}

}  // namespace mdl::inject
