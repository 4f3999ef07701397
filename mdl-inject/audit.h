// The audit: a line in the system's log (syslog, facility authpriv) for each attach and each removal, with who
// did it, to which process, by which plan, and how it ended. A host without /dev/log has no lines, unless the
// policy requires them; then nothing is attached or removed there.
//
// A line has key=value pairs; texts that others have made (names of programs, plans, errors) are JSON strings of
// ASCII, so that they cannot forge a line or a pair.
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "mdl-inject/options.h"
#include "runtime/plan/plan.h"

namespace mdl::inject {

class Audit {
 public:
  // An error only where the lines are required.
  static Result<Audit> open(bool required, bool separate);
  Audit(Audit&& other) noexcept;
  Audit& operator=(Audit&&) = delete;
  ~Audit();

  // The processes and the plan of all later lines. Of each process, its name and user are read now.
  void is_about(const std::vector<pid_t>& pids, const std::string& plan, const std::string& signer,
                const std::vector<std::string>& requests);
  // Later lines are about these of them only.
  void is_only_about(const std::vector<pid_t>& pids);
  // A line for each process. `result`: done, begins, or an error's text. The error of this is one that ends what was
  // to be done.
  Result<void> say(std::string_view action, const std::string& result);
  Result<void> say_of(pid_t pid, std::string_view action, const std::string& result);

 private:
  Result<void> say(std::string_view action, const std::string& about, const std::string& result);
  Audit(bool required, bool separate) : required_(required), separate_(separate) {}
  bool required_, separate_;
  uid_t user_ = getuid();  // before it is given up
  int socket_ = -1;
  std::vector<std::pair<pid_t, std::string>> about_ = {{0, ""}};
};

}  // namespace mdl::inject
