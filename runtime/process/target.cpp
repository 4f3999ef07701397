#include "runtime/process/target.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <sstream>

#include "base/nap.h"
#include "base/proc_text.h"
#include "runtime/arch/description.h"
#include "runtime/arch/target_data.h"
#include "runtime/image/image.h"
#include "runtime/kernel/handle.h"
#include "runtime/kernel/memory.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/process/permission.h"

namespace mdl::process {
namespace {

long number(std::string_view text) {
  size_t start = text.find_first_of("0123456789");
  long value = 0;
  if (start != std::string_view::npos) std::from_chars(text.data() + start, text.data() + text.size(), value);
  return value;
}

constexpr uint64_t kExiting = 0x4,
                   kKernelThread = 0x200000;  // PF_EXITING, PF_KTHREAD of the kernel's sched.h

// Of the thread alone: for a process the kernel adds up what all its threads have used.
std::string own_stat(pid_t tid) {
  return kernel::proc_text(tid, fmt::format("task/{}/stat", tid));
}

// 0 when there is none.
uint64_t own_stat_number(pid_t pid, int field) {
  return stat_number(own_stat(pid), field).value_or(0);
}

// By how many nanoseconds the clock of this process's time namespace (time_namespaces(7)) is ahead, by which /proc
// shows it when processes have started. Before Linux 6.3 the offsets that are shown may be those of its children only.
int64_t boot_clock_offset() {
  if (kernel::own_link("ns/time") != kernel::own_link("ns/time_for_children")) return 0;
  std::istringstream offsets(kernel::own_text("timens_offsets"));
  std::string clock;
  int64_t seconds = 0, nanoseconds = 0;
  while (offsets >> clock >> seconds >> nanoseconds)
    if (clock == "boottime") return seconds * 1'000'000'000 + nanoseconds;
  return 0;
}

uint64_t flags(pid_t pid) {
  return own_stat_number(pid, 9);
}

// A process that has lost its memory but is no zombie yet is ending, unless it never had any.
bool is_kernel_thread(pid_t pid) {
  return flags(pid) & kKernelThread;
}

// Another mdl-inject that runs, and so lets its target go before long: one that is stopped itself does not.
bool is_fellow(pid_t pid) {
  if (pid == 0) return false;
  ProcessStatus status = read_status(pid);
  return status.name == kInjectorName && status.state != 'T' && status.state != 't';
}

Error refuse(std::string text) {
  return {std::move(text), Status::failed};
}

// Processes are stopped by their ids in our pid namespace; /proc shows those of the one that it was mounted
// in.
Result<void> check_proc() {
  const pid_t shown = parse_status(kernel::own_text("status")).group;
  if (shown == 0) return refuse("/proc is not mounted here: mount -t proc proc /proc");
  if (shown == kernel::own_id()) return {};
  return refuse(
      "/proc is that of another pid namespace, where ids mean other processes: give this one its own (mount "
      "-t proc proc /proc, unshare --mount-proc), or run mdl-inject there");
}

// The ELF header of the program says whether its code is ours to read.
Result<void> check_architecture(pid_t pid) {
  const pid_t live = kernel::live_thread(pid);
  const int fd = kernel::open_proc(live, "exe");
  if (fd < 0) {
    if (errno == ENOENT) return refuse(fmt::format("process {} has ended", pid));
    if (errno == EACCES || errno == EPERM) return permission_error(pid);
    return refuse(fmt::format("cannot open /proc/{}/exe: {}", live, std::strerror(errno)));
  }
  Elf64_Ehdr header{};
  ssize_t got = pread(fd, &header, sizeof header, 0);
  close(fd);
  if (got != static_cast<ssize_t>(sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return refuse(fmt::format("the program of process {} is not an ELF file that can be read", pid));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != arch::kMachine.elf_machine)
    return refuse(
        fmt::format("process {} is not a {} program (ELF machine {}, class {}): use the mdl-inject of its "
                    "architecture",
                    pid, arch::kMachine.name, header.e_machine, header.e_ident[EI_CLASS]));
  return {};
}

}  // namespace

ProcessStatus read_status(pid_t pid) {
  return parse_status(kernel::proc_text(pid, "status"));
}

ProcessStatus parse_status(std::string_view text) {
  ProcessStatus out;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    auto value = [&](std::string_view key) {
      return line.starts_with(key) ? line.substr(key.size()) : std::string_view{};
    };
    if (auto v = value("Name:\t"); !v.empty()) out.name = v;
    if (auto v = value("State:\t"); !v.empty()) out.state = v[0];
    if (auto v = value("Pid:\t"); !v.empty()) out.has_pid = true;
    if (auto v = value("VmSize:\t"); !v.empty()) out.has_memory = true;
    if (auto v = value("VmLck:\t"); !v.empty())
      out.locks_memory = number(v.substr(std::min(v.find_first_not_of(' '), v.size()))) > 0;
    if (auto v = value("Tgid:\t"); !v.empty()) out.group = static_cast<pid_t>(number(v));
    if (auto v = value("PPid:\t"); !v.empty()) out.parent = static_cast<pid_t>(number(v));
    if (auto v = value("TracerPid:\t"); !v.empty()) out.tracer = static_cast<pid_t>(number(v));
    if (auto v = value("NSpid:\t"); !v.empty())
      out.inner_pid = static_cast<pid_t>(number(v.substr(v.rfind('\t') + 1)));
    if (auto v = value("Uid:\t"); !v.empty()) out.uid = static_cast<uid_t>(number(v));
    if (auto v = value("Seccomp:\t"); !v.empty()) out.seccomp = static_cast<int>(number(v));
  }
  return out;
}

Result<ProcessStatus> check_target(pid_t pid, Purpose purpose) {
  if (pid <= 0) return refuse(fmt::format("{} is not a process id", pid));
  if (auto ok = check_proc(); !ok) return ok.error();
  if (pid == getpid() || pid == kernel::own_id())
    return refuse("mdl-inject cannot instrument itself: name another process");
  ProcessStatus status = read_status(pid);
  if (!status.has_pid)
    return refuse(
        fmt::format("there is no process {} (is it the right pid, and in this pid namespace?)", pid));
  if (std::string why = refuse_init(pid, kernel::own_link("ns/pid")); !why.empty()) return refuse(why);
  if (status.group != pid)
    return refuse(fmt::format("{} is a thread of process {}: name the process", pid, status.group));
  if (status.state == 'Z' && live_threads(pid).empty())
    return refuse(fmt::format("process {} ({}) has ended and only waits for its parent", pid, status.name));
  if (!status.has_memory && status.state != 'Z' && !is_kernel_thread(pid))
    return refuse(fmt::format("process {} ({}) has ended", pid, status.name));
  if (!status.has_memory && status.state != 'Z')
    return refuse(
        fmt::format("process {} ({}) is a kernel thread: it has no program to instrument", pid, status.name));
  if (auto ok = check_architecture(pid); !ok) return ok.error();
  // Another mdl-inject, at work for a moment; or a process that only has its name, for ever.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (purpose == Purpose::attach && status.tracer != kernel::own_id() && is_fellow(status.tracer) &&
         std::chrono::steady_clock::now() < until) {
    nap(5000);
    status = read_status(pid);
    if (!status.has_pid) return refuse(fmt::format("process {} has ended", pid));
  }
  if (purpose == Purpose::attach && status.tracer != 0 && status.tracer != kernel::own_id())
    return permission_error(pid);
  // The kernel decides when the file is opened, by more than its mode.
  const uint32_t writer = kernel::open_writer(kernel::live_thread(pid));
  if (writer == 0) return permission_error(pid);
  kernel::close_writer(writer);
  return status;
}

std::vector<pid_t> live_threads(pid_t pid, bool also_ended) {
  std::vector<pid_t> out = kernel::threads_of(pid, also_ended);
  std::sort(out.begin(), out.end(), [pid](pid_t a, pid_t b) {
    return (a == pid) < (b == pid) || ((a == pid) == (b == pid) && a < b);
  });
  return out;
}

bool is_injector(pid_t pid) {
  return read_status(pid).name == kInjectorName;
}

bool has_ended(pid_t pid) {
  const std::vector<pid_t> threads = live_threads(pid);
  return std::none_of(threads.begin(), threads.end(), [](pid_t tid) { return read_status(tid).has_memory; });
}

bool ends_now(pid_t pid) {
  constexpr int kNaps = 20, kMostNaps = 2000;  // of 1 ms: it may still have to learn that it was killed
  for (int naps = 0; naps < kMostNaps && (naps < kNaps || flags(pid) & kExiting); naps++) {
    if (has_ended(pid)) return true;
    nap(1000);
  }
  return has_ended(pid);
}

bool awaits_vfork(pid_t tid) {
  if (!stat_field(own_stat(tid), 3).starts_with('D')) return false;
  // The number of the system call that it sleeps in; "running" when it does not sleep.
  const long call = number(kernel::proc_text(tid, "syscall"));
  for (long makes_processes : {
#ifdef SYS_vfork
           long{SYS_vfork},
#endif
           long{SYS_clone}, long{SYS_clone3}})
    if (call == makes_processes) return true;
  return false;
}

bool is_alive_thread(pid_t tid) {
  return stat_is_alive(own_stat(tid));
}

bool shares_memory(pid_t tid, pid_t other) {
  return kernel::compare_memory(tid, other) == true;
}

std::vector<pid_t> memory_sharers(pid_t pid, bool only_new) {
  const pid_t live = kernel::live_thread(pid);
  if (!read_status(live).has_memory) return {};  // it would share that with kernel threads
  std::vector<pid_t> out = kernel::sharers_of(live, only_new);
  if (!read_status(live).has_memory) return {};  // it has ended meanwhile: the next question is about all
  std::erase(out, pid);
  return out;
}

bool is_running(pid_t pid, uint64_t start) {
  return start != 0 && start_time(pid) == start && is_alive_thread(pid);
}

bool is_running_inside(pid_t inner_pid, uint64_t start) {
  return std::ranges::any_of(kernel::processes(), [&](pid_t pid) {
    return is_running(pid, start) && read_status(pid).inner_pid == inner_pid;
  });
}

uint64_t pid_namespace() {
  return static_cast<uint64_t>(number(kernel::own_link("ns/pid")));
}

bool sees_all_processes() {
  constexpr uint64_t kOfTheSystem = 0xeffffffc;  // the kernel's PROC_PID_INIT_INO
  return pid_namespace() == kOfTheSystem;
}

std::string program_of(pid_t pid) {
  return kernel::proc_link(pid, "exe");
}

uint64_t start_time(pid_t pid) {
  static const int64_t kTick = 1'000'000'000 / sysconf(_SC_CLK_TCK), offset = boot_clock_offset();
  const uint64_t shown = own_stat_number(pid, 22);
  if (shown == 0) return 0;
  // Signed: by such a clock a process may have started before the boot.
  const int64_t start = static_cast<int64_t>(shown * static_cast<uint64_t>(kTick)) - offset;
  return static_cast<uint64_t>((start + kTick / 2) / kTick);
}

uint64_t stack_start(pid_t pid) {
  return own_stat_number(pid, 28);
}

}  // namespace mdl::process
