// Where a thread must be when it makes the calls of a remote stub.
#include "runtime/arch/remote_stub.h"

#include <asm/unistd_64.h>
#include <gtest/gtest.h>

#include "runtime/arch/description.h"
#include "runtime/arch/x86_64/thread_words.h"

namespace mdl::arch {
namespace {

constexpr uint64_t kAddress = 0x401000;

RemoteStub stub_of_two() {
  const std::vector<RemoteCall> calls = {{kMachine.calls.memfd_create, {kTextTag, 1}, true},
                                         {kMachine.calls.close, {kLastResult}, false}};
  return remote_stub(calls, "text", ThreadRegisters{}, 0, kAddress);
}

TEST(RemoteStub, SaysWhereItsCallsAre) {
  const RemoteStub stub = stub_of_two();
  const long numbers[] = {__NR_rt_sigprocmask, __NR_memfd_create, __NR_close, __NR_rt_sigprocmask};
  ASSERT_EQ(stub.calls.size(), std::size(numbers));
  uint64_t before = kAddress;
  for (size_t i = 0; i < stub.calls.size(); i++) {
    const auto [number, next] = stub.calls[i];
    EXPECT_EQ(number, numbers[i]);
    ASSERT_GT(next, before);
    ASSERT_LE(next - kAddress, stub.code.size());
    EXPECT_EQ(stub.code[next - kAddress - 2], 0x0f);  // syscall
    EXPECT_EQ(stub.code[next - kAddress - 1], 0x05);
    before = next;
  }
}

TEST(RemoteStub, IsEnteredByNoCallThatIsDropped) {
  ThreadRegisters registers{};
  registers.words[word_orig_rax] = __NR_memfd_create;
  EXPECT_EQ(system_call(registers), __NR_memfd_create);
  drop_call(registers);
  EXPECT_LT(system_call(registers), 0);
}

}  // namespace
}  // namespace mdl::arch
