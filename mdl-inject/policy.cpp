#include "mdl-inject/policy.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <sstream>
#include <toml.hpp>

#include "base/guarded_path.h"
#include "base/read_text.h"
#include "format/edition.h"

namespace mdl::inject {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr size_t kKeyLength = 8 + 44;  // "ed25519:" and 32 bytes in base64

// What is wrong at a value; ends the reading.
struct Wrong {
  toml::source_location where;
  std::string what;
};

[[noreturn]] void reject(const toml::value& at, std::string what) {
  throw Wrong{at.location(), std::move(what)};
}

std::string text(const toml::value& value) {
  if (!value.is_string()) reject(value, "this must be a string");
  return value.as_string().str;
}

bool boolean(const toml::value& value) {
  if (!value.is_boolean()) reject(value, "this must be true or false");
  return value.as_boolean();
}

std::string day(const toml::value& value) {
  if (!value.is_local_date()) reject(value, "this must be a day, such as 2027-01-31");
  std::ostringstream out;
  out << value.as_local_date();
  return out.str();
}

template <typename Read>
auto list(const toml::value& value, Read read) {
  if (!value.is_array()) reject(value, "this must be a list");
  std::vector<decltype(read(value))> out;
  for (const toml::value& one : value.as_array()) out.push_back(read(one));
  return out;
}

std::string key_name(const toml::value& value) {
  const std::string out = text(value);
  if (!out.starts_with("ed25519:") || out.size() != kKeyLength)
    reject(value, "this must be a key as mdl-inject --verify shows it: ed25519: and 44 letters");
  return out;
}

std::string checksum(const toml::value& value) {
  std::string out = text(value);
  if (out.size() != 64 || out.find_first_not_of("0123456789abcdef") != std::string::npos)
    reject(value, "this must be a plan's checksum as mdl-inject --verify shows it: 64 hexadecimal digits");
  return out;
}

uid_t user(const toml::value& value) {
  if (value.is_integer() && value.as_integer() >= 0 && value.as_integer() < UINT32_MAX)
    return static_cast<uid_t>(value.as_integer());
  const std::string name = text(value);
  const struct passwd* found = getpwnam(name.c_str());
  if (!found) reject(value, fmt::format("there is no user '{}'", name));
  return found->pw_uid;
}

// Each key of a table has a reader; there is no other key.
using Readers = std::map<std::string, std::function<void(const toml::value&)>>;
void read_table(const toml::value& table, const Readers& readers) {
  if (!table.is_table()) reject(table, "this must be a table");
  for (const auto& [key, value] : table.as_table()) {
    const auto reader = readers.find(key);
    if (reader == readers.end()) {
      std::string known;
      for (const auto& [name, unused] : readers) known += (known.empty() ? "" : ", ") + name;
      reject(value, fmt::format("'{}' is not known here; known are: {}", key, known));
    }
    reader->second(value);
  }
}

void read_may(const toml::value& value, PolicyKey& out) {
  list(value, [&](const toml::value& one) {
    const std::string word = text(one);
    bool* may = word == "reads"     ? &out.reads
                : word == "calls"   ? &out.calls
                : word == "command" ? &out.command
                                    : nullptr;
    if (!may) reject(one, fmt::format("'{}' is none of reads, calls, command", word));
    return *may = true;
  });
}

PolicyKey read_key(const toml::value& value) {
  PolicyKey out;
  read_table(value, {{"name", [&](const auto& v) { out.name = text(v); }},
                     {"key", [&](const auto& v) { out.key = key_name(v); }},
                     {"until", [&](const auto& v) { out.until = day(v); }},
                     {"may", [&](const auto& v) { read_may(v, out); }}});
  if (out.name.empty() || out.key.empty()) reject(value, "a key needs a `name` and a `key`");
  return out;
}

void read_versions(const toml::value& value, Policy& out) {
  if (!value.is_table()) reject(value, "this must be a table");
  for (const auto& [name, version] : value.as_table()) {
    if (!version.is_integer() || version.as_integer() < 0)
      reject(version, "this must be a version: 0, 1, 2, ...");
    out.least_versions[name] = static_cast<uint64_t>(version.as_integer());
  }
}

double budget(const toml::value& value) {
  const double out = value.is_integer()    ? static_cast<double>(value.as_integer())
                     : value.is_floating() ? value.as_floating()
                                           : -1;
  if (!(out >= 0 && out <= 1e12)) reject(value, "this must be a number of nanoseconds");
  return out;
}

Policy read(const toml::value& root) {
  Policy out;
  const auto audit = [&](const toml::value& v) {
    if (text(v) != "required" && text(v) != "optional")
      reject(v, "this must be \"required\" or \"optional\"");
    out.audit_required = text(v) == "required";
  };
  const auto table = [](Readers readers) {
    return [readers = std::move(readers)](const toml::value& v) { read_table(v, readers); };
  };
  read_table(root,
             {{"audit", audit},
              {"signing", table({{"required", [&](const auto& v) { out.signed_only = boolean(v); }},
                                 {"standard-plans", [&](const auto& v) { out.standard = boolean(v); }},
                                 {"queries", [&](const auto& v) { out.queries = boolean(v); }},
                                 {"editions", [&](const auto& v) { out.editions = boolean(v); }}})},
              {"keys", [&](const auto& v) { out.keys = list(v, read_key); }},
              {"revoked", table({{"keys", [&](const auto& v) { out.revoked_keys = list(v, key_name); }},
                                 {"plans", [&](const auto& v) { out.revoked_plans = list(v, checksum); }}})},
              {"least-versions", [&](const auto& v) { read_versions(v, out); }},
              {"targets", table({{"users", [&](const auto& v) { out.users = list(v, user); }}})},
              {"budget", table({{"most-ns", [&](const auto& v) { out.most_ns = budget(v); }}})}});
  return out;
}

bool has(const std::vector<std::string>& list, const std::string& one) {
  return std::ranges::find(list, one) != list.end();
}

Error refused(const Options& options, const std::string& why) {
  return {fmt::format("{}: {} ({})", options.plan, why, kPolicyFile), Status::plan_rejected};
}

Result<void> check_edition(const Policy& policy, const plan::Plan& plan, const Options& options) {
  const format::Edition& edition = plan.manifest.edition;
  if (policy.editions && plan.signer && edition.name.empty())
    return refused(options, "it is signed, and has no edition (mdlc --edition)");
  const auto least = policy.least_versions.find(edition.name);
  if (least == policy.least_versions.end() || edition.version >= least->second) return {};
  return refused(options, fmt::format("its edition is {} of '{}', and the least is {}", edition.version,
                                      edition.name, least->second));
}

Result<void> apply_budget(const Policy& policy, Options& options) {
  if (!policy.most_ns) return {};
  if (!options.budget) options.budget = policy.most_ns;
  if (*options.budget <= *policy.most_ns) return {};
  return Error{fmt::format("--budget {}: the policy allows at most {} ns ({})", *options.budget,
                           *policy.most_ns, kPolicyFile)};
}

}  // namespace

const PolicyKey* Policy::key_of(const plan::Plan& plan) const {
  if (!plan.signer) return nullptr;
  const auto found = std::ranges::find(keys, format::name(*plan.signer), &PolicyKey::key);
  return found == keys.end() ? nullptr : &*found;
}

Result<void> check_signature(const Policy& policy, const plan::Plan& plan, const Options& options) {
  if (has(policy.revoked_plans, plan.checksum)) return refused(options, "this plan is revoked");
  if (plan.signer && has(policy.revoked_keys, format::name(*plan.signer)))
    return refused(options, fmt::format("the key {} is revoked", format::name(*plan.signer)));
  const PolicyKey* key = policy.key_of(plan);
  if (key && !key->until.empty() && format::today() > key->until)
    return refused(options, fmt::format("the key '{}' was good until {}", key->name, key->until));
  if (!policy.signed_only || key || (policy.standard && options.standard_plan)) return {};
  const bool is_query = options.is_query();
  if (is_query && policy.queries) return {};
  if (is_query)
    return refused(
        options,
        "it is not signed, and the policy wants that; `queries = true` behind [signing] would let those "
        "pass that are typed");
  return refused(options, plan.signer ? fmt::format("it is signed with {}, which is no key of the policy",
                                                    format::name(*plan.signer))
                                      : "it is not signed, and the policy wants that: mdlc --sign KEY.pem");
}

Result<Policy> parse_policy(const std::string& text, const std::string& name) {
  const auto wrong = [&](const toml::source_location& where, const std::string& what) {
    return Error{fmt::format("{}:{}:{}: {}", name, where.line(), where.column(), what)};
  };
  try {
    std::istringstream stream(text);
    return read(toml::parse(stream, name));
  } catch (const Wrong& problem) {
    return wrong(problem.where, problem.what);
  } catch (const toml::exception& problem) {
    // The library's first line says what; a picture follows.
    std::string what = problem.what();
    what = what.substr(0, what.find('\n'));
    const size_t begin = what.find_first_not_of("[error] ");
    return wrong(problem.location(), begin == std::string::npos ? what : what.substr(begin));
  } catch (const std::exception& problem) {  // a number that is too large
    return Error{fmt::format("{}: {}", name, problem.what())};
  }
}

Result<Policy> read_policy() {
  struct stat about {};
  if (lstat(kPolicyFile, &about) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Policy{};
    return Error{fmt::format("cannot look at the policy {}: {}", kPolicyFile, std::strerror(errno))};
  }
  auto path = path_of_root(kPolicyFile);
  if (!path) return Error{fmt::format("the policy {} is not used: {}", kPolicyFile, path.error().text)};
  auto text = read_file(*path, kMostBytes);
  if (!text) return Error{fmt::format("cannot read the policy {}: {}", *path, text.error().text)};
  if (text->size() > kMostBytes) return Error{fmt::format("the policy {} is too long", *path)};
  return parse_policy(*text, *path);
}

Result<void> apply_policy(const Policy& policy, const plan::Plan& plan, Options& options) {
  if (const std::string& last = plan.manifest.edition.not_after; !last.empty() && format::today() > last)
    return Error{fmt::format("{} was to be used until {}, and it is {}: ask for a newer one", options.plan,
                             last, format::today()),
                 Status::plan_rejected};
  if (auto ok = check_signature(policy, plan, options); !ok) return ok;
  if (auto ok = check_edition(policy, plan, options); !ok) return ok;
  options.users = policy.users;
  if (const PolicyKey* key = policy.key_of(plan)) {
    options.allow_reads = options.allow_reads || key->reads;
    options.allow_calls = options.allow_calls || key->calls;
    options.allow_command = options.allow_command || key->command;
  }
  return apply_budget(policy, options);
}

}  // namespace mdl::inject
