// The calls of remote_stub.cpp and resident.S.
#include "runtime/arch/system_calls.h"

#include <asm/unistd_64.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <csignal>
#include <ctime>

#include "runtime/arch/target_data.h"

namespace mdl::arch {
namespace {

struct Named {
  long number;
  std::string_view name;
};
constexpr Named kNames[] = {
    {__NR_memfd_create, "memfd_create"},
    {__NR_ftruncate, "ftruncate"},
    {__NR_mmap, "mmap"},
    {__NR_munlock, "munlock"},
    {__NR_mprotect, "mprotect"},
    {__NR_munmap, "munmap"},
    {__NR_close, "close"},
    {__NR_rt_sigprocmask, "rt_sigprocmask"},
    {__NR_restart_syscall, "restart_syscall"},
    {__NR_getpid, "getpid"},
    {__NR_nanosleep, "nanosleep"},
    {__NR_gettid, "gettid"},
    {__NR_clock_gettime, "clock_gettime"},
    {__NR_getrusage, "getrusage"},
    {__NR_process_vm_readv, "process_vm_readv"},
    {__NR_readlink, "readlink"},
    {__NR_prctl, "prctl"},
};
constexpr uint64_t kMaskBytes = 8;
constexpr uint64_t kNoReplace = 0x100000;  // MAP_FIXED_NOREPLACE

}  // namespace

std::string call_name(long number) {
  for (const Named& named : kNames)
    if (named.number == number) return std::string(named.name);
  return fmt::format("system call {}", number);
}

PlannedCall signal_mask_call() {
  return {__NR_rt_sigprocmask, {SIG_SETMASK, kUnknown, kUnknown, kMaskBytes}, "every remote call"};
}

std::vector<PlannedCall> insertion_calls(bool follow, bool locked) {
  constexpr std::string_view kInsertion = "the insertion", kRemoval = "the removal";
  std::vector<PlannedCall> out = {signal_mask_call(),
                                  {__NR_memfd_create, {kUnknown, MFD_CLOEXEC}, kInsertion},
                                  {__NR_ftruncate, {kUnknown, kUnknown}, kInsertion}};
  constexpr uint64_t kReadable = PROT_READ, kWritable = PROT_READ | PROT_WRITE;
  for (uint64_t protection : {kReadable, locked ? PROT_NONE : kWritable, kReadable | PROT_EXEC})
    out.push_back(
        {__NR_mmap,
         {kUnknown, kUnknown, protection, MAP_PRIVATE | MAP_NORESERVE | kNoReplace, kUnknown, kUnknown},
         kInsertion});
  if (locked) {
    out.push_back({__NR_munlock, {kUnknown, kUnknown}, kInsertion});
    out.push_back({__NR_mprotect, {kUnknown, kUnknown, kWritable}, kInsertion});
  }
  if (follow)
    out.push_back(
        {__NR_mmap,
         {kUnknown, kUnknown, kWritable, MAP_SHARED | MAP_NORESERVE | kNoReplace, kUnknown, kUnknown},
         "the following of forks"});
  out.push_back({__NR_close, {kUnknown}, kInsertion});
  out.push_back({__NR_munmap, {kUnknown, kUnknown}, kRemoval});
  return out;
}

std::vector<PlannedCall> resident_calls(bool asks_id, bool follow) {
  std::vector<PlannedCall> out = {
      {__NR_rt_sigprocmask, {SIG_SETMASK, kUnknown, kUnknown, kMaskBytes}, "telling threads apart"},
      {__NR_rt_sigprocmask, {kNoMaskChange, kUnknown, 0, kMaskBytes}, "the returns of posix_spawn"},
      {__NR_getpid, {}, "reading the last values at the end of the process"}};
  if (follow) out.push_back({__NR_nanosleep, {kUnknown, 0}, "the following of forks"});
  if (follow && !asks_id) out.push_back({__NR_gettid, {}, "the following of forks"});
  if (asks_id) out.push_back({__NR_gettid, {}, "telling threads apart"});
  return out;
}

std::vector<PlannedCall> routine_calls(format::Routine routine) {
  switch (routine) {
    case format::Routine::cpu:
      return {{__NR_clock_gettime, {CLOCK_THREAD_CPUTIME_ID, kUnknown}, "the thread's CPU time"}};
    case format::Routine::now:
      return {{__NR_clock_gettime, {CLOCK_MONOTONIC, kUnknown}, "$now"}};
    case format::Routine::event:
      return {{__NR_getrusage, {static_cast<uint64_t>(RUSAGE_THREAD), kUnknown}, "counts of events"}};
    case format::Routine::read:
      return {{__NR_gettid, {}, "readAddress and str"},
              {__NR_process_vm_readv, {kUnknown, kUnknown, 1, kUnknown, kUnknown, 0}, "readAddress and str"}};
    default:
      return {};
  }
}

std::vector<PlannedCall> descriptor_calls() {
  return {{__NR_readlink, {kUnknown, kUnknown, kTextBytes}, "file, socket and descriptor"}};
}

}  // namespace mdl::arch
