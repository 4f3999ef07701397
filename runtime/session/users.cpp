#include "runtime/session/users.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/kernel/proc_file.h"
#include "runtime/process/permission.h"

namespace mdl::inject {

Result<void> check_users(pid_t pid, const SessionOptions& options) {
  if (!options.users) return {};
  bool any = false;
  for (const pid_t tid : kernel::threads_of(pid)) {
    const std::string status = kernel::proc_text(pid, fmt::format("task/{}/status", tid));
    if (status.empty()) continue;  // it has ended
    any = true;
    for (const uid_t user : process::parse_credentials(status).uid)
      if (std::ranges::find(*options.users, user) == options.users->end())
        return Error{fmt::format(
            "process {} runs as user {}, whose processes the policy does not let be measured", pid, user)};
  }
  return any ? Result<void>{} : Error{fmt::format("process {} has ended before its user was known", pid)};
}

}  // namespace mdl::inject
