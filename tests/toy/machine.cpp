#include "tests/toy/machine.h"

#include <algorithm>
#include <stdexcept>

namespace mdl::toy {
namespace {

constexpr uint64_t kNowhere = 0xffff'ffff'0000;
constexpr uint64_t kMostSteps = 1'000'000;
constexpr uint64_t kIsEqual = 1, kIsAbove = 2;  // flags

bool holds(uint8_t test, uint64_t flags) {
  const bool opposite = test & 1;
  const uint64_t wanted = test / 2 == equal / 2   ? flags & kIsEqual
                          : test / 2 == above / 2 ? flags & kIsAbove
                                                  : !(flags & (kIsEqual | kIsAbove));
  return (wanted != 0) != opposite;
}

uint64_t compared(uint64_t a, uint64_t b) {
  return (a == b ? kIsEqual : 0) | (a > b ? kIsAbove : 0);
}

}  // namespace

bool Store::read(uint64_t address, std::span<std::byte> into) const {
  if (address < base || address - base > bytes.size() || into.size() > bytes.size() - (address - base))
    return false;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(address - base), into.size(), into.begin());
  return true;
}

void Store::write(uint64_t address, std::span<const uint8_t> from) {
  if (address < base || address - base + from.size() > bytes.size())
    throw std::runtime_error("a store to nowhere");
  std::ranges::copy(std::as_bytes(from), bytes.begin() + static_cast<std::ptrdiff_t>(address - base));
}

uint64_t Store::word(uint64_t address) const {
  uint64_t out = 0;
  if (!read(address, std::as_writable_bytes(std::span(&out, 1))))
    throw std::runtime_error("a load from nowhere");
  return out;
}

void Store::set_word(uint64_t address, uint64_t value) {
  write(address, std::span(reinterpret_cast<const uint8_t*>(&value), sizeof value));
}

void run(Store& memory, State& state, uint64_t entry) {
  auto& r = state.registers;
  r[kLink] = kNowhere;
  for (uint64_t pc = entry; pc != kNowhere;) {
    const uint64_t bits = memory.word(pc);
    const Word word = word_at(&bits);
    const auto immediate = static_cast<uint64_t>(int64_t{word.immediate});
    if (++state.steps > kMostSteps) throw std::runtime_error("it does not end");
    pc += kSize;
    switch (word.operation) {
      case nop:
      case landing:
        break;
      case set:
        r[word.a] = immediate;
        break;
      case move:
        r[word.a] = r[word.b];
        break;
      case add:
        r[word.a] += r[word.b];
        break;
      case add_immediate:
        r[word.a] += immediate;
        break;
      case address:
        r[word.a] = pc + immediate;
        break;
      case load:
        r[word.a] = memory.word(r[word.b] + (word.c == kNone ? 0 : r[word.c] * 8) + immediate);
        break;
      case store:
        memory.set_word(r[word.b] + immediate, r[word.a]);
        break;
      case count:
        memory.set_word(r[word.b] + immediate, memory.word(r[word.b] + immediate) + 1);
        break;
      case compare:
        state.flags = compared(r[word.a], immediate);
        break;
      case compare_both:
        state.flags = compared(r[word.a], r[word.b]);
        break;
      case get_flags:
        r[word.a] = state.flags;
        break;
      case set_flags:
        state.flags = r[word.a];
        break;
      case jump:
        pc += immediate;
        break;
      case jump_far:
        pc = memory.word(pc);
        break;
      case branch:
        pc += holds(word.a, state.flags) ? immediate : 0;
        break;
      case call:
        r[kLink] = pc, pc += immediate;
        break;
      case call_register:
        r[kLink] = pc, pc = r[word.a];
        break;
      case jump_register:
        pc = r[word.a];
        break;
      case ret:
        pc = r[kLink];
        break;
      default:
        throw std::runtime_error("a trap");
    }
  }
}

}  // namespace mdl::toy
