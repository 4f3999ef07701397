#include "runtime/patch/moved_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/arch/description.h"

namespace mdl::patch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kThere = 0x7000000;  // where the text is now
constexpr uint64_t kBefore = 0x4000000;
constexpr uint64_t kPages = 3, kPage = 4096;
constexpr resident::PatchedFile kFile = {.at = {kBefore, kBefore + kPages* kPage}, .device = 7, .inode = 9};

class Text final : public image::Memory {
 public:
  std::vector<uint8_t> bytes = std::vector<uint8_t>(kPages * kPage, 0x90);
  bool read(uint64_t address, std::span<std::byte> into) const override {
    if (address < kThere || address + into.size() > kThere + bytes.size()) return false;
    std::memcpy(into.data(), &bytes[address - kThere], into.size());
    return true;
  }
};

class MovedCode : public testing::Test {
 protected:
  static resident::PatchedWindow window(uint64_t offset, std::vector<uint8_t> patched) {
    return {.address = kBefore + offset, .original = {}, .patched = std::move(patched)};
  }
  std::set<uint64_t> find(const std::vector<resident::PatchedWindow>& windows) const {
    std::vector<const resident::PatchedWindow*> gone;
    for (const resident::PatchedWindow& one : windows) gone.push_back(&one);
    return find_moved(gone, {&kFile, 1}, {&mapping_, 1}, text_);
  }
  void put(uint64_t offset, const std::vector<uint8_t>& bytes) {
    std::copy(bytes.begin(), bytes.end(), text_.bytes.begin() + static_cast<ptrdiff_t>(offset));
  }

  Text text_;
  image::Mapping mapping_ = {
      .start = kThere, .end = kThere + kPages * kPage, .execute = true, .device = 7, .inode = 9, .path = {}};
};

TEST_F(MovedCode, IsFoundInAnyPage) {
  put(2 * kPage + 0x30, {0xe9, 1, 2, 3, 4});
  put(kPage - 2, {0xeb, 5});
  EXPECT_THAT(find({window(0x30, {0xe9, 1, 2, 3, 4}), window(0x40, {0xe9, 1, 2, 3, 5}),
                    window(2 * kPage - 2, {0xeb, 5})}),
              ElementsAre(kBefore + 0x30, kBefore + 2 * kPage - 2));
}

// A library that was loaded anew may have the bytes of a short jump anywhere.
TEST_F(MovedCode, IsNoChanceLikeness) {
  put(0x30, {0xeb, 5});
  const std::vector<resident::PatchedWindow> both = {window(0x30, {0xeb, 5}),
                                                     window(0x37, {0xe9, 1, 2, 3, 4})};
  EXPECT_THAT(find(both), IsEmpty());
  put(0x37, {0xe9, 1, 2, 3, 4});
  EXPECT_THAT(find(both), ElementsAre(kBefore + 0x30, kBefore + 0x37));
}

TEST_F(MovedCode, MayHaveABreakpoint) {
  put(0x30, {arch::kMachine.breakpoint[0], 1, 2, 3, 4});
  EXPECT_THAT(find({window(0x30, {0xe9, 1, 2, 3, 4})}), ElementsAre(kBefore + 0x30));
}

TEST_F(MovedCode, KeepsItsPlaceInThePage) {
  put(0x31, {0xe9, 1, 2, 3, 4});
  EXPECT_THAT(find({window(0x30, {0xe9, 1, 2, 3, 4})}), IsEmpty());
}

TEST_F(MovedCode, IsLookedForInTextOfItsFileOnly) {
  put(0x30, {0xe9, 1, 2, 3, 4});
  mapping_.inode = 8;
  EXPECT_THAT(find({window(0x30, {0xe9, 1, 2, 3, 4})}), IsEmpty());
}

// The journal is the process's own memory: it may say anything.
TEST_F(MovedCode, OfADamagedJournalIsNoMatter) {
  put(kPages * kPage - 1, {0xe9});
  EXPECT_THAT(find({window(0, {}), window(kPage - 1, {0xe9, 1, 2, 3, 4})}), IsEmpty());
}

}  // namespace
}  // namespace mdl::patch
