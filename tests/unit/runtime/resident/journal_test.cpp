// Layout, gaps and the journal: what is computed, and what is believed of the target.
#include "runtime/resident/journal.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/digest.h"
#include "runtime/patch/island.h"
#include "runtime/resident/layout.h"

namespace mdl::resident {
namespace {

image::Mapping mapping(uint64_t start, uint64_t end, std::string path = {}) {
  image::Mapping out;
  out.start = start, out.end = end, out.path = std::move(path);
  return out;
}

Journal sample() {
  Journal out;
  out.owner = 10, out.owner_start = 77, out.owner_space = 99, out.target = 20, out.started_ns = 5,
  out.plan = "ab", out.points = 1;
  out.code = {{0x10000, 0x12000}};
  std::vector<focus::CellSlot> cells = {{format::CellKind::counter, "c"}, {format::CellKind::flag, "f"}};
  out.layout = make_layout(cells, 3);
  out.kinds = {format::CellKind::counter, format::CellKind::flag};
  out.data = {0x100000, 0x100000 + out.layout.size()};
  out.requests = {{"calls", "/Code/a/b", "Calls", "calls", format::Aggregate::max, 0, 2}};
  out.windows = {{0x401000, {1, 2, 3, 4, 5}, {0xe9, 0, 0, 0, 0}, 1}};
  out.files = {{{0x401000, 0x402000}, 8, 1000}};
  out.functions = {{"/Code/a/b", {{0x401000, 0x401020}, {0x401800, 0x401810}}},
                   {"/Code/a/c", {{0x401100, 0x401103}}}};
  out.raised = {{1, true, false, {0, 1}, {0}}};
  return out;
}

TEST(Journal, ReadsBackWhatWasWritten) {
  auto read = read_journal(write_journal(sample()));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->requests[0].focus, "/Code/a/b");
  EXPECT_EQ(read->requests[0].aggregate, format::Aggregate::max);
  EXPECT_EQ(read->windows[0].original, sample().windows[0].original);
  EXPECT_EQ(read->layout.cells, sample().layout.cells);
  EXPECT_EQ(read->owner_start, 77u);
  EXPECT_EQ(read->owner_space, 99u);
  ASSERT_EQ(read->functions.size(), 2u);
  EXPECT_EQ(read->functions[0].name, "/Code/a/b");
  EXPECT_EQ(read->functions[0].code[1].end, 0x401810u);
  ASSERT_EQ(read->raised.size(), 1u);
  EXPECT_TRUE(read->raised[0].tied);
  EXPECT_EQ(read->raised[0].functions, (std::vector<uint32_t>{0, 1}));
}

TEST(Journal, WhatRaisesACellIsAFunctionThatItHas) {
  Journal journal = sample();
  journal.raised[0].functions = {0, 2};
  EXPECT_FALSE(read_journal(write_journal(journal)));
}

// A host's relays are what its bytes say, and a record that says otherwise is not believed.
TEST(Journal, AHostHoldsJumps) {
  Journal journal = sample();
  journal.windows = {{0x401000,
                      {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
                      {0xe9, 0, 0, 0, 0, 0xe9, 0x10, 0, 0, 0},
                      1,
                      PatchedWindow::Part::host},
                     {0x401020, {1, 2, 3, 4, 5}, {0xe9, 1, 0, 0, 0}, 0, PatchedWindow::Part::relay}};
  auto read = read_journal(write_journal(journal));
  ASSERT_TRUE(read) << read.error().text;
  ASSERT_EQ(read->windows[0].part, PatchedWindow::Part::host);
  auto relays = relays_of(read->windows[0]);
  ASSERT_EQ(relays.size(), 1u);
  EXPECT_EQ(relays[0].at, 0x401005u);
  EXPECT_EQ(relays[0].target, 0x40101au);
  EXPECT_EQ(relay_places(read->windows), (std::vector<uint64_t>{0x401005, 0x401020}));
  journal.windows[0].patched[5] = 0x90;
  EXPECT_FALSE(read_journal(write_journal(journal)));
  journal.windows[0].patched.resize(7), journal.windows[0].original.resize(7);
  EXPECT_FALSE(read_journal(write_journal(journal)));
}

TEST(Journal, ItHasAsManyWindowsAsItSays) {
  std::vector<std::byte> bytes = write_journal(sample());
  bytes[kJournalHead] = std::byte{200};
  const Digest digest = sha256(std::span(bytes).subspan(kJournalHead));
  std::ranges::copy(digest, bytes.begin() + 24);
  const auto read = read_journal(bytes);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().text.find("fewer windows"), std::string::npos) << read.error().text;
  EXPECT_FALSE(is_readable(bytes));
}

TEST(Journal, AWindowIsWithinItsRecordAndTheAddressSpace) {
  for (const PatchedWindow& bad :
       {PatchedWindow{0x401000, {}, {}},
        PatchedWindow{uint64_t{1} << 47, {1, 2, 3, 4, 5}, {0xe9, 0, 0, 0, 0}},
        PatchedWindow{0x401000, std::vector<uint8_t>(17), std::vector<uint8_t>(17)},
        PatchedWindow{0x401000, {1, 2, 3, 4, 5}, {0xe9, 0, 0, 0}}}) {
    Journal journal = sample();
    journal.windows = {bad};
    EXPECT_FALSE(read_journal(write_journal(journal))) << bad.address << " " << bad.original.size();
  }
}

// A library was loaded where another one had been.
TEST(Journal, AnExtensionReplacesWhatWasAtItsPlaces) {
  Journal session = sample(), extension = sample();
  session.windows.push_back({0x501000, {1, 2, 3, 4, 5}, {0xe9, 0, 0, 0, 0}});
  session.files.push_back({{0x501000, 0x502000}, 8, 1001});
  extension.extension = 1;
  extension.windows = {{0x501800, {6, 7, 8, 9, 10}, {0xe9, 1, 0, 0, 0}}};
  extension.files = {{{0x501000, 0x502000}, 8, 1002}};
  auto read = read_journal(write_journal(extension));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->extension, 1u);
  absorb(session, *read);
  ASSERT_EQ(session.functions.size(), 4u);
  EXPECT_EQ(session.raised[0].functions, (std::vector<uint32_t>{0, 1, 2, 3}));
  ASSERT_EQ(session.windows.size(), 2u);
  EXPECT_EQ(session.windows[1].address, 0x501800u);
  ASSERT_EQ(session.files.size(), 2u);
  EXPECT_EQ(session.files[1].inode, 1002u);
}

TEST(Journal, AnAddressIsThatOfAFileOnlyWhileThatFileIsThere) {
  const std::vector<PatchedFile> files = sample().files;
  std::vector<image::Mapping> mappings = {mapping(0x400000, 0x401000, "/a"),
                                          mapping(0x401000, 0x402000, "/a")};
  const auto is_still_there = [&](const std::vector<image::Mapping>& now, uint64_t address) {
    return FilePlaces(files, now).is_still_there(address);
  };
  mappings[0].device = mappings[1].device = 8, mappings[0].inode = mappings[1].inode = 1000;
  EXPECT_EQ(files_at(mappings, sample().windows).size(), 1u);
  EXPECT_TRUE(is_still_there(mappings, 0x401800));
  EXPECT_FALSE(is_still_there(mappings, 0x400800)) << "no window was there";
  EXPECT_FALSE(is_still_there({mappings[0]}, 0x401800)) << "unloaded";
  mappings[1].inode = 1001;
  EXPECT_FALSE(is_still_there(mappings, 0x401800)) << "another file";
  mappings[1].inode = 1000, mappings[1].device = 9;
  EXPECT_FALSE(is_still_there(mappings, 0x401800)) << "another file system";
}

TEST(Journal, WhatIsTooLargeIsRefusedBeforeItIsParsed) {
  const std::vector<std::byte> bytes = write_journal(sample());
  JournalBudget budget;
  ASSERT_TRUE(read_journal(bytes, budget));
  EXPECT_LT(budget.bytes, JournalBudget().bytes);
  EXPECT_LT(budget.values, JournalBudget().values);
  JournalBudget few{JournalBudget().bytes, 10};
  const auto refused = read_journal(bytes, few);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("and 10 is the most"), std::string::npos) << refused.error().text;
  JournalBudget small{100, JournalBudget().values};
  EXPECT_FALSE(read_journal(bytes, small));
  EXPECT_TRUE(is_readable(bytes));
  Journal large = sample();
  large.windows.resize(600'000, large.windows[0]);
  EXPECT_FALSE(is_readable(write_journal(large)));
  EXPECT_GT(large.windows.size(), kMostWindows);
}

TEST(Journal, EveryDamagedByteIsNoticed) {
  auto bytes = write_journal(sample());
  for (size_t i = 0; i < bytes.size(); i++) {
    if (i >= 12 && i < 16) continue;  // the reserved word
    auto damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(read_journal(damaged)) << "byte " << i;
  }
  for (size_t size = 0; size < bytes.size(); size += 7)
    EXPECT_FALSE(read_journal(std::span(bytes).first(size)));
}

TEST(Journal, ALayoutThatLeavesTheRegionIsRefused) {
  Journal bad = sample();
  bad.data.end = bad.data.start + 4096;
  EXPECT_FALSE(read_journal(write_journal(bad)));
  bad = sample();
  bad.layout.cells[0] = static_cast<uint32_t>(bad.layout.stride);
  EXPECT_FALSE(read_journal(write_journal(bad)));
  bad = sample();
  bad.requests[0].value = 9;
  EXPECT_FALSE(read_journal(write_journal(bad)));
  bad = sample();
  bad.windows[0].patched.clear();
  EXPECT_FALSE(read_journal(write_journal(bad)));
}

TEST(Layout, BlocksAreApartAndAddressSpaceIsBounded) {
  std::vector<focus::CellSlot> cells(10000, {format::CellKind::counter, "c"});
  Layout big = make_layout(cells, 100);
  EXPECT_LE(big.size(), uint64_t{1} << 30);
  EXPECT_GE(big.slots, 512u);
  Layout small = make_layout(std::span(cells).first(1), 1);
  EXPECT_EQ(small.stride % 128, 0u);
  EXPECT_EQ(small.slots, 4096u);
}

// A program may limit its addresses after the attach.
TEST(Layout, LargeBlocksAreFewer) {
  const std::vector<focus::CellSlot> cells(6400, {format::CellKind::counter, "c"});
  const Layout few = make_layout(cells, 1);
  EXPECT_EQ(few.slots, 1024u);
  EXPECT_LE(few.size(), uint64_t{70} << 20);
  EXPECT_EQ(make_layout(cells, 1000).slots, 4096u);
}

TEST(KeyTable, TakesFewAddressesWhereNobodySaysHowManyKeys) {
  using format::CellKind, format::KeyName;
  const auto usual = [](CellKind kind, std::vector<KeyName> names, uint64_t bytes = UINT64_MAX) {
    return KeyTableShape::usual(bytes, kind, names);
  };
  EXPECT_EQ(usual(CellKind::counter, {KeyName::number}).most, 524288u);
  EXPECT_LE(usual(CellKind::counter, {KeyName::number}).size(), kUsualTable);
  EXPECT_EQ(usual(CellKind::counter, {KeyName::str}).most, 131072u);
  EXPECT_LE(usual(CellKind::histogram, {KeyName::path}).size(), kUsualTable);
  EXPECT_EQ(usual(CellKind::counter, {KeyName::number}, 1 << 20).most, 4096u);
}

TEST(Journal, ValuesThatAreNotKnown) {
  Journal journal = sample();
  journal.requests.assign(3, journal.requests[0]);
  journal.requests[0].hollow = journal.requests[0].lost = true;
  journal.requests[0].children = 1;
  journal.requests[1].hollow = true;                              // there is no such point: its value is 0
  journal.requests[2].hollow = true, journal.requests[2].of = 0;  // what all children wait for
  const auto read = read_journal(write_journal(journal));
  ASSERT_TRUE(read) << read.error().text;
  for (const size_t request : {0, 1, 2}) EXPECT_EQ(read->is_unknown(request), request != 1);
}

TEST(Layout, SlotsAreFoundAsTheCodeFindsThem) {
  std::vector<focus::CellSlot> cells(1);
  Layout layout = make_layout(cells, 1);
  auto directory = empty_directory(layout, 0x7f0000000000);
  std::vector<uint32_t> slots;
  for (uint64_t i = 1; i <= 500; i++) {  // as glibc spaces the stacks of threads
    uint64_t tp = 0x7f0000000000 + i * 0x801000 - 0x940;
    uint32_t slot = find_slot(directory, tp);
    ASSERT_LT(slot, layout.slots);
    EXPECT_EQ(directory[slot * 2], 0u);
    directory[slot * 2] = tp;
    EXPECT_EQ(find_slot(directory, tp), slot);
    slots.push_back(slot);
  }
}

TEST(Island, BelowTheProgramBeforeAboveItsHeap) {
  image::Mapping text = mapping(0x555555554000, 0x555555560000),
                 heap = mapping(0x555555570000, 0x555555590000, "[heap]");
  image::Mapping maps[] = {text, heap};
  auto gap = patch::find_gap(maps, {}, {text.start, text.end}, 0x4000, 0x70000000);
  ASSERT_TRUE(gap);
  EXPECT_LT(*gap, text.start);
  EXPECT_GT(*gap, text.start - 0x100000);
  EXPECT_EQ(*gap % 4096, 0u);
}

TEST(Island, AboveWhenThereIsNoRoomBelow) {
  image::Mapping text = mapping(0x400000, 0x500000);
  auto gap = patch::find_gap(std::span(&text, 1), {}, {text.start, text.end}, 0x800000, 0x70000000);
  ASSERT_TRUE(gap);
  EXPECT_GT(*gap, text.end);
  EXPECT_LT(*gap + 0x800000, 0x400000u + 0x70000000u);
}

TEST(Island, KeepsApart) {
  image::Mapping text = mapping(0x7f0000000000, 0x7f0000100000);
  auto gap = patch::find_gap(std::span(&text, 1), {}, {text.start, text.end}, 0x4000, 0x70000000, 0x10000000);
  ASSERT_TRUE(gap);
  EXPECT_EQ(*gap, text.start - 0x10000000 - 0x4000);
}

TEST(Island, NoneWhenNothingIsInReach) {
  image::Mapping maps[] = {mapping(0x10000, 0x100000000)};
  EXPECT_FALSE(patch::find_gap(maps, {}, {0x400000, 0x500000}, 0x1000, 0x70000000));
}

}  // namespace
}  // namespace mdl::resident
