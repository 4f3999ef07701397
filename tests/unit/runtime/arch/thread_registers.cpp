// What the result of an interrupted system call says.
#include "runtime/arch/thread_registers.h"

#include <asm/unistd_64.h>
#include <gtest/gtest.h>

#include "runtime/arch/x86_64/thread_words.h"

namespace mdl::arch {
namespace {

ThreadRegisters in_call(int64_t number, int64_t result) {
  ThreadRegisters out{};
  out.words[word_orig_rax] = static_cast<uint64_t>(number);
  out.words[word_rax] = static_cast<uint64_t>(result);
  return out;
}

// The kernel's numbers for a call that it restarts (linux/errno.h).
TEST(ThreadRegisters, KnowAWaitThatWasInterrupted) {
  for (const int64_t restart : {-512, -513, -514, -516})
    EXPECT_TRUE(interrupted_wait(in_call(__NR_read, restart))) << restart;
  for (const int64_t result : {-515, -511, -517, -11, 0, 512})
    EXPECT_FALSE(interrupted_wait(in_call(__NR_read, result))) << result;
  EXPECT_FALSE(interrupted_wait(in_call(-1, -512)));  // in no call
}

TEST(ThreadRegisters, AHiddenInterruptionIsAWait) {
  ThreadRegisters registers = in_call(__NR_epoll_wait, -4);
  EXPECT_FALSE(interrupted_wait(registers));
  ASSERT_TRUE(hide_interruption(registers));
  EXPECT_TRUE(interrupted_wait(registers));
}

}  // namespace
}  // namespace mdl::arch
