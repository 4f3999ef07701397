// Trampoline code is machine code: it is tested by running it, here in this process, with a
// directory and blocks of its own and a counter stencil written by hand.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>
#include <vector>

#include "runtime/arch/arch.h"
#include "runtime/patch/layout.h"

namespace mdl {
namespace {

uint64_t thread_pointer() {
  uint64_t value;
  asm("mov %%fs:0, %0" : "=r"(value));
  return value;
}

plan::Stencil counter_stencil() {
  plan::Stencil out;
  out.info.name = "count";
  out.info.cells = {{"count", format::CellKind::counter, true, true}};
  out.info.writes_flags = true;
  for (uint8_t b : {0x49, 0x81, 0x83, 0, 0, 0, 0, 1, 0, 0, 0})
    out.code.push_back(static_cast<std::byte>(b));  // addq $1, cell(%r11)
  out.holes = {{3, 4, plan::HoleKind::cell, 0, 0}};
  return out;
}

plan::Stencil guard_stencil() {
  plan::Stencil out;
  out.info.name = format::kGuardStencil;
  out.info.writes_flags = true;
  for (uint8_t b : {0x49, 0x83, 0xbb, 0, 0, 0, 0, 0, 0x0f, 0x84, 0, 0, 0, 0})
    out.code.push_back(static_cast<std::byte>(b));  // cmpq $0, guard(%r11); je next
  out.holes = {{3, 4, plan::HoleKind::guard, 0, 0}, {10, 4, plan::HoleKind::next, 0, -4}};
  return out;
}

// Registers as a piece of code finds and leaves them.
struct State {
  uint64_t regs[16];  // in encoding order; rsp is not loaded
  uint64_t flags;
};

// Loads all registers from `state`, calls `code`, stores them back.
__attribute__((noinline)) void run_with(State* state, const void* code) {
  asm volatile(
      "push %%rbp; push %%rbx; push %%r12; push %%r13; push %%r14; push %%r15; push %0; push %1\n"
      "mov %0, %%rax\n"
      "push 128(%%rax); popfq\n"
      "mov 8(%%rax), %%rcx; mov 16(%%rax), %%rdx; mov 24(%%rax), %%rbx; mov 40(%%rax), %%rbp\n"
      "mov 48(%%rax), %%rsi; mov 56(%%rax), %%rdi; mov 64(%%rax), %%r8; mov 72(%%rax), %%r9\n"
      "mov 80(%%rax), %%r10; mov 88(%%rax), %%r11; mov 96(%%rax), %%r12; mov 104(%%rax), %%r13\n"
      "mov 112(%%rax), %%r14; mov 120(%%rax), %%r15; mov (%%rax), %%rax\n"
      "call *(%%rsp)\n"
      "pushfq\n"
      "push %%rax; mov 24(%%rsp), %%rax\n"
      "mov %%rcx, 8(%%rax); mov %%rdx, 16(%%rax); mov %%rbx, 24(%%rax); mov %%rbp, 40(%%rax)\n"
      "mov %%rsi, 48(%%rax); mov %%rdi, 56(%%rax); mov %%r8, 64(%%rax); mov %%r9, 72(%%rax)\n"
      "mov %%r10, 80(%%rax); mov %%r11, 88(%%rax); mov %%r12, 96(%%rax); mov %%r13, 104(%%rax)\n"
      "mov %%r14, 112(%%rax); mov %%r15, 120(%%rax)\n"
      "pop (%%rax); pop 128(%%rax)\n"
      "add $16, %%rsp; pop %%r15; pop %%r14; pop %%r13; pop %%r12; pop %%rbx; pop %%rbp\n"
      : "+D"(state), "+S"(code)
      :
      : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
}

class PointCode : public testing::Test {
 protected:
  static constexpr uint32_t kSlots = 16;

  void SetUp() override {
    cells_ = {
        {format::CellKind::counter, "a"}, {format::CellKind::flag, "f"}, {format::CellKind::counter, "b"}};
    layout_ = patch::make_layout(cells_, 1);
    layout_.slots = kSlots;
    data_.resize(layout_.size() / 8);
    base_ = reinterpret_cast<uint64_t>(data_.data());
    reset();
    code_ = static_cast<uint8_t*>(
        mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    auto resident =
        arch::resident_code({base_ + layout_.directory(), kSlots * patch::kSlotSize,
                             base_ + layout_.block(kSlots), base_ + patch::kHeaderOverflow,
                             base_ + patch::kHeaderExit, 0, patch::kBlockHeader, layout_.flag_bytes});
    std::memcpy(code_, resident.data(), resident.size());
    lookup_ = {base_ + layout_.directory(), kSlots, address()};
  }
  void TearDown() override { munmap(code_, 1 << 16); }

  uint64_t address() const { return reinterpret_cast<uint64_t>(code_); }
  uint64_t* directory() { return data_.data() + layout_.directory() / 8; }
  void reset() {
    auto fresh = patch::empty_directory(layout_, base_);
    std::copy(fresh.begin(), fresh.end(), directory());
  }
  uint64_t& cell(uint32_t slot, uint32_t index) {
    return data_[(layout_.block(slot) + layout_.cells[index]) / 8];
  }
  uint32_t slot_of(uint64_t tp) { return patch::find_slot({directory(), kSlots * 2}, tp); }

  // The code of a point followed by ret, at `code_ + 4096`.
  const void* emit(std::span<const arch::Piece> pieces, image::Registers live,
                   format::PointKind kind = format::PointKind::entry) {
    arch::Bytes out;
    uint64_t at = address() + 4096;
    auto slow = arch::emit_point(out, at, pieces, guard_, kind, live, lookup_, patch::kAnomalies, placed_);
    out.push_back(0xc3);  // ret
    arch::emit_slow_path(out, at + out.size(), slow, lookup_);
    std::memcpy(code_ + 4096, out.data(), out.size());
    return code_ + 4096;
  }
  arch::Piece piece(uint32_t index, std::vector<int64_t> guards = {}) {
    return {&count_, {static_cast<int64_t>(layout_.cells[index])}, {}, std::move(guards)};
  }

  std::vector<focus::CellSlot> cells_;
  patch::Layout layout_;
  std::vector<uint64_t> data_;
  uint64_t base_ = 0;
  uint8_t* code_ = nullptr;
  arch::Lookup lookup_;
  std::vector<arch::PlacedStencil> placed_;
  plan::Stencil count_ = counter_stencil(), guard_ = guard_stencil();
};

TEST_F(PointCode, CountsInTheThreadsOwnBlock) {
  arch::Piece pieces[] = {piece(0)};
  auto code = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, ~0u)));
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
  auto code = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, ~0u)));
  for (int i = 0; i < 5; i++) code();
  EXPECT_EQ(directory()[(home + 2) % kSlots * 2], thread_pointer());
  EXPECT_EQ(cell((home + 2) % kSlots, 0), 5u);
}

TEST_F(PointCode, AFullDirectoryOverflowsAndSaysSo) {
  for (uint32_t i = 0; i < kSlots; i++) directory()[i * 2] = 0x1000 + i;
  arch::Piece pieces[] = {piece(0)};
  auto code = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, ~0u)));
  for (int i = 0; i < 3; i++) code();
  EXPECT_EQ(data_[patch::kHeaderOverflow / 8], 3u);
  EXPECT_EQ(cell(kSlots, 0), 3u);
}

TEST_F(PointCode, GuardsAreTestedOnceForARunOfPieces) {
  auto flag = static_cast<int64_t>(layout_.cells[1]);
  arch::Piece pieces[] = {piece(0, {flag}), piece(2, {flag}), piece(0)};
  auto code = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, ~0u)));
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
  arch::emit_point(one, address(), single, guard_, format::PointKind::entry, ~0u, lookup_, 0, placed_);
  arch::emit_point(two, address(), pair, guard_, format::PointKind::entry, ~0u, lookup_, 0, placed_);
  EXPECT_EQ(two.size() - one.size(), count_.code.size());
}

// The guard is tested again when what stands between writes it.
TEST_F(PointCode, AWrittenGuardIsTestedAgain) {
  auto flag = static_cast<int64_t>(layout_.cells[1]);
  plan::Stencil lower = count_;
  lower.code[7] = std::byte{0xff}, lower.code[8] = std::byte{0xff}, lower.code[9] = std::byte{0xff},
  lower.code[10] = std::byte{0xff};  // addq $-1
  lower.info.cells[0].kind = format::CellKind::flag;
  arch::Piece pieces[] = {{&lower, {flag}, {}, {flag}}, piece(0, {flag})};
  auto code = reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, ~0u)));
  code();  // claims the slot
  uint32_t slot = slot_of(thread_pointer());
  cell(slot, 1) = 1;
  code();
  EXPECT_EQ(cell(slot, 1), 0u);
  EXPECT_EQ(cell(slot, 0), 0u);
}

// What is live: all; all but rcx (which keeps something instead of the stack); all but rcx, r8 and the flags.
constexpr image::Registers kLive[] = {~0u, ~(1u << 1), ~(1u << 1 | 1u << 8 | image::kFlags)};

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
  for (int b : {0x49, 0x01, 0x93, 0, 0, 0, 0}) adds.code.push_back(static_cast<std::byte>(b));  // add %rdx, cell(%r11)
  adds.read = 1u << 2;
  arch::Piece first = piece(0), second = piece(2);
  first.stencil = &destroys, second.stencil = &adds;
  arch::Piece pieces[] = {first, second};
  for (image::Registers live : {~0u, ~(1u << 2), ~(1u << 2 | 1u << 1), ~(1u << 2 | image::kFlags)}) {
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
  raise.raises = static_cast<int64_t>(layout_.cells[1]);
  lower.lowers = static_cast<int64_t>(layout_.cells[1]);
  auto up = reinterpret_cast<void (*)()>(const_cast<void*>(emit(std::span(&raise, 1), ~0u)));
  up(), up(), up();
  uint32_t slot = slot_of(thread_pointer());
  EXPECT_EQ(cell(slot, 1), 3u);
  uint64_t outermost = (&cell(slot, 1))[1];
  auto down = reinterpret_cast<void (*)()>(
      const_cast<void*>(emit(std::span(&lower, 1), ~0u, format::PointKind::return_)));
  (&cell(slot, 1))[1] = outermost + 64;
  down();
  EXPECT_EQ(cell(slot, 1), 3u);  // another frame's return
  (&cell(slot, 1))[1] = outermost;
  down();
  EXPECT_EQ(cell(slot, 1), 0u);
}

TEST_F(PointCode, FramesThatVanishLowerTheirFlags) {
  arch::Piece pieces[] = {piece(0)};
  reinterpret_cast<void (*)()>(const_cast<void*>(emit(pieces, ~0u)))();  // claims the slot
  uint32_t slot = slot_of(thread_pointer());
  uint64_t* flag = &cell(slot, 1);
  auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  State before{};
  for (uint64_t i = 0; i < 16; i++) before.regs[i] = 0x0101010101010101u * i;
  before.flags = 0xad7;
  const void* caught = code_ + arch::hook_offset(arch::Hook::catch_);
  struct Case {
    uint64_t frame;
    bool vanishes;
  };
  for (Case c : {Case{here - 4096, true}, Case{here + 4096, false}, Case{here - (1u << 30), false}}) {
    flag[0] = 2, flag[1] = c.frame;
    uint64_t anomalies = data_[layout_.block(slot) / 8];
    State after = before;
    run_with(&after, caught);
    EXPECT_EQ(flag[0], c.vanishes ? 0u : 2u);
    EXPECT_EQ(data_[layout_.block(slot) / 8] - anomalies, c.vanishes ? 1u : 0u);
    for (int i = 0; i < 16; i++) EXPECT_EQ(after.regs[i], before.regs[i]);
    EXPECT_EQ(after.flags, before.flags);
  }
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
  arch::Piece pieces[] = {{&greedy, {static_cast<int64_t>(layout_.cells[0])}, {}, {}}};
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
