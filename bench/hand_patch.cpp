#include "bench/hand_patch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
uint64_t subject_by_hand(uint64_t);
extern const char hand_patch[], hand_patch_back[], hand_patch_end[];
}

namespace bench {
namespace {

constexpr size_t kPage = 4096;  // the distance of code and slots in subject.S
constexpr size_t kSlots = 256;
constexpr int kJump = 5;  // bytes of a jmp rel32, and of the subject's first instruction

struct alignas(64) Slot {
  std::atomic<uint64_t> thread;
  std::atomic<uint64_t> count;
};

char* code;
Slot* slots;

[[noreturn]] void fail(const char* what) {
  perror(what);
  exit(1);
}

uint64_t thread_pointer() {
  uint64_t value;
  asm("movq %%fs:0, %0" : "=r"(value));
  return value;
}

void set_displacement(void* field, uint64_t from, uint64_t to) {
  int32_t displacement = static_cast<int32_t>(to - from);
  memcpy(field, &displacement, sizeof displacement);
}

// The first free place within reach of a 32-bit displacement, looked for upwards.
char* map_near(uint64_t address, size_t size) {
  for (uint64_t at = (address & ~(kPage - 1)) + (16u << 20); at < address + (1u << 30); at += 1u << 20) {
    void* got = mmap(reinterpret_cast<void*>(at), size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != MAP_FAILED) return static_cast<char*>(got);
  }
  fail("bench: no free memory near the program");
}

}  // namespace

void install_hand_patch() {
  uint64_t subject = reinterpret_cast<uint64_t>(&subject_by_hand);
  code = map_near(subject, kPage + kSlots * sizeof(Slot));
  slots = reinterpret_cast<Slot*>(code + kPage);
  memcpy(code, hand_patch, static_cast<size_t>(hand_patch_end - hand_patch));
  char* back = code + (hand_patch_back - hand_patch);
  set_displacement(back, reinterpret_cast<uint64_t>(back) + 4, subject + kJump);
  if (mprotect(code, kPage, PROT_READ | PROT_EXEC) != 0) fail("bench: mprotect");

  unsigned char jump[kJump] = {0xe9};  // jmp rel32
  set_displacement(jump + 1, subject + kJump, reinterpret_cast<uint64_t>(code));
  int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (memory < 0 || pwrite(memory, jump, kJump, static_cast<off_t>(subject)) != kJump)
    fail("bench: /proc/self/mem");
  close(memory);
}

void claim_hand_slot() {
  uint64_t mine = thread_pointer();
  Slot& slot = slots[(mine >> 12) % kSlots];
  uint64_t owner = 0;
  if (slot.thread.compare_exchange_strong(owner, mine) || owner == mine) return;
  fprintf(stderr, "bench: two threads hash to one slot; run it again\n");
  exit(1);
}

uint64_t hand_count() {
  uint64_t sum = 0;
  for (size_t i = 0; i < kSlots; ++i) sum += slots[i].count;
  return sum;
}

}  // namespace bench
