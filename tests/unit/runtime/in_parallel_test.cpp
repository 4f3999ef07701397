#include "base/in_parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace mdl {
namespace {

TEST(InParallel, EachIsDoneOnce) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}})
    for (const size_t batch : {size_t{0}, size_t{1}, size_t{64}}) {
      std::vector<std::atomic<int>> done(count);
      in_parallel(count, batch, [&](size_t i) { done[i]++; });
      for (const std::atomic<int>& one : done) EXPECT_EQ(one, 1);
    }
}

TEST(InParallel, AFewAreDoneHere) {
  const auto self = std::this_thread::get_id();
  in_parallel(31, 32, [&](size_t) { EXPECT_EQ(std::this_thread::get_id(), self); });
}

TEST(InParallel, WhatACallThrowsComesOut) {
  std::atomic<int> done = 0;
  const auto work = [&](size_t i) {
    done++;
    if (i == 5) throw std::runtime_error("the fifth");
  };
  EXPECT_THROW(in_parallel(100, 1, work), std::runtime_error);
  EXPECT_GE(done, 6);
}

// A process at its limit of threads does the work by itself. A child of its own, since a limit is for good.
TEST(InParallelDeathTest, WithoutThreads) {
  const auto in_child = [] {
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || (getuid() == 0 && setuid(65534) != 0)) _exit(2);
    bool refused = false;
    try {
      std::thread([] {}).join();
    } catch (const std::system_error&) {
      refused = true;
    }
    std::atomic<int> done = 0;
    in_parallel(100, 1, [&](size_t) { done++; });
    _exit(!refused || done != 100);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace mdl
