// The policy of a machine: what root lets mdl-inject do for everybody, in /etc/mdl/policy.toml (docs/plans.md).
// No variable and no option names another file, because a user whom sudo lets run mdl-inject could set it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mdl-inject/options.h"
#include "runtime/plan/plan.h"

namespace mdl::inject {

inline constexpr const char* kPolicyFile = "/etc/mdl/policy.toml";

struct PolicyKey {
  std::string name;
  std::string key;    // as format::name()
  std::string until;  // the last day on which its plans are taken; "" = for ever
  bool reads = false, calls = false, command = false;  // what its plans may do without being asked
};

struct Policy {
  bool signed_only = false;
  bool standard = false;  // with signed_only: standard plans need no signature
  bool queries = false;   // likewise: a query that is typed does not, either
  bool editions = false;  // signed plans must have one
  std::vector<PolicyKey> keys;
  std::vector<std::string> revoked_keys, revoked_plans;  // as format::name(); checksums in hex
  std::map<std::string, uint64_t> least_versions;        // by an edition's name
  std::optional<std::vector<uid_t>> users;               // whose processes may be measured; none = all
  std::optional<double> most_ns;                         // the highest budget
  bool audit_required = false;

  const PolicyKey* key_of(const plan::Plan& plan) const;
};

// Without the file, a policy that allows everything. An error where the file is wrong, or could be changed
// by others than root.
Result<Policy> read_policy();
// The text of a policy; errors name line and column. `name`: of the file.
Result<Policy> parse_policy(const std::string& text, const std::string& name);

// An error where the policy does not take the plan for its signature, or for want of one.
Result<void> check_signature(const Policy& policy, const plan::Plan& plan, const Options& options);

// An error where the plan is not one that the policy takes, its edition has ended, or the budget is above
// the policy's. Adds to the options what the plan's key may do, and the policy's budget and users.
Result<void> apply_policy(const Policy& policy, const plan::Plan& plan, Options& options);

}  // namespace mdl::inject
