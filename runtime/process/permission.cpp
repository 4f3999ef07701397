#include "runtime/process/permission.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <vector>

#include "base/proc_text.h"
#include "runtime/kernel/handle.h"
#include "runtime/kernel/proc_file.h"

namespace mdl::process {
namespace {

constexpr std::string_view kCapabilities[] = {"chown",
                                              "dac_override",
                                              "dac_read_search",
                                              "fowner",
                                              "fsetid",
                                              "kill",
                                              "setgid",
                                              "setuid",
                                              "setpcap",
                                              "linux_immutable",
                                              "net_bind_service",
                                              "net_broadcast",
                                              "net_admin",
                                              "net_raw",
                                              "ipc_lock",
                                              "ipc_owner",
                                              "sys_module",
                                              "sys_rawio",
                                              "sys_chroot",
                                              "sys_ptrace",
                                              "sys_pacct",
                                              "sys_admin",
                                              "sys_boot",
                                              "sys_nice",
                                              "sys_resource",
                                              "sys_time",
                                              "sys_tty_config",
                                              "mknod",
                                              "lease",
                                              "audit_write",
                                              "audit_control",
                                              "setfcap",
                                              "mac_override",
                                              "mac_admin",
                                              "syslog",
                                              "wake_alarm",
                                              "block_suspend",
                                              "audit_read",
                                              "perfmon",
                                              "bpf",
                                              "checkpoint_restore"};
static_assert(std::size(kCapabilities) == CAP_LAST_CAP + 1);

constexpr uint64_t kTrace = uint64_t{1} << CAP_SYS_PTRACE;
constexpr uint64_t kOverride = uint64_t{1} << CAP_DAC_OVERRIDE;

template <typename Id>
void read_ids(std::string_view line, std::array<Id, 4>& out) {
  std::istringstream words{std::string(line)};
  for (Id& id : out) words >> id;
}

uint64_t read_set(std::string_view line) {
  uint64_t out = 0;
  std::from_chars(line.data(), line.data() + line.size(), out, 16);
  return out;
}

long number(std::string_view text) {
  long out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

// All three are the one that the caller has (ptrace(2), 2b).
template <typename Id>
bool are_all(const std::array<Id, 4>& ids, Id ours) {
  return std::all_of(ids.begin(), ids.begin() + 3, [&](Id id) { return id == ours; });
}

std::string without_end(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return text;
}

pid_t parent_of(pid_t pid) {
  return static_cast<pid_t>(number(status_value(kernel::proc_text(pid, "status"), "PPid")));
}

bool has_more(const Credentials& some, const Credentials& others) {
  constexpr uint64_t kSetsUser = uint64_t{1} << CAP_SETUID;  // who has it has every user's rights
  return some.permitted & ~others.permitted ||
         (!(others.permitted & kSetsUser) && (some.uid != others.uid || some.gid != others.gid));
}

// With CAP_SYS_PTRACE little is left that can forbid it.
std::string explain_to_the_mighty(const Attempt& a) {
  if (a.lesser != 0)
    return fmt::format(
        "it has more rights than process {}, from which it descends, and mdl-inject touches no such process "
        "on "
        "behalf of that one (docs/security.md): name it itself, or take --no-separate",
        a.lesser);
  if (a.ours.seccomp != 0)
    return "this mdl-inject runs under a seccomp filter itself, which may forbid ptrace (a container's "
           "default "
           "profile?): start it outside, or allow ptrace and process_vm_readv in that profile";
  std::string text = "a security module forbids it";
  if (!a.modules.empty()) text += fmt::format(" ({})", a.modules);
  if (!a.label.empty() && a.label != "unconfined")
    text += fmt::format("; the process is confined as {}", a.label);
  return text +
         ": allow ptrace for mdl-inject in that module's policy, or run it as CAP_SYS_PTRACE allows in the "
         "process's own user namespace";
}

// CAP_SYS_PTRACE says nothing of a file's mode, and that of /proc/PID/mem lets in its owner alone.
std::string explain_owner(const Attempt& a) {
  const uid_t owner = a.is_dumpable ? a.theirs.uid[1] : 0;
  if (a.ours.effective & kOverride || a.ours.uid[3] == owner) return {};
  return fmt::format(
      "you have CAP_SYS_PTRACE, but its memory is a file that only uid {} may open: run mdl-inject as that "
      "user, or give it CAP_DAC_OVERRIDE, too (docs/privileges.md)",
      owner);
}

std::string explain_identity(const Attempt& a) {
  constexpr std::string_view kRemedy = "run mdl-inject as root or with CAP_SYS_PTRACE";
  const uid_t us = a.ours.uid[0];
  if (a.theirs.uid[0] == us && !are_all(a.theirs.uid, us))
    return fmt::format("it runs setuid (real uid {}, effective uid {}, saved uid {}): {}", a.theirs.uid[0],
                       a.theirs.uid[1], a.theirs.uid[2], kRemedy);
  if (!are_all(a.theirs.uid, us))
    return fmt::format(
        "it runs as uid {} and you are uid {}: run mdl-inject as that user, as root, or with "
        "CAP_SYS_PTRACE",
        a.theirs.uid[1], us);
  if (!are_all(a.theirs.gid, a.ours.gid[0]))
    return fmt::format("it runs as gid {} and you are gid {}{}: {}", a.theirs.gid[1], a.ours.gid[0],
                       a.theirs.gid[0] == a.ours.gid[0] ? " (it runs setgid)" : "", kRemedy);
  return {};
}

std::string explain_yama(const Attempt& a) {
  const long scope = number(a.yama);
  if (scope == 1 && !a.is_descendant)
    return "kernel.yama.ptrace_scope is 1, and it is no child of mdl-inject: run as root or with "
           "CAP_SYS_PTRACE, "
           "start the program with mdl-inject --run, or set it to 0 (sysctl kernel.yama.ptrace_scope=0)";
  if (scope == 2) return "kernel.yama.ptrace_scope is 2: run mdl-inject as root or with CAP_SYS_PTRACE";
  return {};
}

std::string explain_refusal(const Attempt& a) {
  if (number(a.yama) >= 3)
    return fmt::format("kernel.yama.ptrace_scope is {}, which forbids every attach until the next boot",
                       number(a.yama));
  const bool elsewhere = !a.their_users.empty() && a.our_users != a.their_users;
  if (elsewhere && a.ours.uid[1] == 0)
    return fmt::format(
        "it is in another user namespace ({}; you are in {}), where you do not have CAP_SYS_PTRACE: run "
        "mdl-inject outside of the container, or inside of the process's own (nsenter -U -t {})",
        a.their_users, a.our_users, a.pid);
  if (a.ours.effective & kTrace) {
    std::string why = explain_owner(a);
    return why.empty() ? explain_to_the_mighty(a) : why;
  }
  if (std::string why = explain_identity(a); !why.empty())
    return why + (a.ours.uid[1] == 0
                      ? " (you are root without that capability: docker run --cap-add=SYS_PTRACE)"
                      : "");
  if (!a.is_dumpable)
    return "it is not dumpable (it was setuid, changed its user or capabilities, called "
           "prctl(PR_SET_DUMPABLE, 0), or "
           "its program may not be read): run mdl-inject as root or with CAP_SYS_PTRACE";
  if (const uint64_t more = a.theirs.permitted & ~a.ours.permitted)
    return fmt::format(
        "it has capabilities that you do not have ({}): run mdl-inject as root or with CAP_SYS_PTRACE",
        capability_names(more));
  if (std::string why = explain_yama(a); !why.empty()) return why;
  return explain_to_the_mighty(a);
}

}  // namespace

Credentials parse_credentials(std::string_view status) {
  Credentials out;
  read_ids(status_value(status, "Uid"), out.uid);
  read_ids(status_value(status, "Gid"), out.gid);
  out.permitted = read_set(status_value(status, "CapPrm"));
  out.effective = read_set(status_value(status, "CapEff"));
  out.seccomp = static_cast<int>(number(status_value(status, "Seccomp")));
  return out;
}

std::string capability_names(uint64_t set) {
  std::vector<std::string> names;
  for (size_t i = 0; i < 64; i++)
    if (set >> i & 1)
      names.push_back(i < std::size(kCapabilities) ? fmt::format("cap_{}", kCapabilities[i])
                                                   : fmt::format("{}", i));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string explain_permission(const Attempt& a) {
  if (a.target.tracer != 0)
    return fmt::format(
        "process {} ({}) is already traced by process {}{}: detach that debugger or tracer first", a.pid,
        a.target.name, a.target.tracer, a.tracer_name.empty() ? "" : fmt::format(" ({})", a.tracer_name));
  return fmt::format("no permission to attach to process {} ({}): {}", a.pid, a.target.name,
                     explain_refusal(a));
}

Attempt read_attempt(pid_t pid) {
  const std::string status = kernel::proc_text(pid, "status");
  Attempt out;
  out.pid = pid;
  out.target = parse_status(status);
  out.theirs = parse_credentials(status);
  out.ours = parse_credentials(kernel::own_text("status"));
  if (out.target.tracer) out.tracer_name = without_end(kernel::proc_text(out.target.tracer, "comm"));
  out.yama = without_end(kernel::system_text("/proc/sys/kernel/yama/ptrace_scope"));
  const bool has_broker = kernel::own_id() != getpid();
  for (pid_t up = parent_of(pid), steps = 0; up > 0 && steps < 1000 && !out.is_descendant;
       up = parent_of(up), steps++) {
    out.is_descendant = up == kernel::own_id();
    if (has_broker && out.lesser == 0 &&
        has_more(out.theirs, parse_credentials(kernel::proc_text(up, "status"))))
      out.lesser = up;
  }
  struct stat owner {};
  // Not the folder: that one is the process's own whatever it is.
  if (kernel::stat_proc(pid, "mem", owner)) out.is_dumpable = owner.st_uid == out.theirs.uid[1];
  out.our_users = kernel::own_link("ns/user");
  out.their_users = kernel::proc_link(pid, "ns/user");
  out.modules = without_end(kernel::system_text("/sys/kernel/security/lsm"));
  out.label = without_end(kernel::proc_text(pid, "attr/current"));
  return out;
}

Error permission_error(pid_t pid) {
  return {explain_permission(read_attempt(pid)), Status::failed};
}

std::string refuse_init(pid_t pid, std::string_view pid_namespace) {
  constexpr std::string_view kInitial = "pid:[4026531836]";  // PROC_PID_INIT_INO, linux/proc_ns.h
  if (pid != 1 || pid_namespace != kInitial) return {};
  return "process 1 is the system's init: the machine ends with it, so it is not instrumented; measure the "
         "services "
         "that it starts";
}

}  // namespace mdl::process
