// The session that a process's mappings show: what a target may have mapped by the name of one is not believed.
#include "runtime/resident/footprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace mdl::resident {
namespace {

constexpr uint64_t kJournalAt = 0x10000, kDataAt = 0x10000000;

// Some mappings with their bytes, the rest of each zero.
class Mapped final : public image::Memory {
 public:
  std::vector<image::Mapping> mappings;

  void map(uint64_t start, uint64_t size, std::string path, std::vector<std::byte> bytes = {}) {
    image::Mapping one;
    one.start = start, one.end = start + size;
    one.read = true, one.inode = 5, one.path = std::move(path);
    mappings.insert(std::ranges::upper_bound(mappings, start, {}, &image::Mapping::start), one);
    bytes_[start] = std::move(bytes);
  }
  bool read(uint64_t address, std::span<std::byte> into) const override {
    for (const image::Mapping& one : mappings) {
      if (address < one.start || address + into.size() > one.end) continue;
      std::fill(into.begin(), into.end(), std::byte{0});
      const std::vector<std::byte>& bytes = bytes_.at(one.start);
      if (const uint64_t at = address - one.start; at < bytes.size())
        std::memcpy(into.data(), bytes.data() + at, std::min<size_t>(into.size(), bytes.size() - at));
      return true;
    }
    return false;
  }

 private:
  std::map<uint64_t, std::vector<std::byte>> bytes_;
};

constexpr const char* kName = "/memfd:mdl-session (deleted)";

Journal small_session() {
  Journal out;
  out.owner = 10, out.target = 20, out.plan = "ab";
  out.code = {{kJournalAt, kJournalAt + 0x10000}};
  std::vector<focus::CellSlot> cells = {{format::CellKind::counter, "c"}, {format::CellKind::flag, "f"}};
  out.layout = make_layout(cells, 3);
  out.kinds = {format::CellKind::counter, format::CellKind::flag};
  out.data = {kDataAt, kDataAt + out.layout.size()};
  out.requests = {{"calls", "/Code/a/b", "Calls", "calls", format::Aggregate::max, 0, 2}};
  out.functions = {{"/Code/a/b", {{0x401000, 0x401020}}}};
  return out;
}

Mapped session(const Journal& journal) {
  Mapped out;
  out.map(kJournalAt, 0x10000, kName, write_journal(journal));
  out.map(kDataAt, journal.layout.size(), kName);
  out.mappings.back().write = true, out.mappings.back().offset = 0x10000;
  return out;
}

Footprint found_in(const Mapped& in) {
  return find_footprint(in.mappings, in);
}

TEST(Footprint, IsFoundByNameAndJournal) {
  const Footprint found = found_in(session(small_session()));
  EXPECT_EQ(found.mappings.size(), 2u);
  ASSERT_TRUE(found.journal) << found.damage;
  EXPECT_EQ(found.journal->at.start, kJournalAt);
}

TEST(Footprint, OtherNamesAreNoSessions) {
  for (const char* name :
       {"/memfd:mdl-session", "/memfd:mdl-sessions (deleted)", "/x/memfd:mdl-session (deleted)",
        "/memfd:mdl-session-more", "[anon:mdl-session]"}) {
    Mapped other;
    other.map(kJournalAt, 0x10000, name, write_journal(small_session()));
    EXPECT_TRUE(found_in(other).mappings.empty()) << name;
  }
}

TEST(Footprint, AJournalThatOthersMayWriteIsNone) {
  for (bool image::Mapping::*access :
       {&image::Mapping::write, &image::Mapping::execute, &image::Mapping::shared}) {
    Mapped changed = session(small_session());
    changed.mappings[0].*access = true;
    const Footprint found = found_in(changed);
    EXPECT_FALSE(found.journal);
    EXPECT_NE(found.damage.find("access"), std::string::npos) << found.damage;
    EXPECT_EQ(found.mappings.size(), 2u) << "it is given back all the same";
  }
}

// A second journal must not hide the first one's windows, whichever of them is the forged one.
TEST(Footprint, OfTwoJournalsNoneIsBelieved) {
  Mapped two = session(small_session());
  two.map(kJournalAt + 0x20000, 0x10000, kName, write_journal(small_session()));
  const Footprint found = found_in(two);
  EXPECT_FALSE(found.journal);
  EXPECT_NE(found.damage.find("two"), std::string::npos) << found.damage;
  EXPECT_EQ(found.mappings.size(), 3u);
}

TEST(Footprint, JournalsTogetherHaveABudget) {
  Mapped many = session(small_session());
  Journal large = small_session();
  large.windows.resize(100'000, {0x401000, {1, 2, 3, 4, 5}, {0xe9, 0, 0, 0, 0}, 1});
  for (uint32_t i = 1; i <= 7; i++) {
    large.extension = i;
    many.map(kDataAt + i * 0x10000000, 0x1000000, kName, write_journal(large));
  }
  const Footprint found = found_in(many);
  EXPECT_FALSE(found.journal);
  EXPECT_NE(found.damage.find("more than 32 MiB"), std::string::npos) << found.damage;
}

TEST(Footprint, RequestsThatAreNotThereAreForged) {
  Journal journal = small_session();
  journal.raised = {{1, true, false, {0}, {0}}};
  EXPECT_TRUE(found_in(session(journal)).journal);
  journal.raised[0].requests = {0, 1};
  EXPECT_FALSE(found_in(session(journal)).journal);
  journal.raised[0].requests = {0}, journal.raised[0].cell = 0;
  EXPECT_FALSE(found_in(session(journal)).journal) << "a counter is never up";
}

// Two generations of the small session, whose windows lie in one page of code.
class Generations : public ::testing::Test {
 protected:
  static constexpr uint64_t kWindow = 0x401000;
  Generations() {
    for (uint32_t i = 0; i < 2; i++) {
      journals_[i] = small_session();
      journals_[i].generation = i;
      const auto at = static_cast<uint8_t>(i + 1);
      journals_[i].windows = {{kWindow, {1, 2, 3, 4, 5}, {0xe9, at, 0, 0, 0}, 1}};
    }
    mapped_.map(kDataAt, journals_[0].layout.size(), kName);
    mapped_.mappings.back().write = true, mapped_.mappings.back().offset = 0x10000;
  }
  void put(const Journal& journal, uint64_t at) { mapped_.map(at, 0x10000, kName, write_journal(journal)); }
  void code(const std::vector<uint8_t>& bytes) {
    const auto text = std::as_bytes(std::span(bytes));
    std::erase_if(mapped_.mappings, [](const image::Mapping& one) { return one.start == kWindow; });
    mapped_.map(kWindow, 0x1000, "/bin/program", {text.begin(), text.end()});
  }
  // The generation that speaks, and how many others there are.
  std::pair<int, size_t> found() const {
    const Footprint out = found_in(mapped_);
    return {out.journal ? static_cast<int>(out.journal->generation) : -1, out.others.size()};
  }

  Journal journals_[2];
  Mapped mapped_;
};

TEST_F(Generations, TheOneWhoseWindowsAreInPlaceSpeaks) {
  put(journals_[1], 0x20000);
  put(journals_[0], 0x40000);
  code(journals_[0].windows[0].patched);
  EXPECT_EQ(found(), std::pair(0, size_t{1}));
  code(journals_[1].windows[0].patched);
  EXPECT_EQ(found(), std::pair(1, size_t{1}));
  code(journals_[1].windows[0].original);
  EXPECT_EQ(found(), std::pair(0, size_t{1}));
}

TEST_F(Generations, ALaterOneMayBeAlone) {
  put(journals_[1], 0x20000);
  code(journals_[1].windows[0].original);
  EXPECT_EQ(found(), std::pair(1, size_t{0}));
}

TEST_F(Generations, AnExtensionBelongsToItsOwn) {
  put(journals_[0], 0x20000);
  put(journals_[1], 0x40000);
  Journal more = journals_[0];
  more.extension = 1;
  more.windows[0].address = 0x501000;
  put(more, 0x60000);
  code(journals_[1].windows[0].patched);
  const Footprint out = found_in(mapped_);
  ASSERT_TRUE(out.journal);
  EXPECT_EQ(out.journal->windows.size(), 1u);
  ASSERT_EQ(out.others.size(), 1u);
  EXPECT_EQ(out.others[0].windows.size(), 2u);
}

// A forged journal is not taken for another generation.
TEST_F(Generations, HaveTheSameData) {
  journals_[1].started_ns++;
  put(journals_[0], 0x20000);
  put(journals_[1], 0x40000);
  code(journals_[1].windows[0].patched);
  EXPECT_EQ(found(), std::pair(-1, size_t{0}));
}

TEST_F(Generations, AreAllSound) {
  journals_[1].raised = {{1, true, false, {7}, {0}}};
  put(journals_[0], 0x20000);
  put(journals_[1], 0x40000);
  code(journals_[0].windows[0].patched);
  EXPECT_EQ(found(), std::pair(-1, size_t{0}));
}

}  // namespace
}  // namespace mdl::resident
