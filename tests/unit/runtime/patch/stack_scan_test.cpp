#include "runtime/patch/stack_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace mdl::patch {
namespace {

using testing::ElementsAre;

constexpr uint64_t kText = 0x400000, kHeap = 0xc000000000, kHeapPage = 4096;

// The heap of a Go program, in which its stacks lie: zeros, but for the words that a test puts there.
class Heap final : public image::Memory {
 public:
  std::vector<uint64_t> words = std::vector<uint64_t>((1u << 20) / 8);
  uint64_t unreadable = 0;  // a page
  bool read(uint64_t address, std::span<std::byte> into) const override {
    if (address < kHeap || address + into.size() > end()) return false;
    if (address < unreadable + kHeapPage && unreadable < address + into.size()) return false;
    std::memcpy(into.data(), &words[(address - kHeap) / 8], into.size());
    return true;
  }
  uint64_t end() const { return kHeap + words.size() * 8; }
};

class StackScan : public testing::Test {
 protected:
  StackScan() { arch::set_stack_pointer(registers_, kHeap + kHeapPage); }
  ReturnPlaces scan() const { return return_places(registers_, mappings_, heap_, image::Stack{}); }
  uint64_t& word(uint64_t address) { return heap_.words[(address - kHeap) / 8]; }

  Heap heap_;
  arch::ThreadRegisters registers_;
  std::vector<image::Mapping> mappings_ = {
      {.start = kText, .end = kText + kHeapPage, .read = true, .execute = true, .path = "program"},
      {.start = kHeap, .end = heap_.end(), .read = true, .write = true, .path = ""},
      {.start = 0xffffffffff600000, .end = 0xffffffffff601000, .execute = true, .path = "[vsyscall]"}};
};

TEST_F(StackScan, FindsAddressesUpToTheEndOfTheMapping) {
  word(kHeap + 8) = kText;  // below the stack pointer
  word(kHeap + kHeapPage) = kText + 1;
  word(heap_.end() - 8) = kText + 2;
  EXPECT_THAT(scan().known, ElementsAre(kText + 1, kText + 2));
}

// All threads stand while each word that is kept is looked up.
TEST_F(StackScan, KeepsNoWordThatLeadsNowhere) {
  word(kHeap + 2 * kHeapPage) = kText - 1;
  word(kHeap + 3 * kHeapPage) = heap_.end();
  word(kHeap + 4 * kHeapPage) = 0x2e65646f63206f47;  // a text
  word(kHeap + 5 * kHeapPage) = ~uint64_t{0};
  word(kHeap + 6 * kHeapPage) = kText;
  EXPECT_THAT(scan().known, ElementsAre(kText));
}

TEST_F(StackScan, TellsWhatItCannotRead) {
  heap_.unreadable = kHeap + (700u << 10);
  word(kHeap + kHeapPage) = kText;
  word(heap_.end() - 8) = kText + 1;
  const ReturnPlaces places = scan();
  EXPECT_NE(places.unread, 0u);
  EXPECT_LE(places.unread, heap_.unreadable);
  EXPECT_THAT(places.known, ElementsAre(kText, kText + 1));
}

}  // namespace
}  // namespace mdl::patch
