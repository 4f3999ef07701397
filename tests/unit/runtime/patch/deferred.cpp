// What waits at tail jumps: the code of an entry, a tail jump and a return, run here. Each is called from the
// same frame, so that the return address has one place; a deeper call has another.
#include <functional>

#include "runtime/arch/clock.h"
#include "tests/unit/runtime/patch/point_code.h"

namespace mdl {
namespace {

class Deferred : public PointCode {
 protected:
  static constexpr uint32_t kFlag = 1, kTimer = 3;

  void SetUp() override {
    PointCode::SetUp();
    lower_ = count_;
    for (size_t i = 7; i < 11; i++) lower_.code[i] = std::byte{0xff};  // addq $-1
    arch::Piece up = piece(kFlag), down = piece(kFlag);
    up.raises = {resident::raised_cell(layout_, kFlag, format::CellKind::flag)};
    down.stencil = &lower_, down.lowers = up.raises, down.waits = layout_.cells[kFlag];
    down_ = {down};
    entry_ = emit(std::span(&up, 1), kAllLive);
    jump_ = emit_jump(down_, direct_, kCodeAt + 1024);
    arch::PointFrame ends;
    ends.ends_deferred = true;
    return_ = emit({}, kAllLive, format::PointKind::return_, ends, kCodeAt + 2048);
    run(entry_);  // claims the slot
    slot_ = slot_of(thread_pointer());
    flag()[0] = 0;
  }

  const void* emit_jump(std::span<const arch::Piece> pieces, const arch::Deferral& deferral, uint64_t where) {
    arch::PointFrame frame;
    frame.deferral = &deferral;
    return emit(pieces, kAllLive, format::PointKind::return_, frame, where);
  }

  // All registers and flags are kept.
  __attribute__((noinline)) void run(const void* code) {
    State before{};
    for (uint64_t i = 0; i < 16; i++) before.regs[i] = 0x0123456789abcdefu * (i + 1);
    before.flags = 0xad7;
    State after = before;
    run_with(&after, code);
    for (int i = 0; i < 16; i++) EXPECT_EQ(after.regs[i], before.regs[i]) << "register " << i;
    EXPECT_EQ(after.flags, before.flags);
  }
  __attribute__((noinline)) void run_deeper(const void* code) {
    volatile char room[256] = {};
    run(code);
    EXPECT_EQ(room[0], 0);
  }

  uint64_t* flag() { return &cell(slot_, kFlag); }
  uint64_t* timer() { return &cell(slot_, kTimer); }
  uint64_t* block() { return &data_[layout_.block(slot_) / 8]; }
  uint64_t waiting() { return block()[kBlockDeferred / 8] / 16; }
  uint64_t* list() { return block() + layout_.deferred / 8; }
  uint64_t anomalies() { return block()[0]; }

  plan::Stencil lower_;
  std::vector<arch::Piece> down_;
  const arch::Deferral direct_{};
  const void *entry_ = nullptr, *jump_ = nullptr, *return_ = nullptr;
  uint32_t slot_ = 0;
};

TEST_F(Deferred, TheOutermostFrameWaitsForTheReturn) {
  run(entry_);
  for (int i = 0; i < 300; i++) run(jump_);  // a function that ends with itself: it waits once
  EXPECT_EQ(flag()[0], 1u);
  EXPECT_EQ(waiting(), 1u);
  run_deeper(return_);  // a call of its own, of the function that it ends with
  EXPECT_EQ(flag()[0], 1u);
  run(return_);
  EXPECT_EQ(flag()[0], 0u);
  EXPECT_EQ(waiting(), 0u);
  run(return_);  // called by nobody who waits
  EXPECT_EQ(flag()[0], 0u);
  EXPECT_EQ(anomalies(), 0u);
}

TEST_F(Deferred, AnInnerFrameLowersAtOnce) {
  run(entry_);
  run_deeper(entry_);
  EXPECT_EQ(flag()[0], 2u);
  run_deeper(jump_);
  EXPECT_EQ(flag()[0], 1u);
  EXPECT_EQ(waiting(), 0u);
  run_deeper(return_);
  EXPECT_EQ(flag()[0], 1u);
  run(jump_);
  run(return_);
  EXPECT_EQ(flag()[0], 0u);
}

// The function that it ends with raises the same flag, and has lowered it when what waits is looked at.
TEST_F(Deferred, WhatIsDownAlreadyStaysDown) {
  run(entry_);
  run(jump_);
  flag()[0] = 0;
  run(return_);
  EXPECT_EQ(flag()[0], 0u);
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(Deferred, ATimerRunsUntilTheReturn) {
  run(entry_);
  const uint64_t place = flag()[1];
  flag()[0] = 0;
  arch::Piece stop = piece(0);
  stop.lowers = {resident::raised_cell(layout_, kTimer, format::CellKind::wall_timer)};
  stop.waits = layout_.cells[kTimer];
  const void* jump = emit_jump(std::span(&stop, 1), direct_, kCodeAt + 1024);
  const uint64_t begun = arch::wall_ticks();
  timer()[0] = uint64_t{0} - begun, timer()[1] = 2, timer()[2] = place;
  run(jump);
  EXPECT_EQ(timer()[0], uint64_t{0} - begun);
  EXPECT_EQ(timer()[1], 2u);
  EXPECT_EQ(cell(slot_, 0), 0u);  // the piece has not run
  run(return_);
  EXPECT_EQ(timer()[1], 0u);
  EXPECT_GT(static_cast<int64_t>(timer()[0]), 0);
  EXPECT_LE(timer()[0], arch::wall_ticks() - begun);
}

TEST_F(Deferred, ASlotThatLeadsElsewhereIsNotWaitedFor) {
  uint64_t slot = 0x123456789;
  const arch::Deferral same{reinterpret_cast<uint64_t>(&slot), 0x123456789, 0};
  const arch::Deferral other{reinterpret_cast<uint64_t>(&slot), 0x12345678a, 0x12345678b};
  const arch::Deferral unbound{reinterpret_cast<uint64_t>(&slot), 0x12345678a, 0x123456789};
  run(entry_);
  run(emit_jump(down_, other, kCodeAt + 1024));
  EXPECT_EQ(flag()[0], 0u);
  EXPECT_EQ(anomalies(), 1u);
  run(entry_);
  run(emit_jump(down_, same, kCodeAt + 1024));
  EXPECT_EQ(flag()[0], 1u);
  run(return_);
  run(entry_);
  run(emit_jump(down_, unbound, kCodeAt + 1024));
  EXPECT_EQ(flag()[0], 1u);
  EXPECT_EQ(anomalies(), 1u);
}

TEST_F(Deferred, WithoutRoomItLowersAtOnce) {
  timer()[1] = 1, timer()[2] = 0x1000;  // stands for all that wait
  for (uint64_t i = 0; i < kDeferredBytes / 8; i += 2)
    list()[i] = 0x1000, list()[i + 1] = layout_.cells[kTimer];
  block()[kBlockDeferred / 8] = kDeferredBytes;
  run(entry_);
  run(jump_);
  EXPECT_EQ(flag()[0], 0u);
  EXPECT_EQ(anomalies(), 1u);
  timer()[1] = 0;  // they have vanished: there is room again
  run(entry_);
  run(jump_);
  EXPECT_EQ(flag()[0], 1u);
  EXPECT_EQ(waiting(), 1u);
  EXPECT_EQ(anomalies(), 1u);
}

// Whatever the program has written over the list: no memory but the block is touched.
TEST_F(Deferred, ADamagedListDoesNoHarm) {
  run(entry_);
  const uint64_t place = flag()[1];
  for (uint64_t depth :
       {uint64_t{8}, uint64_t{24}, kDeferredBytes + uint64_t{16}, UINT64_MAX, uint64_t{1} << 63})
    for (uint64_t garbage :
         {uint64_t{0}, uint64_t{8}, uint64_t{layout_.stride}, UINT64_MAX, uint64_t{1} << 40}) {
      for (uint64_t i = 0; i < kDeferredBytes / 8; i += 2) list()[i] = place, list()[i + 1] = garbage;
      block()[kBlockDeferred / 8] = depth;
      flag()[0] = 1, flag()[1] = place;
      run(jump_);
      run(return_);
    }
}

// Code behind the lowering, under a guard that the flag is up: it is down there in the outermost frame.
TEST_F(Deferred, CodeBehindSeesTheFlagAsLowered) {
  const arch::Piece pieces[] = {down_[0], piece(0, {static_cast<int64_t>(layout_.cells[kFlag])})};
  const void* jump = emit_jump(pieces, direct_, kCodeAt + 1024);
  run(entry_);
  run_deeper(entry_);
  run_deeper(jump);
  EXPECT_EQ(cell(slot_, 0), 1u);
  run(jump);
  EXPECT_EQ(cell(slot_, 0), 1u);
  EXPECT_EQ(flag()[0], 1u);
}

}  // namespace
}  // namespace mdl
