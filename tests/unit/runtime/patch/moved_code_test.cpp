#include "runtime/patch/moved_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/arch/description.h"

namespace mdl::patch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

constexpr uint64_t kThere = 0x7000000;  // where the text is now
constexpr uint64_t kBefore = 0x4000000;
constexpr uint64_t kPages = 3, kPage = 4096;
constexpr resident::PatchedFile kFile = {
    .at = {kBefore, kBefore + kPages* kPage}, .device = 7, .inode = 9, .offset = kPage};

class Text final : public image::Memory {
 public:
  std::vector<uint8_t> bytes = std::vector<uint8_t>(kPages * kPage, 0x90);
  uint64_t unreadable = 0;  // a page
  bool read(uint64_t address, std::span<std::byte> into) const override {
    if (address < kThere || address + into.size() > kThere + bytes.size()) return false;
    if (address < unreadable + kPage && unreadable < address + into.size()) return false;
    std::memcpy(into.data(), &bytes[address - kThere], into.size());
    return true;
  }
};

class MovedCode : public testing::Test {
 protected:
  static resident::PatchedWindow window(uint64_t offset, std::vector<uint8_t> patched) {
    return {.address = kBefore + offset, .original = {}, .patched = std::move(patched)};
  }
  std::optional<std::set<uint64_t>> find(const std::vector<resident::PatchedWindow>& windows) const {
    std::vector<const resident::PatchedWindow*> gone;
    for (const resident::PatchedWindow& one : windows) gone.push_back(&one);
    return find_moved(gone, {&kFile, 1}, mappings_, text_);
  }
  void put(uint64_t offset, const std::vector<uint8_t>& bytes) {
    std::copy(bytes.begin(), bytes.end(), text_.bytes.begin() + static_cast<ptrdiff_t>(offset));
  }

  Text text_;
  std::vector<image::Mapping> mappings_ = {{.start = kThere,
                                            .end = kThere + kPages * kPage,
                                            .offset = kPage,
                                            .execute = true,
                                            .device = 7,
                                            .inode = 9,
                                            .path = {}}};
};

TEST_F(MovedCode, IsFoundInItsPartOfTheFile) {
  put(0x30, {0xe9, 1, 2, 3, 4});
  put(2 * kPage - 2, {0xeb, 5});
  put(2 * kPage + 0x40, {0xe9, 1, 2, 3, 4});
  EXPECT_THAT(find({window(0x30, {0xe9, 1, 2, 3, 4}), window(0x40, {0xe9, 1, 2, 3, 4}),
                    window(2 * kPage - 2, {0xeb, 5})}),
              Optional(ElementsAre(kBefore + 0x30, kBefore + 2 * kPage - 2)));
}

// Some pages of it only, among others.
TEST_F(MovedCode, IsFoundWhereAPartWasMoved) {
  mappings_[0].offset = 3 * kPage;
  mappings_[0].execute = false;
  put(0x30, {0xe9, 1, 2, 3, 4});
  EXPECT_THAT(find({window(0x30, {0xe9, 1, 2, 3, 4}), window(2 * kPage + 0x30, {0xe9, 1, 2, 3, 4})}),
              Optional(ElementsAre(kBefore + 2 * kPage + 0x30)));
}

TEST_F(MovedCode, MayHaveBreakpoints) {
  const uint8_t breakpoint = arch::kMachine.breakpoint[0];
  put(0x30, {breakpoint, 1, 2, 3, 4});
  put(0x50, {0xe9, 1, 2, breakpoint, 4});
  put(0x70, {breakpoint, 1, breakpoint, 3, 4});
  EXPECT_THAT(find({window(0x30, {0xe9, 1, 2, 3, 4}), window(0x50, {0xe9, 1, 2, 3, 4}),
                    window(0x70, {0xe9, 1, 2, 3, 5})}),
              Optional(ElementsAre(kBefore + 0x30, kBefore + 0x50)));
}

// A library that was loaded anew, in which a debugger stops.
TEST_F(MovedCode, IsNotTheOriginalWithABreakpoint) {
  put(0x30, {arch::kMachine.breakpoint[0], 5});
  resident::PatchedWindow one = window(0x30, {0xeb, 5});
  one.original = {0x55, 5};
  EXPECT_THAT(find({one}), Optional(IsEmpty()));
}

TEST_F(MovedCode, IsLookedForInItsFileOnly) {
  put(0x30, {0xe9, 1, 2, 3, 4});
  mappings_[0].inode = 8;
  EXPECT_THAT(find({window(0x30, {0xe9, 1, 2, 3, 4})}), Optional(IsEmpty()));
}

TEST_F(MovedCode, IsFoundBesideAPageThatCannotBeRead) {
  put(0x30, {0xe9, 1, 2, 3, 4});
  put(2 * kPage + 0x30, {0xe9, 1, 2, 3, 4});
  text_.unreadable = kThere + kPage;
  EXPECT_THAT(find({window(0x30, {0xe9, 1, 2, 3, 4}), window(kPage + 0x30, {0xe9, 1, 2, 3, 4}),
                    window(2 * kPage + 0x30, {0xe9, 1, 2, 3, 4})}),
              Optional(ElementsAre(kBefore + 0x30, kBefore + 2 * kPage + 0x30)));
}

// As often as a process may map it: all threads stand meanwhile.
TEST_F(MovedCode, IsGivenUpWhereItsFileIsMappedTooOften) {
  mappings_.resize(1'000'000, mappings_[0]);
  EXPECT_EQ(find({window(0x30, {0xe9, 1, 2, 3, 4})}), std::nullopt);
}

// The journal is the process's own memory: it may say anything.
TEST_F(MovedCode, OfADamagedJournalIsNoMatter) {
  put(kPages * kPage - 1, {0xe9});
  EXPECT_THAT(find({window(0, {}), window(kPages * kPage - 1, {0xe9, 1, 2, 3, 4})}), Optional(IsEmpty()));
}

}  // namespace
}  // namespace mdl::patch
