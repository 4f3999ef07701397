// The consent to what a plan can do besides counting (runtime/plan/capabilities.h). It comes from the command
// line (--allow-reads, --allow-calls, --allow-command), from the place of a standard plan, or from a signature
// whose key the policy gives it.
#pragma once

#include <cstdio>

#include "base/result.h"
#include "mdl-inject/options.h"
#include "mdl-inject/policy.h"
#include "runtime/plan/capabilities.h"

namespace mdl::inject {

// True for a plan of share/mdl/plans beside the program, where nobody but root and the user can change it. A
// plan is taken for its place and not for a digest in the program, because both come with one installation
// and each can be replaced without the other; who can write there could replace the program.
bool is_installed_plan(const std::string& path);

// Adds to the options what a standard plan may do: read memory. An error, with the command, where the plan's own
// command is to be started and nobody has allowed that.
Result<void> apply_consent(const plan::Plan& plan, Options& options);

// All that decides whether a plan is taken, in order: the policy, the keys of --require-signed, the consent.
Result<void> admit(const plan::Plan& plan, const Policy& policy, Options& options);

// --verify: what the plan can do, and the option that each needs. `path`: of the plan.
void print_capabilities(std::FILE* out, const plan::Plan& plan, const std::string& path);

}  // namespace mdl::inject
