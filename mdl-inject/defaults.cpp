#include "mdl-inject/defaults.h"

#include <fmt/format.h>

#include <sstream>

namespace mdl::inject {
namespace {

Result<void> apply(const format::Tunable& tunable, Options& options) {
  auto out_of_range = [&](auto low, auto high) {
    return Error{fmt::format("the plan's tunable {} is {}, and must be between {} and {}", tunable.name,
                             tunable.value, low, high),
                 Status::plan_rejected};
  };
  if (tunable.name == "samplingRate" && !options.interval_given) {
    if (!(tunable.value >= 0.001 && tunable.value <= 86400)) return out_of_range(0.001, 86400);
    options.interval = tunable.value;
  }
  if (tunable.name == "maxKeys" && !options.max_keys_given) {
    if (!(tunable.value >= 1 && tunable.value <= static_cast<double>(resident::kMostKeys)))
      return out_of_range(1, resident::kMostKeys);
    options.max_keys = static_cast<uint64_t>(tunable.value);
  }
  return {};
}

}  // namespace

Result<void> apply_defaults(const format::Manifest& manifest, Options& options) {
  for (const format::Tunable& tunable : manifest.tunables)
    if (auto ok = apply(tunable, options); !ok) return ok;
  if (!options.start || !options.run.empty()) return {};
  if (manifest.processes.size() != 1)
    return Error{fmt::format("{} has {} processes, and no command is given: write -- COMMAND behind it",
                             options.plan, manifest.processes.size()),
                 Status::usage};
  const format::ProcessDefinition& process = manifest.processes[0];
  std::istringstream words(process.command);
  for (std::string word; words >> word;) options.run.push_back(word);
  if (options.run.empty()) return Error{"the plan's process has an empty command", Status::plan_rejected};
  if (options.flavor.empty()) options.flavor = process.flavor;
  options.folder = process.directory;
  return {};
}

}  // namespace mdl::inject
