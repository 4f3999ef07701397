// What filters mean for the calls that are made in a target.
#include "runtime/process/seccomp.h"

#include <asm/unistd.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <sys/mman.h>

#include <cstddef>

namespace mdl::process {
namespace {

using testing::HasSubstr;

// Allows everything but `number`, for which it returns `action`; another machine's calls are killed.
Filter deny(int number, uint32_t action) {
  return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
          BPF_STMT(BPF_RET | BPF_K, action),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
}
// As MemoryDenyWriteExecute: mmap with both rights is refused.
Filter deny_writable_code() {
  constexpr uint32_t both = PROT_WRITE | PROT_EXEC;
  return {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mmap, 0, 4),
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + 16),
          BPF_STMT(BPF_ALU | BPF_AND | BPF_K, both),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, both, 0, 1),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
}
Confinement of(std::vector<Filter> filters) {
  Confinement out;
  out.thread = 7;
  out.filters = std::move(filters);
  return out;
}
std::string of_all(const Confinement& confinement, const std::vector<arch::PlannedCall>& calls) {
  return Sandbox({confinement}).why_denied(calls);
}

TEST(Seccomp, ActionsAreNamed) {
  const arch::PlannedCall call{__NR_memfd_create, {arch::kUnknown, MFD_CLOEXEC}, "the insertion"};
  auto why = [&](uint32_t action) { return why_denied(of({deny(__NR_memfd_create, action)}), call); };
  EXPECT_EQ(why(SECCOMP_RET_ALLOW), "");
  EXPECT_EQ(why(SECCOMP_RET_LOG), "");
  EXPECT_EQ(why(SECCOMP_RET_KILL_PROCESS), "a seccomp filter kills the process at memfd_create");
  EXPECT_EQ(why(SECCOMP_RET_KILL_THREAD), "a seccomp filter kills the thread at memfd_create");
  EXPECT_EQ(why(SECCOMP_RET_TRAP), "a seccomp filter sends SIGSYS at memfd_create");
  EXPECT_EQ(why(SECCOMP_RET_ERRNO | 13), "a seccomp filter answers with EACCES at memfd_create");
  EXPECT_EQ(why(SECCOMP_RET_TRACE), "a seccomp filter asks a tracer at memfd_create");
  EXPECT_EQ(why(SECCOMP_RET_USER_NOTIF), "a seccomp filter asks a supervisor at memfd_create");
  EXPECT_THAT(why(0x12340000), HasSubstr("kills the process"));  // unknown to the kernel, too
}

TEST(Seccomp, OneOfSeveralFiltersIsEnough) {
  const arch::PlannedCall call{__NR_munmap, {0, 4096}, "the removal"};
  EXPECT_EQ(why_denied(of({deny(__NR_mmap, 0), deny(__NR_close, 0)}), call), "");
  EXPECT_NE(why_denied(of({deny(__NR_mmap, 0), deny(__NR_munmap, SECCOMP_RET_ERRNO | 1)}), call), "");
  // The strictest is what happens.
  EXPECT_THAT(
      why_denied(of({deny(__NR_munmap, SECCOMP_RET_ERRNO | 1), deny(__NR_munmap, SECCOMP_RET_KILL_PROCESS),
                     deny(__NR_munmap, SECCOMP_RET_TRAP)}),
                 call),
      HasSubstr("kills the process"));
}

TEST(Seccomp, CodeThatIsNeverWritablePassesMemoryDenyWriteExecute) {
  EXPECT_EQ(of_all(of({deny_writable_code()}), arch::insertion_calls()), "");
  const arch::PlannedCall writable{__NR_mmap, {0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, 0, 3, 0}, "x"};
  EXPECT_THAT(why_denied(of({deny_writable_code()}), writable), HasSubstr("EPERM at mmap"));
}

TEST(Seccomp, EachCallOfAnInsertionIsAsked) {
  for (int number :
       {__NR_rt_sigprocmask, __NR_memfd_create, __NR_ftruncate, __NR_mmap, __NR_close, __NR_munmap}) {
    std::string why = of_all(of({deny(number, SECCOMP_RET_KILL_PROCESS)}), arch::insertion_calls());
    EXPECT_THAT(why, HasSubstr("kills the process at " + arch::call_name(number)));
    EXPECT_THAT(why, HasSubstr("thread 7"));
  }
}

TEST(Seccomp, LockedMemoryTakesTwoMore) {
  for (int number : {__NR_munlock, __NR_mprotect}) {
    const Confinement confined = of({deny(number, SECCOMP_RET_KILL_PROCESS)});
    EXPECT_EQ(of_all(confined, arch::insertion_calls()), "");
    EXPECT_THAT(of_all(confined, arch::insertion_calls(false, true)),
                HasSubstr("kills the process at " + arch::call_name(number)));
  }
}

TEST(Seccomp, FollowingForksTakesTwoMore) {
  // Shared memory, and a child that sleeps until it is measured.
  const Filter no_sharing{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mmap, 0, 3),
                          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[3])),
                          BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  EXPECT_EQ(of_all(of({no_sharing}), arch::insertion_calls()), "");
  EXPECT_THAT(of_all(of({no_sharing}), arch::insertion_calls(true)), HasSubstr("EPERM at mmap"));
  EXPECT_EQ(arch::insertion_calls(true).size(), arch::insertion_calls().size() + 1);
  const Confinement asleep = of({deny(__NR_nanosleep, SECCOMP_RET_ERRNO | 1)});
  EXPECT_EQ(of_all(asleep, arch::resident_calls(true)), "");
  EXPECT_THAT(of_all(asleep, arch::resident_calls(true, true)), HasSubstr("EPERM at nanosleep"));
}

TEST(Seccomp, RoutinesAreAskedByTheirCalls) {
  using format::Routine;
  auto why = [](int number, Routine routine) {
    return of_all(of({deny(number, SECCOMP_RET_ERRNO | 1)}), arch::routine_calls(routine));
  };
  EXPECT_THAT(why(__NR_clock_gettime, Routine::cpu), HasSubstr("EPERM at clock_gettime"));
  EXPECT_THAT(why(__NR_getrusage, Routine::event), HasSubstr("EPERM at getrusage"));
  EXPECT_THAT(why(__NR_clock_gettime, Routine::now), HasSubstr("EPERM at clock_gettime"));
  EXPECT_THAT(why(__NR_process_vm_readv, Routine::read), HasSubstr("EPERM at process_vm_readv"));
  EXPECT_EQ(why(__NR_process_vm_readv, Routine::cpu), "");
  EXPECT_EQ(why(__NR_process_vm_readv, Routine::call), "");
  EXPECT_NE(of_all(of({deny(__NR_gettid, 0)}), arch::resident_calls(true)), "");
  EXPECT_EQ(of_all(of({deny(__NR_gettid, 0)}), arch::resident_calls(false)), "");
}

TEST(Seccomp, WhatIsNotKnownIsNotGuessed) {
  // A filter on the number of the file, on the name's address, on where the call stands.
  auto looking_at = [](uint32_t offset) {
    return Filter{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  };
  for (uint32_t offset : {8u, 12u, 16u, 20u})
    EXPECT_THAT(why_denied(of({looking_at(offset)}), {__NR_memfd_create, {arch::kUnknown, MFD_CLOEXEC}, "x"}),
                HasSubstr("not known before"))
        << offset;
  EXPECT_EQ(why_denied(of({looking_at(24)}), {__NR_memfd_create, {arch::kUnknown, MFD_CLOEXEC}, "x"}), "");
  EXPECT_THAT(why_denied(of({Filter{}}), {__NR_close, {3}, "x"}), HasSubstr("cannot be understood"));
}

TEST(Seccomp, StrictModeAndFiltersThatCannotBeRead) {
  Confinement dispatched;
  dispatched.dispatched = true;
  EXPECT_THAT(of_all(dispatched, arch::insertion_calls()), HasSubstr("PR_SET_SYSCALL_USER_DISPATCH"));
  Confinement strict;
  strict.strict = true;
  EXPECT_THAT(of_all(strict, arch::insertion_calls()),
              HasSubstr("strict mode kills the process at rt_sigprocmask"));
  Confinement unreadable;
  unreadable.unreadable = "that takes CAP_SYS_ADMIN";
  EXPECT_THAT(of_all(unreadable, arch::insertion_calls()), HasSubstr("CAP_SYS_ADMIN"));
}

TEST(Seccomp, ThreadsAreAskedEachForItself) {
  Confinement other = of({deny(__NR_getpid, 0)});
  other.thread = 8;
  EXPECT_THAT(Sandbox({of({deny(__NR_mmap, 0)}), other}).why_denied(arch::resident_calls(false)),
              HasSubstr("thread 8: a seccomp filter kills the thread at getpid"));
  EXPECT_EQ(Sandbox({}).why_denied(arch::insertion_calls()), "");
}

}  // namespace
}  // namespace mdl::process
