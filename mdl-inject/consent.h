// The consent to what a plan can do besides counting (runtime/plan/capabilities.h). It comes from the command
// line (--allow-reads, --allow-calls, --allow-command), from the place of a standard plan, or from a signature
// whose key the policy gives it.
#pragma once

#include <cstdio>

#include "base/result.h"
#include "mdl-inject/options.h"
#include "mdl-inject/plan_file.h"
#include "mdl-inject/policy.h"
#include "runtime/plan/capabilities.h"

namespace mdl::inject {

// Adds to the options what a standard plan may do: read memory. An error, with the command, where the plan's own
// command is to be started and nobody has allowed that.
Result<void> apply_consent(const plan::Plan& plan, Options& options);

// All that decides whether a plan is taken, in order: the policy, the keys of --require-signed, the consent.
Result<void> admit(const plan::Plan& plan, const PlanFile& file, const Policy& policy, Options& options);

// Whether the plan's own command may be started, by what can be known of it without a reader of its manifest: that
// is asked by who has the privileges, and the plan may be an enemy's.
bool may_start_own_command(const PlanFile& file, const Policy& policy, const Options& options);

// --verify: what the plan can do, and the option that each needs.
void print_capabilities(std::FILE* out, const plan::Plan& plan, bool is_standard);

}  // namespace mdl::inject
