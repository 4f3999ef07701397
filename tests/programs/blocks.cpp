// Blocks of the heap, and for each site that allocates them the truth of how often t_use was given one.
//
//   blocks [SECONDS]
//
// Answers carry {"pid":..,"uses":{"SITE":N,..}}, since the program's start (a child's: since it was made). SITE is the
// function that has allocated the block: by_malloc, by_calloc, by_realloc (which grows, shrinks, or moves one), by_new,
// by_array, by_nothrow, by_array_nothrow, by_aligned, by_aligned_array, by_posix (posix_memalign, which also fails); or
// "unknown": from the start of the program, freed, in the midst of another one, on the stack, or null.
//
//   go N       four threads, N blocks each, which they give to each other; whoever frees one has used it
//   hold N     N blocks by malloc at a time, each used once all are there, and freed then
//   fork N     a child goes N times and answers itself; the parent answers then
//   quit       ends with status 0
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "protocol.h"
#include "totals.h"

#define SITE __attribute__((noipa, used))

constexpr std::align_val_t kAlign{64};

extern "C" SITE long t_use(const void* block, long amount) {
  asm volatile("" : "+r"(block), "+r"(amount));
  return amount + (block == nullptr);
}

extern "C" {
SITE void* by_malloc(size_t size) {
  void* block = std::malloc(size);
  asm volatile("" : "+r"(block));  // no tail call: the site is here
  return block;
}
SITE void* by_calloc(size_t size) {
  void* block = std::calloc(1, size);
  asm volatile("" : "+r"(block));
  return block;
}
SITE void* by_realloc(size_t size) {
  void* block = std::realloc(by_malloc(size / 2 + 1), size);
  asm volatile("" : "+r"(block));
  if (size % 3 == 0) block = std::realloc(block, size / 3 + 1);
  asm volatile("" : "+r"(block));
  return block;
}
SITE void* by_new(size_t size) {
  void* block = ::operator new(size);
  asm volatile("" : "+r"(block));
  return block;
}
SITE void* by_array(size_t size) {
  void* block = ::operator new[](size);
  asm volatile("" : "+r"(block));
  return block;
}
SITE void* by_nothrow(size_t size) {
  void* block = ::operator new(size, std::nothrow);
  asm volatile("" : "+r"(block));
  return block;
}
SITE void* by_array_nothrow(size_t size) {
  void* block = ::operator new[](size, std::nothrow);
  asm volatile("" : "+r"(block));
  return block;
}
SITE void* by_aligned(size_t size) {
  void* block = ::operator new(size, kAlign);
  asm volatile("" : "+r"(block));
  return block;
}
SITE void* by_aligned_array(size_t size) {
  void* block = ::operator new[](size, kAlign, std::nothrow);
  asm volatile("" : "+r"(block));
  return block;
}
SITE void* by_posix(size_t size) {
  static char untouched[64];
  void* block = untouched;  // stays what it is where there is no block
  if (posix_memalign(&block, 3, size) == 0 || block != untouched) std::abort();
  if (posix_memalign(&block, 64, size) != 0) std::abort();
  return block;
}
}

namespace {

struct Block {
  void* at;
  int site;
};
constexpr std::array kSites = {"by_malloc",        "by_calloc",  "by_realloc",       "by_new",
                               "by_array",         "by_nothrow", "by_array_nothrow", "by_aligned",
                               "by_aligned_array", "by_posix",   "unknown"};
constexpr int kUnknown = kSites.size() - 1;
constexpr size_t kShared = 64;
using Uses = std::array<long, kSites.size()>;

std::mutex mutex;
Uses uses;
std::array<Block, kShared> shared;  // what threads give to each other
void* const early = std::malloc(100);

Block allocate(Random& random) {
  const size_t size = 1 + random.next(random.next(50) == 0 ? 400000 : 600);
  const int site = static_cast<int>(random.next(kUnknown));
  switch (site) {
    case 0:
      return {by_malloc(size), site};
    case 1:
      return {by_calloc(size), site};
    case 2:
      return {by_realloc(size), site};
    case 3:
      return {by_new(size), site};
    case 4:
      return {by_array(size), site};
    case 5:
      return {by_nothrow(size), site};
    case 6:
      return {by_array_nothrow(size), site};
    case 7:
      return {by_aligned(size), site};
    case 8:
      return {by_aligned_array(size), site};
    default:
      return {by_posix(size), site};
  }
}

void release(const Block& block) {
  switch (block.site) {
    case 3:
      return ::operator delete(block.at);
    case 4:
      return ::operator delete[](block.at);
    case 5:
      return ::operator delete(block.at, std::nothrow);
    case 6:
      return ::operator delete[](block.at, std::nothrow);
    case 7:
      return ::operator delete(block.at, kAlign);
    case 8:
      return ::operator delete[](block.at, kAlign, std::nothrow);
    default:
      return std::free(block.at);
  }
}

void use(Uses& own, const Block& block) {
  t_use(block.at, 1);
  ++own[static_cast<size_t>(block.site)];
}

void go(unsigned long times, uint64_t seed) {
  Random random{seed};
  Uses own = {};
  for (unsigned long i = 0; i < times; ++i) {
    Block block = allocate(random);
    use(own, block);
    use(own, {static_cast<char*>(block.at) + 4, kUnknown});
    {
      std::lock_guard lock(mutex);
      std::swap(block, shared[random.next(kShared)]);
    }
    if (block.at == nullptr) continue;
    use(own, block);
    release(block);
    if (i % 16 == 0) use(own, {i % 32 == 0 ? early : &own, kUnknown});
  }
  std::lock_guard lock(mutex);
  for (size_t i = 0; i < own.size(); ++i) uses[i] += own[i];
}

void go_in_threads(unsigned long times) {
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= 4; ++i) threads.emplace_back(go, times, i);
  for (std::thread& thread : threads) thread.join();
  for (Block& block : shared) release(std::exchange(block, {}));
}

void hold(unsigned long times) {
  std::vector<void*> blocks(times);
  for (void*& block : blocks) block = by_malloc(40);
  for (void* block : blocks) use(uses, {block, 0});
  for (void* block : blocks) std::free(block);
}

void answer(const char* name) {
  std::string all;
  for (size_t i = 0; i < kSites.size(); ++i)
    all +=
        std::string(all.empty() ? "" : ",") + protocol::field(kSites[i], static_cast<unsigned long>(uses[i]));
  protocol::say_event(
      name, protocol::field("pid", static_cast<unsigned long>(getpid())) + ",\"uses\":{" + all + "}");
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 60);
  answer("ready");
  while (true) {
    const protocol::Command command = protocol::next_command();
    if (command.word == "go") {
      go_in_threads(command.number);
    } else if (command.word == "hold") {
      hold(command.number);
    } else if (command.word == "fork") {
      if (const pid_t child = fork(); child == 0) {
        uses = {};
        go_in_threads(command.number);
        answer("child");
        return 0;
      } else {
        waitpid(child, nullptr, 0);
      }
    } else {
      return command.word == "quit" ? 0 : 1;
    }
    answer("done");
  }
}
