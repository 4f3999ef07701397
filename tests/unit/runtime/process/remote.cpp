// Where a thread must be when it makes the calls of a remote stub.
#include "runtime/process/remote.h"

#include <gtest/gtest.h>
#include <linux/audit.h>

#include "runtime/arch/description.h"

namespace mdl::process {
namespace {

TEST(RemoteCalls, AreLeftByAnotherCallPlaceOrMachine) {
  const arch::RemoteStub::Call call{arch::kMachine.calls.munmap, 0x401020};
  __ptrace_syscall_info enters{};
  enters.op = PTRACE_SYSCALL_INFO_ENTRY;
  enters.arch = arch::kMachine.audit;
  enters.instruction_pointer = call.next;
  enters.entry.nr = static_cast<uint64_t>(call.number);
  EXPECT_TRUE(is_at(enters, call, true));
  EXPECT_FALSE(is_at(enters, call, false));

  __ptrace_syscall_info other = enters;
  other.entry.nr++;
  EXPECT_FALSE(is_at(other, call, true));
  other = enters;
  other.instruction_pointer++;
  EXPECT_FALSE(is_at(other, call, true));
  other = enters;
  other.arch = AUDIT_ARCH_I386;  // int $0x80, where munmap's number is execve's
  EXPECT_FALSE(is_at(other, call, true));
  EXPECT_FALSE(is_at({}, call, true));  // no stop of a system call

  __ptrace_syscall_info leaves = enters;
  leaves.op = PTRACE_SYSCALL_INFO_EXIT;
  EXPECT_TRUE(is_at(leaves, call, false));
  EXPECT_FALSE(is_at(leaves, call, true));
}

}  // namespace
}  // namespace mdl::process
