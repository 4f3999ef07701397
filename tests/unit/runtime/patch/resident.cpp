// Resident code, run here: what it finds, keeps and changes.
#include "runtime/arch/clock.h"
#include "tests/unit/runtime/patch/point_code.h"

namespace mdl {
namespace {

TEST_F(PointCode, FramesThatVanishLowerTheirFlags) {
  arch::Piece pieces[] = {piece(0)};
  reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, kAllLive)))();  // claims the slot
  uint32_t slot = slot_of(thread_pointer());
  uint64_t* flag = &cell(slot, 1);
  auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  State before{};
  for (uint64_t i = 0; i < 16; i++) before.regs[i] = 0x0101010101010101u * i;
  before.flags = 0xad7;
  const auto page = [] {
    return reinterpret_cast<uint64_t>(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  };
  const uint64_t there = page(), gone = page();
  munmap(reinterpret_cast<void*>(gone), 4096);
  using arch::Hook;
  constexpr auto kError = static_cast<uint64_t>(-1);
  struct Case {
    Hook hook;
    uint64_t frame;
    bool vanishes;
    uint64_t result = 0;
  };
  for (const Case& c :
       {Case{Hook::catch_, here - 4096, true}, Case{Hook::catch_, here + 4096, false},
        Case{Hook::catch_, here - (1u << 30), false}, Case{Hook::catch_, gone, false},
        Case{Hook::vfork, here - 4096, true, 77}, Case{Hook::vfork, here + 4096, false, 77},
        Case{Hook::vfork, here - 4096, false, 0}, Case{Hook::vfork, here - 4096, false, kError},
        Case{Hook::spawn, here - 4096, true}, Case{Hook::spawn, here + 4096, false},
        Case{Hook::spawn, gone + 8, true}, Case{Hook::spawn, there + 8, false}}) {
    flag[0] = 2, flag[1] = c.frame;
    before.regs[0] = c.result;
    uint64_t anomalies = data_[layout_.block(slot) / 8];
    State after = before;
    run_with(&after, code_ + arch::hook_offset(c.hook));
    EXPECT_EQ(flag[0], c.vanishes ? 0u : 2u);
    EXPECT_EQ(data_[layout_.block(slot) / 8] - anomalies, c.vanishes ? 1u : 0u);
    for (int i = 0; i < 16; i++) EXPECT_EQ(after.regs[i], before.regs[i]);
    EXPECT_EQ(after.flags, before.flags);
  }
  munmap(reinterpret_cast<void*>(there), 4096);
}

// Timers of frames that have vanished are stopped, calls that will not come back are forgotten.
TEST_F(PointCode, FramesThatVanishStopTheirTimers) {
  arch::Piece pieces[] = {piece(0)};
  reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, kAllLive)))();  // claims the slot
  uint32_t slot = slot_of(thread_pointer());
  auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  uint64_t *wall = &cell(slot, 3), *cpu = &cell(slot, 4), *call = &cell(slot, 5);
  const void* caught = code_ + arch::hook_offset(arch::Hook::catch_);
  for (bool vanishes : {true, false}) {
    uint64_t frame = vanishes ? here - 4096 : here + 4096;
    uint64_t begun = arch::wall_ticks();
    wall[0] = uint64_t{0} - begun, wall[1] = 2, wall[2] = frame;
    cpu[0] = uint64_t{0} - (uint64_t{1} << 56), cpu[1] = 1, cpu[2] = frame;
    call[0] = frame;
    uint64_t anomalies = data_[layout_.block(slot) / 8];
    State state{};
    state.flags = 0x246;
    run_with(&state, caught);
    EXPECT_EQ(data_[layout_.block(slot) / 8] - anomalies, vanishes ? 3u : 0u);
    EXPECT_EQ(wall[1], vanishes ? 0u : 2u);
    EXPECT_EQ(cpu[1], vanishes ? 0u : 1u);
    EXPECT_EQ(call[0], vanishes ? 0u : frame);
    EXPECT_EQ(static_cast<int64_t>(wall[0]) > 0, vanishes);
    if (vanishes) {
      EXPECT_LE(wall[0], arch::wall_ticks() - begun);
      EXPECT_GT(static_cast<int64_t>(cpu[0]), 0);
      EXPECT_LT(cpu[0], 1'000'000'000'000u);
    }
  }
}

class Routines : public PointCode {
 protected:
  // What the routine gives for `value`; everything else must be as before.
  uint64_t run(format::Routine routine, uint64_t value) {
    State before{};
    for (uint64_t i = 0; i < 16; i++) before.regs[i] = 0x2222222222222222u * (i + 1);
    before.regs[10] = value;
    before.flags = 0x602;  // the direction flag, which memmove may have set
    State after = before;
    run_with(&after, code_ + arch::routine_offset(routine));
    asm volatile("cld");
    for (int i = 0; i < 16; i++)
      if (i != 10) {
        EXPECT_EQ(after.regs[i], before.regs[i]) << "register " << i;
      }
    EXPECT_EQ(after.flags & 0x400, 0x400u);
    return after.regs[10];
  }
};

constexpr uint64_t kAbove = uint64_t{1} << 56;

TEST_F(Routines, ReadTheClocksOfTheThread) {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  uint64_t before = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  uint64_t first = run(format::Routine::cpu, 77), second = run(format::Routine::cpu, 0);
  EXPECT_GE(first, before + kAbove);
  EXPECT_GT(second, first);
  EXPECT_LT(second, before + kAbove + 10'000'000'000);
  clock_gettime(CLOCK_MONOTONIC, &now);
  before = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  EXPECT_GE(run(format::Routine::now, 0), before);
  EXPECT_LT(run(format::Routine::now, 0), before + 10'000'000'000);
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  auto faults = static_cast<uint64_t>(format::Event::minor_faults);
  EXPECT_GE(run(format::Routine::event, faults), kAbove + static_cast<uint64_t>(usage.ru_minflt));
  EXPECT_EQ(run(format::Routine::event, 1'000'000), kAbove);
  EXPECT_EQ(run(format::Routine::event, UINT64_MAX), kAbove);
}

TEST_F(Routines, ReadTheErrorOfTheThread) {
  for (const int error : {0, 11, -1}) {
    errno = error;
    EXPECT_EQ(run(format::Routine::error, 5), static_cast<uint64_t>(int64_t{error}));
  }
}

TEST_F(Routines, ReadMemoryThatMayNotBeThere) {
  uint64_t words[2] = {0x1122334455667788, 0x99aabbccddeeff00};
  auto at = reinterpret_cast<uint64_t>(words);
  EXPECT_EQ(run(format::Routine::read, at), words[0]);
  EXPECT_EQ(run(format::Routine::read, at + 4), 0xddeeff0011223344u);
  for (uint64_t bad : {uint64_t{0}, uint64_t{4095}, uint64_t{1} << 47, UINT64_MAX, UINT64_MAX - 7})
    EXPECT_EQ(run(format::Routine::read, bad), 0u) << bad;
}

uint64_t six(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  alignas(32) volatile char space[32];
  EXPECT_EQ(reinterpret_cast<uint64_t>(&space) % 32, 0u);
  return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f;
}

TEST_F(Routines, CallAFunctionWithItsArguments) {
  uint64_t call[8] = {1, reinterpret_cast<uint64_t>(&six), 1, 2, 3, 4, 5, 6};
  EXPECT_EQ(run(format::Routine::call, reinterpret_cast<uint64_t>(call)), 654321u);
  EXPECT_NE(call[0], 0u);  // who calls it sets it free
}

class ReusedThreadPointer : public PointCode {
 protected:
  void SetUp() override {
    thread_at_ = kThreadAt;
    PointCode::SetUp();
    arch::Piece pieces[] = {piece(0)};
    code_of_point_ = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, kAllLive)));
    code_of_point_();
    slot_ = slot_of(thread_pointer());
  }
  uint64_t* block() { return &data_[layout_.block(slot_) / 8]; }
  uint64_t* copy(uint64_t entry) { return &data_[(layout_.ring() + entry * layout_.stride) / 8]; }
  // As if the block were another thread's, which has counted and left a flag up and timers behind.
  void belongs_to(uint64_t thread) {
    block()[1] = thread;
    cell(slot_, 0) = 100 + thread, cell(slot_, 1) = 1;
    cell(slot_, 3) = 1000, cell(slot_, 4) = uint64_t{0} - 5;
  }

  void (*code_of_point_)() = nullptr;
  uint32_t slot_ = 0;
};

TEST_F(ReusedThreadPointer, KeepsItsBlockWhileTheThreadIsTheSame) {
  code_of_point_();
  EXPECT_EQ(block()[1], static_cast<uint64_t>(gettid()));
  EXPECT_EQ(cell(slot_, 0), 2u);
  EXPECT_EQ(data_[kHeaderEnded / 8], 0u);
}

TEST_F(ReusedThreadPointer, PutsTheEndedThreadsBlockAside) {
  for (uint64_t i = 0; i < 4; i++) {
    belongs_to(i + 1);
    code_of_point_();
    EXPECT_EQ(block()[1], static_cast<uint64_t>(gettid()));
    EXPECT_EQ(cell(slot_, 0), 1u);
    EXPECT_EQ(cell(slot_, 1), 0u);
    EXPECT_EQ(cell(slot_, 4), 0u);
    EXPECT_EQ(copy(i)[1], i + 1);
    EXPECT_EQ(copy(i)[2], i + 1);  // its number
    EXPECT_EQ(copy(i)[3], reinterpret_cast<uint64_t>(block()));
    EXPECT_EQ(copy(i)[layout_.cells[0] / 8], 101 + i);
  }
  EXPECT_EQ(data_[kHeaderEnded / 8], 4u);
}

TEST_F(ReusedThreadPointer, AddsUpWhenTheRingIsFull) {
  for (uint64_t i = 0; i < 6; i++) {
    belongs_to(1);
    code_of_point_();
  }
  EXPECT_EQ(data_[kHeaderEnded / 8], 4u);
  EXPECT_EQ(data_[kHeaderEnded / 8 + 1], 2u);
  uint64_t* ended = &data_[layout_.ended_block() / 8];
  EXPECT_EQ(ended[layout_.cells[0] / 8], 202u);
  EXPECT_EQ(ended[layout_.cells[3] / 8], 2000u);
  EXPECT_EQ(ended[layout_.cells[4] / 8], 0u);  // it ran
  // When the injector has taken some, there is room again.
  data_[layout_.taken_block() / 8 + 2] = 4;
  belongs_to(9);
  code_of_point_();
  EXPECT_EQ(copy(0)[1], 9u);
  EXPECT_EQ(copy(0)[2], 5u);
}

TEST_F(ReusedThreadPointer, KeepsRegistersAndFlags) {
  arch::Piece pieces[] = {piece(0)};
  for (image::Registers live : {kAllLive, ~image::register_bit(1),
                                ~image::register_bit(9)}) {  // the lookup's own register: r10, rcx, r9
    const void* at = emit(pieces, live, format::PointKind::call_before);
    for (bool reused : {true, false}) {
      if (reused) belongs_to(1);
      State before{};
      for (uint64_t i = 0; i < 16; i++) before.regs[i] = 0x1111111111111111u * (i + 1);
      before.flags = 0xad7;
      State after = before;
      run_with(&after, at);
      for (int i = 0; i < 16; i++)
        if (live >> i & 1) {
          EXPECT_EQ(after.regs[i], before.regs[i]) << "register " << i;
        }
      EXPECT_EQ(after.flags, before.flags);
      EXPECT_EQ(cell(slot_, 0), reused ? 1u : 2u);
    }
  }
  EXPECT_EQ(data_[kHeaderEnded / 8], 3u);
}

}  // namespace
}  // namespace mdl
