#include "runtime/process/limits.h"

#include <charconv>
#include <sstream>
#include <string>

#include "runtime/kernel/proc_file.h"

namespace mdl::process {

std::optional<uint64_t> soft_limit(pid_t pid, std::string_view row) {
  std::istringstream limits(kernel::proc_text(pid, "limits"));
  for (std::string line; std::getline(limits, line);) {
    if (!line.starts_with(row)) continue;
    std::istringstream rest(line.substr(row.size()));
    std::string soft;
    rest >> soft;
    uint64_t limit = 0;
    if (soft == "unlimited") return UINT64_MAX;
    const auto [end, problem] = std::from_chars(soft.data(), soft.data() + soft.size(), limit);
    if (problem != std::errc()) return {};
    return limit;
  }
  return {};
}

}  // namespace mdl::process
