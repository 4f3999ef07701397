// Trampoline code is machine code: it is tested by running it, here in this process, with a
// directory and blocks of its own and a counter stencil written by hand.
#include "tests/unit/runtime/patch/point_code.h"

#include "runtime/arch/clock.h"
#include "runtime/arch/x86_64/hit_time.h"

namespace mdl {
namespace {

TEST_F(PointCode, CountsInTheThreadsOwnBlock) {
  arch::Piece pieces[] = {piece(0)};
  auto code = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, kAllLive)));
  for (int i = 0; i < 1000; i++) code();
  uint64_t other_tp = 0;
  std::thread([&] {
    other_tp = thread_pointer();
    for (int i = 0; i < 77; i++) code();
  }).join();
  EXPECT_EQ(cell(slot_of(thread_pointer()), 0), 1000u);
  EXPECT_EQ(cell(slot_of(other_tp), 0), 77u);
  EXPECT_NE(slot_of(other_tp), slot_of(thread_pointer()));
}

TEST_F(PointCode, CollidingThreadsProbeOn) {
  // The home slot and the next belong to others: the third is claimed.
  uint32_t home = arch::home_slot(thread_pointer(), kSlots);
  directory()[home * 2] = 0x1000;
  directory()[(home + 1) % kSlots * 2] = 0x2000;
  arch::Piece pieces[] = {piece(0)};
  auto code = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, kAllLive)));
  for (int i = 0; i < 5; i++) code();
  EXPECT_EQ(directory()[(home + 2) % kSlots * 2], thread_pointer());
  EXPECT_EQ(cell((home + 2) % kSlots, 0), 5u);
}

TEST_F(PointCode, AFullDirectoryOverflowsAndSaysSo) {
  for (uint32_t i = 0; i < kSlots; i++) directory()[i * 2] = 0x1000 + i;
  arch::Piece pieces[] = {piece(0)};
  auto code = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, kAllLive)));
  for (int i = 0; i < 3; i++) code();
  EXPECT_EQ(data_[kHeaderOverflow / 8], 3u);
  EXPECT_EQ(cell(kSlots, 0), 3u);
}

TEST_F(PointCode, GuardsAreTestedOnceForARunOfPieces) {
  auto flag = static_cast<int64_t>(layout_.cells[1]);
  arch::Piece pieces[] = {piece(0, {flag}), piece(2, {flag}), piece(0)};
  auto code = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, kAllLive)));
  code();
  uint32_t slot = slot_of(thread_pointer());
  EXPECT_EQ(cell(slot, 0), 1u);
  EXPECT_EQ(cell(slot, 2), 0u);
  cell(slot, 1) = 2;
  code();
  EXPECT_EQ(cell(slot, 0), 3u);
  EXPECT_EQ(cell(slot, 2), 1u);
  arch::Bytes one, two;
  arch::Piece single[] = {piece(0, {flag})}, pair[] = {piece(0, {flag}), piece(0, {flag})};
  arch::emit_point(one, address(), single, guard_, kAllLive, lookup_, 0, placed_, {.below_is_dead = true});
  arch::emit_point(two, address(), pair, guard_, kAllLive, lookup_, 0, placed_, {.below_is_dead = true});
  EXPECT_EQ(two.size() - one.size(), count_.code.size());
}

// The guard is tested again when what stands between writes it.
TEST_F(PointCode, AWrittenGuardIsTestedAgain) {
  auto flag = static_cast<int64_t>(layout_.cells[1]);
  plan::Stencil lower = count_;
  lower.code[7] = std::byte{0xff}, lower.code[8] = std::byte{0xff}, lower.code[9] = std::byte{0xff},
  lower.code[10] = std::byte{0xff};  // addq $-1
  lower.info.cells[0].kind = format::CellKind::flag;
  arch::Piece pieces[] = {{&lower, {flag}, {}, {flag}, {}, {}, {}}, piece(0, {flag})};
  auto code = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, kAllLive)));
  code();  // claims the slot
  uint32_t slot = slot_of(thread_pointer());
  cell(slot, 1) = 1;
  code();
  EXPECT_EQ(cell(slot, 1), 0u);
  EXPECT_EQ(cell(slot, 0), 0u);
}

// What is live: all; all but rcx (which keeps something instead of the stack); all but rcx, r8 and the flags.
constexpr image::Registers kLive[] = {kAllLive, ~image::register_bit(1),
                                      ~(image::register_bit(1) | image::register_bit(8) | image::kFlags)};

// What one piece writes, the next one reads as the target left it; also when the function itself has no
// use for it, and from a dead register as well as from the stack.
TEST_F(PointCode, APieceReadsWhatAnEarlierOneHasWritten) {
  plan::Stencil destroys = count_;
  std::vector<std::byte> zero;
  for (int b : {0x48, 0xc7, 0xc2, 0, 0, 0, 0}) zero.push_back(static_cast<std::byte>(b));  // mov $0, %rdx
  destroys.code.insert(destroys.code.begin(), zero.begin(), zero.end());
  destroys.holes[0].offset += 7;
  destroys.written = 1u << 2;
  plan::Stencil adds = count_;
  adds.code.clear();
  for (int b : {0x49, 0x01, 0x93, 0, 0, 0, 0})
    adds.code.push_back(static_cast<std::byte>(b));  // add %rdx, cell(%r11)
  adds.read = 1u << 2;
  arch::Piece first = piece(0), second = piece(2);
  first.stencil = &destroys, second.stencil = &adds;
  arch::Piece pieces[] = {first, second};
  for (image::Registers live :
       {kAllLive, ~image::register_bit(2), ~(image::register_bit(2) | image::register_bit(1)),
        ~(image::register_bit(2) | image::kFlags)}) {
    const void* code = emit(pieces, live);
    State state{};
    state.regs[2] = 1234, state.flags = 0x246;
    run_with(&state, code);
    EXPECT_EQ(cell(slot_of(thread_pointer()), 2), 1234u);
    cell(slot_of(thread_pointer()), 2) = 0;
  }
}

// A flag knows the frame that raised it first, and is lowered there however many frames in between
// have vanished.
TEST_F(PointCode, AFlagIsLoweredByItsOutermostFrame) {
  arch::Piece raise = piece(1), lower = piece(2);
  raise.raises = {resident::raised_cell(layout_, 1, format::CellKind::flag)};
  lower.lowers = raise.raises;
  auto up = reinterpret_cast<void (*)()>(const_cast<void*>(emit(std::span(&raise, 1), kAllLive)));
  up(), up(), up();
  uint32_t slot = slot_of(thread_pointer());
  EXPECT_EQ(cell(slot, 1), 3u);
  uint64_t outermost = (&cell(slot, 1))[1];
  auto down = reinterpret_cast<void (*)()>(
      const_cast<void*>(emit(std::span(&lower, 1), kAllLive, format::PointKind::return_)));
  (&cell(slot, 1))[1] = outermost + 64;
  down();
  EXPECT_EQ(cell(slot, 1), 3u);  // another frame's return
  (&cell(slot, 1))[1] = outermost;
  down();
  EXPECT_EQ(cell(slot, 1), 0u);
}

class HitTime : public PointCode {
 protected:
  void SetUp() override {
    PointCode::SetUp();
    lookup_.hit_time.kept = true;
    arch::Piece pieces[] = {piece(0)};
    hit_ = reinterpret_cast<void (*)()>(
        const_cast<void*>(emit(pieces, kAllLive, format::PointKind::entry, {.reads_clock = true})));
    hit_();
  }
  uint64_t* block() { return data_.data() + layout_.block(slot_of(thread_pointer())) / 8; }
  uint64_t& word(uint64_t offset) { return block()[offset / 8]; }

  void (*hit_)() = nullptr;
};

// The clock does not go back, and what was too much is not taken from the time that follows.
TEST_F(HitTime, WhatHitsCannotHaveTakenIsGivenBack) {
  const uint64_t taken = word(kBlockTaken), much = 1ull << 40, clock = word(kBlockClock);
  word(kBlockTaken) += much;
  for (int i = 0; i < 20; i++) hit_();  // one that is interrupted leaves it to the next
  EXPECT_GE(word(kBlockClock), clock);
  EXPECT_LT(word(kBlockTaken), taken + much / 2);
  EXPECT_LE(word(kBlockClock), arch::wall_ticks() - word(kBlockTaken) + kMostBehind);
}

// Of a hit that was taken for a long one, because a handler came as it began, most counts as away: what is given back of
// it was not. So the part that is CPU time stays what it was, and is never less than none.
TEST_F(HitTime, WhatIsGivenBackWasNotAwayEither) {
  const auto of_cpu = [&] { return static_cast<int64_t>(word(kBlockTaken) - word(kBlockAway)); };
  const int64_t before = of_cpu();
  for (const uint64_t much : {uint64_t{kLongestHit} * 100, uint64_t{1} << 40}) {
    word(kBlockTaken) += much;
    word(kBlockAway) += much;
    for (int i = 0; i < 20; i++) hit_();
    EXPECT_GE(of_cpu(), 0) << much;
    EXPECT_LT(of_cpu(), before + int64_t{kLongestHit} * 50) << much;
  }
  word(kBlockAway) = word(kBlockTaken) + 1000;
  word(kBlockTaken) += 5000;
  hit_();
  EXPECT_GE(of_cpu(), 0);
}

TEST_F(HitTime, ASignalHandlersHitsAreNotGivenBack) {
  const uint8_t* behind = code_ + arch::clock_behind_offset();
  State state{};
  state.regs[10] = 5000;
  state.regs[11] = reinterpret_cast<uint64_t>(block());
  const uint64_t taken = word(kBlockTaken);
  word(kBlockBegan) = arch::wall_ticks() - kLongestBegin - 1;
  run_with(&state, behind);
  EXPECT_EQ(word(kBlockTaken), taken);
  word(kBlockBegan) = ~uint64_t{1};  // none runs: the handler's was the last
  state.regs[10] = 5000;
  run_with(&state, behind);
  EXPECT_EQ(word(kBlockTaken), taken);
}

// A hit that reads no counter is one of some nanoseconds, like its code: far less than two readings with all that
// these wait for. This one jumps as far as a session's do, and is never taken for one that is mispredicted.
TEST(MeasuredHitTime, AHitThatOnlyCountsIsShort) {
  const arch::HitTime time = arch::measure_hit_time(1'000'000'000, 300);
  EXPECT_GT(time.between, 0);
  EXPECT_GT(time.around, 0);
  EXPECT_LT(time.plain, (time.between + time.around) / 5);
}

class Preserves : public PointCode,
                  public testing::WithParamInterface<std::tuple<format::PointKind, bool, image::Registers>> {
};

// Every live register and flag is what it was, on the fast path and on the slow one.
TEST_P(Preserves, RegistersAndFlags) {
  auto [kind, first_hit, live] = GetParam();
  plan::Stencil greedy = count_;
  greedy.written = 1u << 0 | 1u << 2 | 1u << 3 | 1u << 15;  // rax rdx rbx r15
  // mov $-1,%rax; mov $-1,%rdx; mov $-1,%rbx; mov $-1,%r15 in front of the counter
  std::vector<std::byte> code;
  for (int b : {0x48, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff, 0x48, 0xc7, 0xc2, 0xff, 0xff, 0xff, 0xff,
                0x48, 0xc7, 0xc3, 0xff, 0xff, 0xff, 0xff, 0x49, 0xc7, 0xc7, 0xff, 0xff, 0xff, 0xff})
    code.push_back(static_cast<std::byte>(b));
  greedy.code.insert(greedy.code.begin(), code.begin(), code.end());
  greedy.holes[0].offset += 28;
  arch::Piece pieces[] = {{&greedy, {static_cast<int64_t>(layout_.cells[0])}, {}, {}, {}, {}, {}}};
  const void* at = emit(pieces, live, kind);
  for (uint64_t flags : {0x246u, 0xad7u, 0x202u, 0xac6u, 0xa93u}) {
    State before{};
    for (uint64_t i = 0; i < 16; i++) before.regs[i] = 0x1111111111111111u * (i + 1) ^ flags;
    before.flags = flags;
    cell(slot_of(thread_pointer()), 0) = 0;
    State after = before;
    if (!first_hit) run_with(&after, at), after = before;
    run_with(&after, at);
    for (int i = 0; i < 16; i++)
      if (live >> i & 1) {
        EXPECT_EQ(after.regs[i], before.regs[i]) << "register " << i;
      }
    if (live & image::kFlags) {
      EXPECT_EQ(after.flags, before.flags);
    }
    EXPECT_EQ(cell(slot_of(thread_pointer()), 0), first_hit ? 1u : 2u);
    reset();
  }
}

INSTANTIATE_TEST_SUITE_P(All, Preserves,
                         testing::Combine(testing::Values(format::PointKind::entry,
                                                          format::PointKind::return_,
                                                          format::PointKind::call_before),
                                          testing::Bool(), testing::ValuesIn(kLive)));

}  // namespace
}  // namespace mdl
