// The audit: a line in the system's log (syslog, facility authpriv) for each attach and each removal, with who
// did it, to which process, by which plan, and how it ended. A host without /dev/log has no lines, unless the
// policy requires them; then nothing is attached or removed there.
//
// A line has key=value pairs; texts that others have made (names of programs, plans, errors) are JSON strings of
// ASCII, so that they cannot forge a line or a pair.
//
// With separate privileges the broker writes the lines: who did it and to which process is its own knowledge, and
// nothing is changed without a line (kernel/broker.h).
#pragma once

#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
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

  // The processes and the plan of all later lines. Of each process, its name and user are read now, or by the broker.
  void is_about(const std::vector<pid_t>& pids, const std::string& plan, const std::string& signer,
                const std::vector<std::string>& requests);
  // Later lines are about these of them only.
  void is_only_about(const std::vector<pid_t>& pids);
  // And about this one, that has come since.
  void is_also_about(pid_t pid);
  // What is known of it is of another process that had its id.
  void forget(pid_t pid) { about_.erase(pid); }
  // A line for each process. `result`: done, begins, or an error's text. The error of this is one that ends what was
  // to be done.
  Result<void> say(std::string_view action, const std::string& result);
  Result<void> say_of(pid_t pid, std::string_view action, const std::string& result);

  // The broker's part: a line about a process (0: none), with this text.
  Result<void> write(pid_t pid, std::string_view action, std::string_view text);
  // From here on the broker writes the lines of this.
  using Writer = std::function<Result<void>(pid_t pid, std::string_view action, std::string_view text)>;
  void write_through(Writer writer);

 private:
  Audit(bool required, bool separate) : required_(required), separate_(separate) {}
  const std::string& about(pid_t pid);
  bool required_, separate_;
  uid_t user_ = getuid();  // before it is given up
  pid_t own_ = getpid();   // whoever writes it
  int socket_ = -1;
  Writer writer_;
  std::vector<pid_t> pids_ = {0};
  std::string plan_;                    // and the requests, of all lines
  std::map<pid_t, std::string> about_;  // what is said of each process
};

}  // namespace mdl::inject
