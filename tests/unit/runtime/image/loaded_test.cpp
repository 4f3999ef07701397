// The dynamic linker's list, sound and damaged: it is the process's and may hold anything.
#include "runtime/image/loaded.h"

#include <gtest/gtest.h>
#include <link.h>

#include <cstring>
#include <span>
#include <vector>

namespace mdl::image {
namespace {

constexpr uint64_t kBase = 0x10000;
constexpr uint64_t kFirst = 0x100, kSecond = 0x200;  // offsets of entries

// An r_debug at kBase, and two entries behind it.
class List {
 public:
  List() : bytes_(0x1000) {
    head_.r_version = 1;
    head_.r_map = at(kFirst);
    head_.r_state = r_debug::RT_CONSISTENT;
    put(0, head_);
    entry(kFirst, 0x400000, kSecond);
    entry(kSecond, 0x7f0000, 0);
  }
  static link_map* at(uint64_t offset) { return reinterpret_cast<link_map*>(kBase + offset); }
  void entry(uint64_t offset, uint64_t load, uint64_t next) {
    link_map map{};
    map.l_addr = load;
    map.l_ld = reinterpret_cast<ElfW(Dyn)*>(load + 8);
    map.l_next = next ? at(next) : nullptr;
    put(offset, map);
  }
  r_debug& head() { return head_; }
  void put_head() { put(0, head_); }
  std::optional<std::vector<uint64_t>> read() const { return LoadedList(kBase).read(memory()); }
  BufferMemory memory() const { return BufferMemory(bytes_, kBase); }

 private:
  template <typename T>
  void put(uint64_t offset, const T& value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
  }
  std::vector<std::byte> bytes_;
  r_debug head_{};
};

TEST(LoadedList, HasEachObject) {
  EXPECT_EQ(List().read(), (std::vector<uint64_t>{0x400000, 0x400008, 0x7f0000, 0x7f0008}));
}

// The same, and how many calls that took.
class Counted final : public Memory {
 public:
  explicit Counted(const List& list) : memory_(list.memory()) {}
  bool read(uint64_t address, std::span<std::byte> into) const override {
    calls_++;
    return memory_.read(address, into);
  }
  int calls() const { return calls_; }

 private:
  BufferMemory memory_;
  mutable int calls_ = 0;
};

TEST(LoadedList, IsAsBefore) {
  List list;
  LoadedList loaded(kBase);
  EXPECT_FALSE(loaded.is_as_before(list.memory()));
  ASSERT_TRUE(loaded.read(list.memory()));
  const Counted again(list);
  EXPECT_TRUE(loaded.is_as_before(again));
  EXPECT_EQ(again.calls(), 1);
  list.entry(kFirst + sizeof(link_map), 0x123, 0);  // somebody else's
  EXPECT_TRUE(loaded.is_as_before(list.memory()));
}

TEST(LoadedList, IsNotAsBeforeWhenItGrewOrShrank) {
  List list;
  LoadedList loaded(kBase);
  const auto before = loaded.read(list.memory());
  list.entry(kSecond, 0x7f0000, 0x800);
  list.entry(0x800, 0x7f8000, 0);
  EXPECT_FALSE(loaded.is_as_before(list.memory()));
  EXPECT_EQ(loaded.read(list.memory()),
            (std::vector<uint64_t>{0x400000, 0x400008, 0x7f0000, 0x7f0008, 0x7f8000, 0x7f8008}));
  EXPECT_TRUE(loaded.is_as_before(list.memory()));
  list.entry(kSecond, 0x7f0000, 0);
  EXPECT_FALSE(loaded.is_as_before(list.memory()));
  EXPECT_EQ(loaded.read(list.memory()), before);
  list.head().r_state = r_debug::RT_ADD;
  list.put_head();
  EXPECT_FALSE(loaded.is_as_before(list.memory()));
}

TEST(LoadedList, IsNotAsBeforeWhereItCannotBeRead) {
  List list;
  LoadedList loaded(kBase);
  ASSERT_TRUE(loaded.read(list.memory()));
  EXPECT_FALSE(loaded.is_as_before(BufferMemory({}, kBase)));
  EXPECT_EQ(loaded.read(BufferMemory({}, kBase)), std::nullopt);
  EXPECT_FALSE(loaded.is_as_before(list.memory()));
}

// It changes between the calls that read it.
class Changing final : public Memory {
 public:
  explicit Changing(List& list, int at) : list_(list), at_(at) {}
  bool read(uint64_t address, std::span<std::byte> into) const override {
    if (--at_ == 0) list_.entry(kSecond, 0x7f4000, 0);
    return list_.memory().read(address, into);
  }

 private:
  List& list_;
  mutable int at_;
};

TEST(LoadedList, IsNotAsBeforeWhenItChangedMeanwhile) {
  List list;
  LoadedList loaded(kBase);
  constexpr int kBehindTheEntries = 4;
  ASSERT_TRUE(loaded.read(Changing(list, kBehindTheEntries)));
  EXPECT_FALSE(loaded.is_as_before(list.memory()));
}

TEST(LoadedList, IsNothingWhileItChanges) {
  List list;
  list.head().r_state = r_debug::RT_ADD;
  list.put_head();
  EXPECT_EQ(list.read(), std::nullopt);
}

TEST(LoadedList, MayBeALoop) {
  List list;
  list.entry(kSecond, 0x7f0000, kFirst);
  EXPECT_EQ(list.read(), std::nullopt);
}

TEST(LoadedList, MayLeadNowhere) {
  List list;
  list.entry(kSecond, 0x7f0000, 0x12345678);
  EXPECT_EQ(list.read(), std::nullopt);
  EXPECT_EQ(LoadedList(0x1).read(BufferMemory({}, kBase)), std::nullopt);
}

}  // namespace
}  // namespace mdl::image
