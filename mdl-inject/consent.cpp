#include "mdl-inject/consent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/say.h"
#include "mdl-inject/origin.h"
#include "runtime/plan/object_file.h"

namespace mdl::inject {

Result<void> apply_consent(const plan::Plan& plan, Options& options) {
  options.allow_reads = options.allow_reads || options.standard_plan;
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

Result<void> admit(const plan::Plan& plan, const PlanFile& file, const Policy& policy, Options& options) {
  if (auto ok = apply_policy(policy, plan, options); !ok) return ok;
  if (auto ok = check_origin(plan, file, options); !ok) return ok.error();
  // Who types an address to read has agreed to it, unless somebody else has to.
  options.allow_reads = options.allow_reads || (options.is_query() && !policy.signed_only);
  return apply_consent(plan, options);
}

// The option allows it for any plan. A key of the policy does so for its own, so only there the object is read for its
// signature.
bool may_start_own_command(const PlanFile& file, const Policy& policy, const Options& options) {
  if (!options.start || !options.run.empty()) return false;
  if (options.allow_command) return true;
  if (std::ranges::none_of(policy.keys, &PolicyKey::command)) return false;
  const auto object = plan::read_object(std::as_bytes(std::span(file.bytes)));
  if (!object) return false;
  plan::Plan known;
  known.checksum = object->checksum, known.signer = object->signer;
  const PolicyKey* key = policy.key_of(known);
  return key && key->command && check_signature(policy, known, options);
}

void print_capabilities(std::FILE* out, const plan::Plan& plan, bool is_standard) {
  const plan::Capabilities can = plan::capabilities(plan);
  const auto line = [&](const std::vector<std::string>& names, std::string_view what) {
    if (!names.empty()) say(out, "{}: {}\n", what, fmt::join(names, ", "));
  };
  line(can.reads, is_standard ? "reads memory at addresses that it computes (a standard plan may)"
                              : "reads memory at addresses that it computes (--allow-reads)");
  line(can.calls, "calls functions of the application (--allow-calls)");
  line(can.commands, "starts a command (--allow-command)");
  line(can.variables, "reads variables of the application");
  line(can.keys, "lists what it finds at run time, by constraint");
}

}  // namespace mdl::inject
