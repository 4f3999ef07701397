// What a fork's child begins with, and how its threads wait for that: resident code, run here.
#include <gmock/gmock.h>

#include <atomic>

#include "runtime/resident/child.h"
#include "runtime/values/spans.h"
#include "tests/unit/runtime/patch/point_code.h"

namespace mdl {
namespace {

class Followed : public PointCode {
 protected:
  void SetUp() override {
    thread_at_ = kThreadAt;
    news_ = reinterpret_cast<uint64_t>(page_);
    PointCode::SetUp();
    process() = static_cast<uint64_t>(getpid());
    arch::Piece pieces[] = {piece(0)};
    count_one_ = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, kAllLive)));
    count_one_();
    slot_ = slot_of(thread_pointer());
  }
  uint64_t& process() { return data_[kHeaderProcess / 8]; }
  uint64_t missed() { return data_[kHeaderMissed / 8]; }
  // As after a fork: the data are another process's, the block another thread's.
  void fork() {
    process() = 1;
    data_[kHeaderSharer / 8] = data_[kHeaderMissed / 8] = 0;
    data_[layout_.block(slot_) / 8 + 1] = 2;
    cell(slot_, 0) = 1000;
  }

  alignas(64) uint64_t page_[kNewsSize / 8] = {};
  void (*count_one_)() = nullptr;
  uint32_t slot_ = 0;
};

TEST_F(Followed, TheProcessItselfDoesNotWait) {
  data_[layout_.block(slot_) / 8 + 1] = 2;  // another thread has begun in its place
  count_one_();
  EXPECT_EQ(cell(slot_, 0), 1u);
  EXPECT_EQ(page_[kNewsMade / 8], 0u);
}

TEST_F(Followed, AChildWaitsUntilItsDataAreItsOwn) {
  fork();
  std::thread injector([&] {
    auto at = [](uint64_t& word) { return std::atomic_ref(word).load(); };
    while (at(page_[kNewsMade / 8]) == 0 || at(page_[kNewsRing / 8]) == 0) usleep(100);
    EXPECT_EQ(at(page_[kNewsRing / 8]), static_cast<uint64_t>(getpid()));
    EXPECT_EQ(at(cell(slot_, 0)), 1000u);
    cell(slot_, 0) = 0;
    std::atomic_ref(process()).store(static_cast<uint64_t>(getpid()));
  });
  count_one_();
  injector.join();
  EXPECT_EQ(page_[kNewsMade / 8], 1u);
  EXPECT_EQ(missed(), 0u);
  EXPECT_EQ(cell(slot_, 0), 1u);
  count_one_();
  EXPECT_EQ(cell(slot_, 0), 2u);
  EXPECT_EQ(page_[kNewsMade / 8], 1u);
}

TEST_F(Followed, WhoSharesTheMemoryPasses) {
  fork();
  data_[kHeaderSharer / 8] = static_cast<uint64_t>(getpid());
  count_one_();
  EXPECT_EQ(page_[kNewsMade / 8], 0u);
  EXPECT_EQ(missed(), 0u);
}

TEST_F(Followed, OneWaitsInVainAndNobodyAfterIt) {
  for (int child = 0; child < 3; child++) {
    fork();
    timespec begun{}, ended{};
    clock_gettime(CLOCK_MONOTONIC, &begun);
    count_one_();
    clock_gettime(CLOCK_MONOTONIC, &ended);
    EXPECT_EQ(missed(), 1u);
    EXPECT_EQ(page_[kNewsNobody / 8], 1u);
    EXPECT_EQ(page_[kNewsMade / 8], 1u);
    EXPECT_EQ(page_[kNewsMissedForks / 8], static_cast<uint64_t>(child) + 1);
    const int64_t ms = (ended.tv_sec - begun.tv_sec) * 1000 + (ended.tv_nsec - begun.tv_nsec) / 1'000'000;
    EXPECT_EQ(ms >= 400, child == 0);
  }
}

TEST_F(Followed, WaitingKeepsRegistersAndFlags) {
  arch::Piece pieces[] = {piece(0)};
  const void* at = emit(pieces, kAllLive, format::PointKind::call_before);
  for (bool nobody : {false, true}) {
    fork();
    page_[kNewsNobody / 8] = nobody;
    State before{};
    for (uint64_t i = 0; i < 16; i++) before.regs[i] = 0x1111111111111111u * (i + 1);
    before.flags = 0xad7;
    State after = before;
    run_with(&after, at);
    for (int i = 0; i < 16; i++) EXPECT_EQ(after.regs[i], before.regs[i]) << "register " << i;
    EXPECT_EQ(after.flags, before.flags);
    EXPECT_EQ(missed(), 1u);
  }
}

// At its end, and where it executes another program, which may fail: so it can be passed again.
TEST_F(Followed, TheEndIsReadAndPassed) {
  uint64_t* words = &data_[kHeaderExit / 8];
  words[2] = 1;
  for (uint64_t round = 1; round <= 3; round++) {
    uint64_t waited = 0;
    std::thread injector([&] {
      while (std::atomic_ref(words[0]).load() < round) usleep(100);
      usleep(5000);
      std::atomic_ref(waited).store(1);
      std::atomic_ref(words[1]).store(round);
    });
    State before{};
    for (uint64_t i = 0; i < 16; i++) before.regs[i] = 0x3333333333333333u * (i + 1);
    before.flags = 0xad7;
    State after = before;
    run_with(&after, code_ + arch::hook_offset(arch::Hook::exit));
    EXPECT_EQ(std::atomic_ref(waited).load(), 1u) << "what was read before is not enough";
    injector.join();
    for (int i = 0; i < 16; i++) EXPECT_EQ(after.regs[i], before.regs[i]) << "register " << i;
    EXPECT_EQ(after.flags, before.flags);
  }
  fork();  // a child that is not measured does not wait
  State state{};
  run_with(&state, code_ + arch::hook_offset(arch::Hook::exit));
  EXPECT_EQ(words[0], 3u);
}

// A thread that is about to execute a program. Another one asks in the first place.
class Executing : public Followed {
 protected:
  void SetUp() override {
    Followed::SetUp();
    page_[kNewsPrograms / 8] = 1;
    asking(0) = 1;
    page_[kNewsAsks / 8] = kNewsAskers;  // the first place is the next one
  }
  uint64_t& asking(size_t i) { return page_[kNewsAsking / 8 + i]; }
  uint64_t missed_programs() { return page_[kNewsMissedPrograms / 8]; }
  void execute() {
    State before{};
    for (uint64_t i = 0; i < 16; i++) before.regs[i] = 0x5555555555555555u * (i + 1);
    before.flags = 0xad7;
    State after = before;
    run_with(&after, code_ + arch::hook_offset(arch::Hook::exec));
    for (int i = 0; i < 16; i++) EXPECT_EQ(after.regs[i], before.regs[i]) << "register " << i;
    EXPECT_EQ(after.flags, before.flags);
  }
};

TEST_F(Executing, AsksInAPlaceOfItsOwnUntilItIsAnswered) {
  std::atomic<bool> answered = false;
  std::thread injector([&] {
    while (std::atomic_ref(asking(1)).load() == 0) usleep(100);
    EXPECT_EQ(asking(1), static_cast<uint64_t>(getpid()));
    usleep(5000);
    answered = true;
    std::atomic_ref(asking(1)).store(0);
  });
  execute();
  EXPECT_TRUE(answered);
  injector.join();
  EXPECT_EQ(asking(0), 1u) << "another thread's";
  EXPECT_EQ(missed_programs(), 0u);
}

TEST_F(Executing, IsCountedWhenNobodyAnswers) {
  execute();
  EXPECT_EQ(missed_programs(), 1u);
  EXPECT_EQ(page_[kNewsNobody / 8], 1u);
  execute();  // does not ask
  EXPECT_EQ(missed_programs(), 2u);
  EXPECT_EQ(asking(2), 0u);
}

TEST_F(Executing, IsCountedWhenThereIsNoPlaceToAsk) {
  for (size_t i = 0; i < kNewsAskers; i++) asking(i) = 1;
  execute();
  EXPECT_EQ(missed_programs(), 1u);
  for (size_t i = 0; i < kNewsAskers; i++) EXPECT_EQ(asking(i), 1u);
}

TEST(BeginAnew, WhatTheForkingThreadKeeps) {
  using format::CellKind;
  const std::vector<focus::CellSlot> cells = {{CellKind::counter, "c"},       {CellKind::flag, "f"},
                                              {CellKind::wall_timer, "w"},    {CellKind::process_timer, "p"},
                                              {CellKind::process_timer, "s"}, {CellKind::span_, "open"},
                                              {CellKind::span_, "closed"},    {CellKind::call, "call"}};
  resident::Journal journal;
  journal.layout = resident::make_layout(cells, 1);
  for (const focus::CellSlot& cell : cells) journal.kinds.push_back(cell.kind);
  journal.requests.resize(3);
  journal.requests[0].value = 0, journal.requests[0].children = 2;
  journal.requests[1].value = 5, journal.requests[1].of = 0;
  journal.requests[2].value = 6, journal.requests[2].of = 0;
  std::vector<uint64_t> block(journal.layout.stride / 8);
  const auto word = [&](size_t cell, size_t i = 0) -> uint64_t& {
    return block[journal.layout.cells[cell] / 8 + i];
  };
  block[0] = 3, block[1] = 44, block[2] = 5;  // anomalies, thread, sequence
  word(0) = 1000;
  word(1) = 2, word(1, 1) = 0x7000;
  word(2) = uint64_t{0} - 500, word(2, 1) = 1, word(2, 2) = 0x7010;  // runs
  word(3) = uint64_t{0} - 500, word(3, 1) = 2;                       // runs
  word(4) = 900;                                                     // stands
  word(5) = values::open_span(30, 400);
  word(6) = 70;
  word(7) = 0x7020;
  resident::begin_anew(journal, block, 55, 12345);
  EXPECT_THAT(std::vector(block.begin(), block.begin() + 3), testing::ElementsAre(0, 55, 0));
  EXPECT_EQ(word(0), 0u);
  EXPECT_EQ(word(1), 2u);
  EXPECT_EQ(word(1, 1), 0x7000u);
  EXPECT_EQ(word(2), uint64_t{0} - 12345);
  EXPECT_EQ(word(2, 1), 1u);
  EXPECT_EQ(word(2, 2), 0x7010u);
  EXPECT_EQ(word(3), uint64_t{0} - (uint64_t{1} << 56));
  EXPECT_EQ(word(3, 1), 2u);
  EXPECT_EQ(word(4), 0u);
  EXPECT_TRUE(values::is_open(word(5)));
  EXPECT_EQ(values::span_value(word(5), 0), 0);
  EXPECT_EQ(values::span_value(word(5), 9), 9);
  EXPECT_EQ(word(6), 0u);
  EXPECT_EQ(word(7), 0x7020u);
}

}  // namespace
}  // namespace mdl
