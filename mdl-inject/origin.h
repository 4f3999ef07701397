// The origin of a plan: its signature against the keys that the user trusts (--require-signed).
#pragma once

#include <string>

#include "base/result.h"
#include "mdl-inject/plan_file.h"
#include "runtime/plan/plan.h"

namespace mdl::inject {

// Where trusted keys are when --require-signed names none: $MDL_TRUSTED_KEYS, or a directory of the system.
std::string default_keys();

// True when the word behind --require-signed is what it means: a directory, a .pem file, a key of any name.
bool names_keys(const std::string& word);

// An error when keys are given and none of them made the plan; else the file of the key that did, "" where no
// key was asked for.
Result<std::string> check_origin(const plan::Plan& plan, const PlanFile& file, const Options& options);

}  // namespace mdl::inject
