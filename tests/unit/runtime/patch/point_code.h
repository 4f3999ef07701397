// A directory, blocks and resident code in this process, and points of which the code is run here.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#include "runtime/arch/bytes.h"
#include "runtime/arch/description.h"
#include "runtime/arch/point.h"
#include "runtime/arch/resident.h"
#include "runtime/arch/target_data.h"
#include "runtime/resident/layout.h"

namespace mdl {

inline uint64_t thread_pointer() {
  uint64_t value;
  asm("mov %%fs:0, %0" : "=r"(value));
  return value;
}

inline plan::Stencil counter_stencil() {
  plan::Stencil out;
  out.info.name = "count";
  out.info.cells = {{"count", format::CellKind::counter, true, true}};
  out.info.writes_flags = true;
  for (uint8_t b : {0x49, 0x81, 0x83, 0, 0, 0, 0, 1, 0, 0, 0})
    out.code.push_back(static_cast<std::byte>(b));  // addq $1, cell(%r11)
  out.holes = {{3, 4, plan::HoleKind::cell, 0, 0}};
  return out;
}

inline plan::Stencil guard_stencil() {
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
__attribute__((noinline)) inline void run_with(State* state, const void* code) {
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

constexpr image::Registers kAllLive = ~image::Registers{0};
constexpr uint32_t kThreadAt = 0x2d0;  // as glibc keeps it (arch::Description::thread_id_places)

class PointCode : public testing::Test {
 protected:
  static constexpr uint64_t kCodeAt = 16384;  // behind the resident code
  static constexpr uint32_t kSlots = 16;

  void SetUp() override {
    layout_ = resident::make_layout(cells_, 1, true);
    layout_.slots = kSlots;
    layout_.ended = 4;
    data_.resize(layout_.size() / 8);
    base_ = reinterpret_cast<uint64_t>(data_.data());
    reset();
    code_ = static_cast<uint8_t*>(
        mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    arch::ResidentParameters p;
    p.header = base_;
    p.directory = base_ + layout_.directory();
    p.directory_bytes = kSlots * kSlotSize;
    p.overflow_block = base_ + layout_.overflow_block();
    p.ended_block = base_ + layout_.ended_block();
    p.taken_block = base_ + layout_.taken_block();
    p.ring = base_ + layout_.ring();
    p.ring_entries = layout_.ended;
    p.stride = layout_.stride;
    p.timers = layout_.timers, p.calls = layout_.calls, p.sums = layout_.sums;
    p.cells_end = layout_.cells_end;
    p.thread_at = thread_at_;
    p.news = news_;
    p.deferred = layout_.deferred;
    if (layout_.times_calls) p.running = base_ + layout_.running(), p.ticks_per_second = 1'000'000'000;
    p.errno_at = reinterpret_cast<char*>(&errno) - static_cast<char*>(__builtin_thread_pointer());
    const arch::TimerClock clocks[] = {{format::CellKind::wall_timer}, {format::CellKind::process_timer}};
    auto resident = arch::resident_code(p, clocks);
    ASSERT_LE(resident.size(), kCodeAt);
    std::memcpy(code_, resident.data(), resident.size());
    lookup_ = {base_ + layout_.directory(), kSlots, address(), thread_at_};
  }
  void TearDown() override { munmap(code_, 1 << 16); }

  uint64_t address() const { return reinterpret_cast<uint64_t>(code_); }
  uint64_t* directory() { return data_.data() + layout_.directory() / 8; }
  void reset() {
    auto fresh = resident::empty_directory(layout_, base_);
    std::copy(fresh.begin(), fresh.end(), directory());
  }
  uint64_t& cell(uint32_t slot, uint32_t index) {
    return data_[(layout_.block(slot) + layout_.cells[index]) / 8];
  }
  uint32_t slot_of(uint64_t tp) { return resident::find_slot({directory(), kSlots * 2}, tp); }

  // The code of a point followed by ret, at `code_ + kCodeAt` or elsewhere.
  const void* emit(std::span<const arch::Piece> pieces, image::Registers live,
                   format::PointKind kind = format::PointKind::entry, arch::PointFrame frame = {},
                   uint64_t where = kCodeAt) {
    frame.below_is_dead = kind == format::PointKind::entry || kind == format::PointKind::return_;
    arch::Bytes out;
    uint64_t at = address() + where;
    auto slow = arch::emit_point(out, at, pieces, guard_, live, lookup_, kBlockAnomalies, placed_, frame);
    out.push_back(0xc3);  // ret
    arch::emit_slow_path(out, at + out.size(), slow, lookup_);
    std::memcpy(code_ + where, out.data(), out.size());
    return code_ + where;
  }
  arch::Piece piece(uint32_t index, std::vector<int64_t> guards = {}) {
    return {&count_, {static_cast<int64_t>(layout_.cells[index])}, {}, std::move(guards), {}, {}, {}};
  }

  std::vector<focus::CellSlot> cells_ = {
      {format::CellKind::counter, "a"},       {format::CellKind::flag, "f"},
      {format::CellKind::counter, "b"},       {format::CellKind::wall_timer, "w"},
      {format::CellKind::process_timer, "p"}, {format::CellKind::call, "c"}};
  resident::Layout layout_;
  std::vector<uint64_t> data_;
  uint64_t base_ = 0;
  uint8_t* code_ = nullptr;
  uint32_t thread_at_ = 0;
  uint64_t news_ = 0;  // where forks are followed
  arch::Lookup lookup_;
  std::vector<arch::PlacedStencil> placed_;
  plan::Stencil count_ = counter_stencil(), guard_ = guard_stencil();
};

}  // namespace mdl
