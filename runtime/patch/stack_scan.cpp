#include "runtime/patch/stack_scan.h"

#include <algorithm>
#include <iterator>

#include "runtime/arch/conventions.h"

namespace mdl::patch {
namespace {

constexpr size_t kFrames = 10000;
constexpr uint64_t kMost = 64u << 20;  // bytes of one stack that are looked at

// All that is mapped below the kernel's half, and the gaps between: what lies outside of it leads nowhere. `mappings`
// are by address, and there may be tens of thousands, while all threads stand.
image::Range hull_of(std::span<const image::Mapping> mappings) {
  const auto is_of_kernel = [](const image::Mapping& mapping) {
    return static_cast<int64_t>(mapping.start) < 0;
  };
  while (mappings.size() > 1 && is_of_kernel(mappings.back())) mappings = mappings.first(mappings.size() - 1);
  return {mappings.front().start, mappings.back().end};
}

// Go keeps the stacks of its goroutines in the one mapping of its heap, megabytes above each of them. While they
// are looked at, all threads stand: so zeros, small numbers and texts are dropped at once, piece by piece.
void append(ReturnPlaces& places, uint64_t from, uint64_t to, const image::Memory& memory,
            const image::Range& hull) {
  from &= ~uint64_t{7};
  to = std::min(to, from + kMost);
  constexpr uint64_t kChunk = 256u << 10;
  std::vector<uint64_t> words;
  for (; from < to; from += kChunk) {
    words.resize((std::min(to, from + kChunk) - from) / 8);
    if (memory.read(from, std::as_writable_bytes(std::span(words))))
      std::ranges::copy_if(words, std::back_inserter(places.known),
                           [&](uint64_t word) { return hull.contains(word); });
    else
      places.unread = from;
  }
}

// Up to where the frames of a walk that got into doubt are known all the same: callees whose return addresses lie
// on one stack, one above the other, behind calls, in code whose frames are described. The words between them are
// what earlier calls have left. Beyond a signal frame nothing is known so.
uint64_t end_of_known(const image::Stack& stack, uint64_t sp, const image::Memory& memory) {
  uint64_t known = sp;
  for (size_t i = 1; i < stack.frames.size(); i++) {
    const image::Frame& caller = stack.frames[i];
    const uint64_t place = image::place_of(stack.frames[i - 1]);
    if (!caller.is_call || place < known || !arch::is_behind_call(memory, caller.pc)) break;
    known = place;
  }
  return known;
}

}  // namespace

const image::Stack& WalkedStacks::of(pid_t tid, const arch::ThreadRegisters& registers) {
  auto [known, fresh] = stacks_.try_emplace(tid);
  if (fresh) known->second = unwinder_.walk(arch::unwind_registers(registers), memory_, kFrames);
  return known->second;
}

ReturnPlaces return_places(const arch::ThreadRegisters& registers, std::span<const image::Mapping> mappings,
                           const image::Memory& memory, const image::Unwinder& unwinder) {
  return return_places(registers, mappings, memory,
                       unwinder.walk(arch::unwind_registers(registers), memory, kFrames));
}

ReturnPlaces return_places(const arch::ThreadRegisters& registers, std::span<const image::Mapping> mappings,
                           const image::Memory& memory, const image::Stack& stack) {
  ReturnPlaces out;
  for (size_t i = 1; i < stack.frames.size(); i++)
    out.known.push_back(stack.frames[i].pc);  // the first is where it is
  if (stack.complete) return out;
  uint64_t sp = arch::stack_pointer(registers);
  const image::Mapping* current = mapping_at(mappings, sp);
  if (!current) return out;
  const image::Range hull = hull_of(mappings);
  append(out, std::max(current->start, end_of_known(stack, sp, memory)), current->end, memory, hull);
  // glibc keeps a thread's stack below its thread pointer in one mapping; the first
  // thread's is [stack]. A thread that is on neither of them runs on an alternate stack.
  const image::Mapping* own = mapping_at(mappings, arch::thread_pointer(registers));
  bool on_main = current->path == "[stack]", on_own = own == current;
  if (on_main || on_own) return out;
  for (const image::Mapping& mapping : mappings)
    if (&mapping == own || mapping.path == "[stack]") append(out, mapping.start, mapping.end, memory, hull);
  return out;
}

}  // namespace mdl::patch
