// What a function runs itself: the entry of its call stands while it calls, wherever its frame is known from.
#include <map>

#include "runtime/arch/clock.h"
#include "tests/unit/runtime/patch/point_code.h"

namespace mdl {
namespace {

using format::Routine;

constexpr uint64_t kLong = 100'000, kUnknown = ~uint64_t{0};  // ticks
constexpr int kFramePointer = 5, kStackPointer = 4;

void spend(uint64_t ticks) {
  for (const uint64_t begun = arch::wall_ticks(); arch::wall_ticks() - begun < ticks;) {
  }
}

// lea entries(%r11), %rax; call the routine; mov %r10, result(%r11)
plan::Stencil asking(Routine routine) {
  plan::Stencil out;
  out.info.routines = {routine};
  out.info.cells = {{"entries", format::CellKind::entries, true, true},
                    {"result", format::CellKind::counter, true, true}};
  for (uint8_t b : {0x49, 0x8d, 0x83, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x4d, 0x89, 0x93, 0, 0, 0, 0})
    out.code.push_back(static_cast<std::byte>(b));
  out.holes = {{3, 4, plan::HoleKind::cell, 0, 0},
               {8, 4, plan::HoleKind::routine, static_cast<uint32_t>(routine), -4},
               {15, 4, plan::HoleKind::cell, 1, 0}};
  out.written = image::register_bit(0);
  return out;
}

class OwnTimes : public PointCode {
 protected:
  OwnTimes() { cells_.push_back({format::CellKind::entries, "e"}); }

  void SetUp() override {
    PointCode::SetUp();
    const uint8_t place[] = {0x48, 0x89, 0xe0, 0xc3};  // mov %rsp, %rax; ret
    std::memcpy(code_ + kCodeAt, place, sizeof place);
    uint64_t offset = kCodeAt;
    const auto place_code = [&](Routine routine, format::PointKind kind, const arch::PointFrame& frame) {
      offset += 1024;
      const arch::Piece one = piece_of(stencils_[routine] = asking(routine));
      return emit(std::span(&one, 1), kAllLive, kind, frame, offset);
    };
    enter_ = place_code(Routine::enter, format::PointKind::entry, {});
    stayed_ = place_code(Routine::stayed, format::PointKind::return_, {});
    pause_ = place_code(Routine::pause, format::PointKind::call_before, at_call(by_stack()));
    resume_ = place_code(Routine::resume, format::PointKind::call_after, at_call(by_stack()));
    far_pause_ = place_code(Routine::pause, format::PointKind::call_before, at_call(by_frame()));
    far_resume_ = place_code(Routine::resume, format::PointKind::call_after, at_call(by_frame()));
  }

  static arch::OwnFrame by_stack() { return {.from_stack = true, .offset = 0}; }
  static arch::OwnFrame by_frame() { return {.from_stack = false, .offset = 24}; }
  // The code here finds its frame from the call as one does whose callee has its own return address lower.
  static arch::PointFrame at_call(const arch::OwnFrame& own) {
    arch::PointFrame frame{.distance = -8};
    frame.own = own;
    return frame;
  }
  arch::Piece piece_of(const plan::Stencil& stencil) {
    arch::Piece out;
    out.stencil = &stencil;
    out.cells = {static_cast<int64_t>(layout_.cells[6]), static_cast<int64_t>(layout_.cells[0])};
    return out;
  }

  // All calls are made from here, so their return addresses are at one place, which `rsp` finds.
  [[gnu::noinline]] void call(const void* code, uint64_t frame_pointer = 0) {
    State asked{};
    asked.flags = 0x246;
    run_with(&asked, code_ + kCodeAt);
    if (std::this_thread::get_id() == own_) place_ = asked.regs[0];
    State state{};
    for (uint64_t i = 0; i < 16; i++) state.regs[i] = 0x1111111111111111u * i;
    state.regs[kFramePointer] = frame_pointer;
    state.flags = 0xad7;
    const State before = state;
    run_with(&state, code);
    for (int i = 0; i < 16; i++)
      if (i != kStackPointer) {
        EXPECT_EQ(state.regs[i], before.regs[i]) << "register " << i;
      }
    EXPECT_EQ(state.flags, before.flags);
  }
  // From which the frame pointer finds the place of the calls above, behind one of them.
  uint64_t frame_pointer() const { return place_ - 24; }
  // What stands and what runs is measured here, too: a thread may lose its processor at any moment.
  void begin() {
    stood_ = 0;
    begun_ = arch::wall_ticks();
  }
  void stand() {
    const uint64_t from = arch::wall_ticks();
    spend(50 * kLong);
    stood_ += arch::wall_ticks() - from;
  }
  void expect_own_time(uint64_t least) {
    EXPECT_GE(result(), least);
    EXPECT_LE(result(), arch::wall_ticks() - begun_ - stood_);
  }
  uint64_t result() { return cell(slot_of(thread_pointer()), 0); }
  uint64_t anomalies() { return data_[layout_.block(slot_of(thread_pointer())) / 8]; }

  const std::thread::id own_ = std::this_thread::get_id();
  uint64_t place_ = 0, begun_ = 0, stood_ = 0;
  std::map<Routine, plan::Stencil> stencils_;
  const void *enter_ = nullptr, *stayed_ = nullptr, *pause_ = nullptr, *resume_ = nullptr,
             *far_pause_ = nullptr, *far_resume_ = nullptr;
};

TEST_F(OwnTimes, StandWhileOthersRun) {
  begin();
  call(enter_);
  spend(kLong);
  call(pause_);
  stand();
  call(resume_);
  spend(kLong);
  call(stayed_);
  expect_own_time(2 * kLong);
  EXPECT_EQ(anomalies(), 0u);
  call(stayed_);  // it has ended
  EXPECT_EQ(result(), kUnknown);
  EXPECT_EQ(anomalies(), 1u);
}

// As where an exception is caught, or a branch leads behind a call.
TEST_F(OwnTimes, WhatStandsMayStopAndWhatRunsMayGoOn) {
  begin();
  call(enter_);
  call(resume_);
  spend(kLong);
  call(pause_);
  stand();
  call(pause_);
  stand();
  call(resume_);
  spend(kLong);
  call(resume_);
  call(stayed_);
  expect_own_time(2 * kLong);
}

TEST_F(OwnTimes, AReturnAtWhichItStandsKnowsNothing) {
  call(enter_);
  call(pause_);
  call(stayed_);
  EXPECT_EQ(result(), kUnknown);
  EXPECT_EQ(anomalies(), 1u);
}

// A call whose entry is not known has nothing to stop, and leaves nothing behind.
TEST_F(OwnTimes, OtherFramesAreLeftAlone) {
  call(pause_);
  call(resume_);
  call(stayed_);
  EXPECT_EQ(result(), kUnknown);
  begin();
  call(enter_);
  call(far_pause_, frame_pointer() + 8);
  call(far_pause_, 12345);
  call(far_pause_, ~uint64_t{0} << 3);
  spend(kLong);
  call(stayed_);
  expect_own_time(kLong);
}

TEST_F(OwnTimes, AFrameIsFoundByItsFramePointer) {
  begin();
  call(enter_);
  call(far_pause_, frame_pointer());
  stand();
  call(far_resume_, frame_pointer());
  spend(kLong);
  call(stayed_);
  expect_own_time(kLong);
}

// Also where other code of the point has used that register, and whatever of the registers is alive.
TEST_F(OwnTimes, TheFramePointerIsFetchedBack) {
  plan::Stencil destroys = count_;
  const uint8_t zero[] = {0x48, 0xc7, 0xc5, 0, 0, 0, 0};  // mov $0, %rbp
  const auto* bytes = reinterpret_cast<const std::byte*>(zero);
  destroys.code.insert(destroys.code.begin(), bytes, bytes + sizeof zero);
  destroys.holes[0].offset += sizeof zero;
  destroys.written = image::register_bit(kFramePointer);
  arch::Piece first = piece(2);
  first.stencil = &destroys;
  const arch::Piece pieces[] = {first, piece_of(stencils_[Routine::pause])};
  for (const image::Registers live : {kAllLive, ~image::register_bit(kFramePointer), image::Registers{0}}) {
    const void* pause = emit(pieces, live, format::PointKind::call_before, at_call(by_frame()), 2 * kCodeAt);
    begin();
    call(enter_);
    State state{};
    state.regs[kFramePointer] = frame_pointer();
    state.flags = 0x246;
    run_with(&state, pause);
    stand();
    call(resume_);
    call(stayed_);
    expect_own_time(0);
  }
}

// A fiber may come back in another thread, whose clock goes on.
TEST_F(OwnTimes, WhatStandsGoesOnInAnyThread) {
  begin();
  call(enter_);
  const uint64_t frame = frame_pointer();
  call(pause_);
  std::thread([&] {
    call(far_resume_, frame);
    spend(kLong);
    call(far_pause_, frame);
  }).join();
  stand();
  call(resume_);
  spend(kLong);
  call(stayed_);
  expect_own_time(2 * kLong);
  EXPECT_EQ(anomalies(), 0u);
}

// Two threads' clocks say nothing of what ran in both without a stop.
TEST_F(OwnTimes, WhatRunsInTwoThreadsIsLost) {
  for (const void* const code : {far_pause_, far_resume_}) {
    call(enter_);
    const uint64_t frame = frame_pointer();
    const uint64_t before = anomalies();
    std::thread([&] { call(code, frame); }).join();
    call(resume_);
    call(stayed_);
    EXPECT_EQ(result(), kUnknown);
    EXPECT_EQ(anomalies(), before + 1);
  }
}

// What tells a call's return from a branch to the same place is not asked.
TEST_F(OwnTimes, ItGoesOnWhereNoCallHasComeBack) {
  const arch::ArmedCalls calls = {.blocks = kCodeAt, .stride = 64, .area = kCodeAt};  // nobody looks there
  arch::PointFrame frame = at_call(by_stack());
  frame.arming = arch::Arming::test;
  frame.returns_to = 1;
  frame.calls = &calls;
  const arch::Piece pieces[] = {piece_of(stencils_[Routine::resume]), piece(2)};
  const void* behind = emit(pieces, kAllLive, format::PointKind::call_after, frame, 2 * kCodeAt);
  begin();
  call(enter_);
  call(pause_);
  call(behind);
  spend(kLong);
  call(stayed_);
  expect_own_time(kLong);
  EXPECT_EQ(cell(slot_of(thread_pointer()), 2), 0u);
}

}  // namespace
}  // namespace mdl
