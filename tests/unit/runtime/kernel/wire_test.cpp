#include "runtime/kernel/wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace mdl::kernel::wire {
namespace {

std::array<std::byte, 4096> room;

template <typename T>
T there_and_back(const T& value) {
  Writer writer(room);
  put(writer, value);
  Reader reader{std::span(room).first(writer.used())};
  T out{};
  get(reader, out);
  EXPECT_TRUE(writer.fits() && reader.is_whole());
  return out;
}

// Whether all was there, too. Their bytes are those of `room`.
std::pair<std::vector<Edit>, bool> edits_back(std::span<const Edit> edits) {
  using Edits = Parameter<std::span<const Edit>>;
  Writer writer(room);
  Edits::ask(writer, edits);
  Reader reader{std::span(room).first(writer.used())};
  Edits::Kept kept;
  Edits::take(reader, kept);
  return {kept, reader.is_whole()};
}

TEST(Wire, ValuesComeBack) {
  EXPECT_EQ(there_and_back(uint64_t{42}), 42u);
  EXPECT_EQ(there_and_back(std::string("a\0b", 3)), std::string("a\0b", 3));
  EXPECT_EQ(there_and_back(std::vector<int>{1, 2, 3}), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(there_and_back(std::optional<bool>(true)), true);
  EXPECT_EQ(there_and_back(Edited{{1, 2}, {3}, true}).foreign, (std::vector<size_t>{3}));
}

TEST(Wire, EditsComeBack) {
  const std::array<uint8_t, 3> before = {1, 2, 3}, after = {4, 5, 6};
  const std::array<Edit, 2> edits = {Edit{0x1000, before, after}, Edit{0x2000, after, before}};
  const auto [kept, is_whole] = edits_back(edits);
  ASSERT_TRUE(is_whole);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[1].address, 0x2000u);
  EXPECT_TRUE(std::ranges::equal(kept[1].from, after) && std::ranges::equal(kept[1].to, before));
}

// It would end before it begins.
TEST(Wire, NoEditGoesBeyondTheLastAddress) {
  const std::array<uint8_t, 3> before = {1, 2, 3}, after = {4, 5, 6};
  const std::array<Edit, 1> edits = {Edit{UINT64_MAX - 1, before, after}};
  const auto [kept, is_whole] = edits_back(edits);
  EXPECT_FALSE(is_whole);
  EXPECT_TRUE(kept.empty());
}

TEST(Wire, WhatDoesNotFitIsSaid) {
  Writer writer{std::span(room).first(10)};
  put(writer, std::string(100, 'x'));
  EXPECT_FALSE(writer.fits());
}

// Cut off anywhere, and with each number changed: never more than was there, and never whole.
TEST(Wire, WhatIsMadeUpIsNotWhole) {
  const std::array<uint8_t, 3> before = {1, 2, 3}, after = {4, 5, 6};
  const std::array<Edit, 1> edits = {Edit{0x1000, before, after}};
  using Edits = Parameter<std::span<const Edit>>;
  Writer writer(room);
  Edits::ask(writer, edits);
  for (size_t size = 0; size < writer.used(); size++) {
    Reader reader{std::span(room).first(size)};
    Edits::Kept kept;
    Edits::take(reader, kept);
    EXPECT_FALSE(reader.is_whole()) << size;
  }
  for (size_t at = 0; at < sizeof(uint64_t); at++) {  // of how many there are
    auto copy = room;
    copy[at] = std::byte{0xff};
    Reader reader{std::span(copy).first(writer.used())};
    Edits::Kept kept;
    Edits::take(reader, kept);
    EXPECT_FALSE(reader.is_whole()) << at;
  }
  Reader huge{std::as_bytes(std::span("\xff\xff\xff\xff\xff\xff\xff\x7f")).first(8)};
  Parameter<std::span<std::byte>>::Kept kept;
  Parameter<std::span<std::byte>>::take(huge, kept);
  EXPECT_FALSE(huge.is_whole());
  EXPECT_TRUE(kept.empty());
}

}  // namespace
}  // namespace mdl::kernel::wire
