#include "runtime/session/likeness.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <span>

#include "runtime/image/image.h"

namespace mdl::inject {
namespace {

uint64_t in_data = 1;

// A copy of this process that has done something and waits.
class Copy {
 public:
  template <typename Act>
  explicit Copy(Act act) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    id_ = fork();
    if (id_ == 0) {
      act();
      [[maybe_unused]] ssize_t said = write(ready[1], "", 1);
      while (true) pause();
    }
    char said = 1;
    EXPECT_EQ(read(ready[0], &said, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  Copy(const Copy&) = delete;
  ~Copy() {
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  pid_t id() const { return id_; }

 private:
  pid_t id_ = 0;
};

class LikenessTest : public ::testing::Test {
 protected:
  LikenessTest() : first_([] {}), likeness_(first_.id()) {
    auto image = image::read_image(first_.id(), image::Depth::code, &likeness_.log());
    EXPECT_TRUE(image);
    if (image) image_ = std::move(*image);
    likeness_.log().note(reinterpret_cast<uint64_t>(&in_data), std::as_bytes(std::span(&in_data, 1)));
  }
  template <typename Act>
  bool holds_for_one_that(Act act) {
    const Copy other(act);
    auto mappings = image::read_maps(other.id());
    EXPECT_TRUE(mappings);
    return mappings && likeness_.holds_for(image_, other.id(), *mappings);
  }

  Copy first_;
  Likeness likeness_;
  image::Image image_;
};

TEST_F(LikenessTest, HoldsForAFork) {
  EXPECT_TRUE(holds_for_one_that([] {}));
}

TEST_F(LikenessTest, DoesNotHoldWhereWhatWasReadDiffers) {
  EXPECT_FALSE(holds_for_one_that([] { in_data = 2; }));
}

TEST_F(LikenessTest, DoesNotHoldWithOtherCode) {
  EXPECT_FALSE(holds_for_one_that(
      [] { (void)mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }));
  const auto page = [](auto* of) {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(of) & ~uintptr_t{4095});
  };
  EXPECT_FALSE(holds_for_one_that([&] { (void)mprotect(page(&in_data), 4096, PROT_READ); }));
}

TEST_F(LikenessTest, DoesNotHoldForAnotherProgram) {
  int wait[2];
  ASSERT_EQ(pipe(wait), 0);
  pid_t cat = fork();
  if (cat == 0) {
    dup2(wait[0], 0);
    execlp("cat", "cat", nullptr);
    _exit(1);
  }
  usleep(100'000);
  auto mappings = image::read_maps(cat);
  ASSERT_TRUE(mappings);
  EXPECT_FALSE(likeness_.holds_for(image_, cat, *mappings));
  EXPECT_FALSE(likeness_.holds_for(image_, cat, image_.mappings));
  kill(cat, SIGKILL);
  waitpid(cat, nullptr, 0);
}

TEST_F(LikenessTest, DoesNotHoldWithOtherRights) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  EXPECT_FALSE(holds_for_one_that([] { (void)setresuid(65534, 65534, 65534); }));
}

// What counts is what was read, and not what is there by now.
TEST_F(LikenessTest, HoldsWhenTheFirstHasEnded) {
  kill(first_.id(), SIGKILL);
  EXPECT_TRUE(holds_for_one_that([] {}));
}

}  // namespace
}  // namespace mdl::inject
