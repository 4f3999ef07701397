// Edits of code, in this process's own memory.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/arch/description.h"
#include "runtime/patch/edit.h"

namespace mdl::patch {
namespace {

class Edits : public testing::Test {
 protected:
  void SetUp() override {
    page_ = static_cast<uint8_t*>(mmap(nullptr, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    auto memory = process::TargetMemory::open(getpid());
    ASSERT_TRUE(memory) << memory.error().text;
    memory_.emplace(std::move(*memory));
  }
  void TearDown() override { munmap(page_, 3 * 4096); }
  uint64_t at(size_t offset) const { return reinterpret_cast<uint64_t>(page_) + offset; }

  static constexpr uint8_t kOld[2] = {0, 0}, kNew[2] = {7, 8};
  uint8_t* page_ = nullptr;
  std::optional<process::TargetMemory> memory_;
};

TEST_F(Edits, ManyInAPageAndInSeveral) {
  Edit edits[] = {{at(3), kOld, kNew}, {at(9), kOld, kNew}, {at(4094), kOld, kNew}, {at(8000), kOld, kNew}};
  EXPECT_EQ(memory_->edit(edits, true).changed.size(), 4u);
  EXPECT_EQ(page_[3], 0);
  EXPECT_EQ(memory_->edit(edits).changed.size(), 4u);
  for (size_t offset : {3, 9, 4094, 8000}) {
    EXPECT_EQ(page_[offset], 7);
    EXPECT_EQ(page_[offset + 1], 8);
  }
  EXPECT_EQ(page_[5], 0);
  Edited again = memory_->edit(edits);
  EXPECT_TRUE(again.changed.empty());
  EXPECT_TRUE(again.foreign.empty());
}

TEST_F(Edits, WhatIsSomebodyElsesStays) {
  mprotect(page_, 4096, PROT_READ | PROT_WRITE);
  page_[9] = 99;
  Edit edits[] = {{at(3), kOld, kNew}, {at(9), kOld, kNew}, {at(3 * 4096 + (uint64_t{1} << 40)), kOld, kNew}};
  Edited done = memory_->edit(edits);
  EXPECT_EQ(done.changed, std::vector<size_t>{0});
  EXPECT_EQ(done.foreign, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(page_[9], 99);
}

// Pages that are read together otherwise.
TEST_F(Edits, APageThatIsNotThereHidesNoOther) {
  munmap(page_ + 4096, 4096);
  Edit edits[] = {{at(3), kOld, kNew}, {at(9), kOld, kNew}, {at(5000), kOld, kNew}, {at(9000), kOld, kNew}};
  for (const bool only_look : {true, false}) {
    const Edited done = memory_->edit(edits, only_look);
    EXPECT_EQ(done.changed, (std::vector<size_t>{0, 1, 3}));
    EXPECT_EQ(done.foreign, std::vector<size_t>{2});
    EXPECT_FALSE(done.failed);
  }
  for (size_t offset : {3, 9, 9000}) EXPECT_EQ(page_[offset], 7);
}

// A broker takes them from a process that may have been taken over: an order is no reason to leave its own memory.
TEST_F(Edits, AreMadeInAnyOrder) {
  Edit edits[] = {
      {at(9000), kOld, kNew}, {at(4000), kOld, kNew}, {at(3000), kOld, kNew}, {at(3900), kOld, kNew}};
  const Edited done = memory_->edit(edits);
  EXPECT_EQ(done.changed, (std::vector<size_t>{0, 1, 2, 3}));
  for (size_t offset : {9000, 4000, 3000, 3900}) EXPECT_EQ(page_[offset], 7);
}

TEST_F(Edits, BreakpointsStay) {
  mprotect(page_, 4096, PROT_READ | PROT_WRITE);
  const Edit edit{at(3), kNew, kOld};
  page_[3] = arch::kMachine.breakpoint[0], page_[4] = kNew[1];
  EXPECT_TRUE(edit_around_breakpoints(edit, *memory_));
  EXPECT_EQ(page_[3], arch::kMachine.breakpoint[0]);
  EXPECT_EQ(page_[4], kOld[1]);
  EXPECT_TRUE(edit_around_breakpoints(edit, *memory_)) << "a second time";
  page_[4] = 99;
  EXPECT_FALSE(edit_around_breakpoints(edit, *memory_));
  EXPECT_EQ(page_[4], 99);
}

}  // namespace
}  // namespace mdl::patch
