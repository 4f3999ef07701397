#include "runtime/resident/thread_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/process/target.h"
#include "runtime/values/clocks.h"

namespace mdl::resident {

Result<void> ThreadBlocks::write(uint64_t at, std::span<const uint64_t> words) {
  if (memory_.write(at, std::as_bytes(words))) return {};
  return Error{"cannot write the session's data"};
}

Result<void> ThreadBlocks::read() {
  directory_.resize(data_.layout.slots * 2);
  uint64_t at = data_.at + data_.layout.directory();
  if (memory_.read(at, std::as_writable_bytes(std::span(directory_)))) return {};
  return Error{"cannot read the session's data"};
}

std::optional<uint64_t> ThreadBlocks::find(uint64_t thread_pointer) const {
  const uint32_t slot = find_slot(directory_, thread_pointer);
  if (slot == data_.layout.slots || directory_[slot * 2] != thread_pointer) return std::nullopt;
  return data_.at + data_.layout.block(slot);
}

Result<uint64_t> ThreadBlocks::claim(pid_t tid, uint64_t thread_pointer) {
  uint32_t slot = find_slot(directory_, thread_pointer);
  if (slot == data_.layout.slots)
    return Error{fmt::format("there is no slot for thread {}: the process has too many threads", tid)};
  uint64_t block = data_.at + data_.layout.block(slot);
  if (directory_[slot * 2] == thread_pointer) return block;
  directory_[slot * 2] = thread_pointer;
  uint64_t id = static_cast<uint64_t>(process::read_status(tid).inner_pid);
  if (data_.layout.thread_at) {  // what its code will compare with
    uint32_t word = 0;
    if (!memory_.read(thread_pointer + data_.layout.thread_at, std::as_writable_bytes(std::span(&word, 1))))
      return Error{fmt::format("cannot read the id of thread {}", tid)};
    id = word;
  }
  if (auto ok = write(block + kBlockThread, {&id, 1}); !ok) return ok.error();
  if (auto ok = write(data_.at + data_.layout.directory() + slot * kSlotSize, {&thread_pointer, 1}); !ok)
    return ok.error();
  return block;
}

Result<uint64_t> ThreadBlocks::clock(uint64_t block, pid_t tid, const focus::CellSlot& slot) {
  const format::CellClock kind = format::info(slot.kind).clock;
  auto now = values::clock_now({kind, slot.event}, data_.process, tid);
  if (!now || !data_.layout.keeps_hit_time || kind == format::CellClock::event) return now;
  const bool wall = kind == format::CellClock::wall;
  const uint64_t last_at = block + (wall ? kBlockClock : kBlockCpuClock);
  uint64_t taken = 0, away = 0, last = 0;
  if (!memory_.read(block + kBlockTaken, std::as_writable_bytes(std::span(&taken, 1))) ||
      !memory_.read(block + kBlockAway, std::as_writable_bytes(std::span(&away, 1))) ||
      !memory_.read(last_at, std::as_writable_bytes(std::span(&last, 1))))
    return Error{"cannot read the session's data"};
  *now -= wall ? taken : values::nanoseconds(taken - away, data_.ticks_per_second);
  *now = std::max(*now, wall ? last : last & ~arch::kCpuStale);
  if (auto ok = write(last_at, {&*now, 1}); !ok) return ok.error();
  return now;
}

Result<void> ThreadBlocks::raise(uint64_t block, pid_t tid, focus::CellId cell, const focus::CellSlot& slot,
                                 const Active& frames) {
  uint64_t at = block + data_.layout.cells[cell];
  const bool is_flag = slot.kind == format::CellKind::flag;
  if (!is_flag) at += sizeof(uint64_t);  // a timer's value comes first
  std::array<uint64_t, 2> state{};       // depth, and where the outermost frame's return address lies
  if (!memory_.read(at, std::as_writable_bytes(std::span(state))))
    return Error{"cannot read the session's data"};
  const bool was_up = state[0] != 0;
  state = {state[0] + frames.count, was_up ? std::max(state[1], frames.outermost) : frames.outermost};
  if (auto ok = write(at, state); !ok || is_flag || was_up) return ok;
  uint64_t value = 0;
  at -= sizeof value;
  auto now = clock(block, tid, slot);
  if (!now) return now.error();
  if (!memory_.read(at, std::as_writable_bytes(std::span(&value, 1))))
    return Error{"cannot read the session's data"};
  value -= *now;
  return write(at, {&value, 1});
}

}  // namespace mdl::resident
