// The calls that seccomp lets an insertion make, asked before anything else is done to the process.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "base/result.h"
#include "format/kinds.h"
#include "runtime/process/target_memory.h"

namespace mdl::inject {

struct Allowed {
  // A thread may be asked for its id; otherwise it must be found in its memory (resident/thread_identity.h).
  bool asks_id = true;
  std::map<format::Routine, std::string> denied;  // with the reason
  std::string denied_links;                       // the reason why a descriptor's file may not be asked for
};

// An error when what every insertion needs is denied, or when that cannot be known.
// `follow`: forks are followed.
Result<Allowed> read_allowed(pid_t pid, const process::TargetMemory& memory, const std::string& name,
                             bool follow);

}  // namespace mdl::inject
