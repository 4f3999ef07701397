// Why the kernel does not let us attach to a process, and what to do about it. The kernel answers EPERM for a
// dozen reasons (ptrace(2), "Ptrace access mode checking"); this repeats its checks on what /proc and /sys
// show, in its order, to name the one that is meant. The functions that decide take text, so that they can be
// tested on recorded files of machines that are not at hand.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/process/target.h"

namespace mdl::process {

// The identity of a process, from /proc/PID/status.
struct Credentials {
  std::array<uid_t, 4> uid{};  // real, effective, saved, file system
  std::array<gid_t, 4> gid{};
  uint64_t permitted = 0;  // capabilities
  uint64_t effective = 0;
  int seccomp = 0;
};
Credentials parse_credentials(std::string_view status);
// "cap_net_admin, cap_sys_ptrace".
std::string capability_names(uint64_t set);

// Everything that the decision depends on. Text that could not be read is "".
struct Attempt {
  pid_t pid = 0;
  ProcessStatus target;
  Credentials theirs, ours;
  std::string tracer_name;             // of the process that traces it
  std::string yama;                    // /proc/sys/kernel/yama/ptrace_scope
  bool is_descendant = false;          // of ours
  bool is_dumpable = true;             // /proc/PID/mem belongs to the process's own user, not to root
  std::string our_users, their_users;  // user namespaces: links of /proc/PID/ns/user
  std::string modules;                 // /sys/kernel/security/lsm
  std::string label;                   // /proc/PID/attr/current
  // The nearest one from which it descends and whose rights are fewer, where a broker compares them (kernel/rights.h).
  pid_t lesser = 0;
};
std::string explain_permission(const Attempt& attempt);

// The attempt as this machine's files show it now.
Attempt read_attempt(pid_t pid);

// Why process 1 is not instrumented; "" where it may be: in a pid namespace of its own it is a
// program like any other. `pid_namespace`: the link /proc/self/ns/pid.
std::string refuse_init(pid_t pid, std::string_view pid_namespace);

}  // namespace mdl::process
