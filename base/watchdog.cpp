#include "base/watchdog.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/aside.h"
#include "base/nap.h"
#include "base/result.h"

namespace mdl {
namespace {

constexpr size_t kMostThreads = 64;  // calls of more threads at a time are not watched
constexpr long kLookUs = 500'000;
// Looks that see one call, not a time: while we are stopped ourselves, nobody looks.
constexpr int kPatience = 60, kPatienceWhileStanding = 10;

struct Slot {
  std::atomic<bool> taken = false;
  std::atomic<uint64_t> calls = 0;  // begun and ended: odd during one
  std::atomic<uint64_t> begun = 0;  // calls for memory
  std::atomic<bool> is_for_file = false;
};
std::array<Slot, kMostThreads> slots;
std::atomic<int> standing = 0;
std::atomic<bool> changed = false;
std::atomic<std::chrono::milliseconds> most_work{std::chrono::minutes(2)};

struct OwnSlot {
  Slot* slot = nullptr;
  OwnSlot() {
    for (Slot& one : slots)
      if (!one.taken.exchange(true)) {
        slot = &one;
        return;
      }
  }
  ~OwnSlot() {
    if (slot) slot->taken = false;
  }
};
thread_local OwnSlot own;

[[noreturn]] void end(bool is_for_file) {
  constexpr std::string_view kMemory =
      "mdl-inject: the memory of the process does not let itself be read: a page of it waits for somebody to "
      "fill it, or a program that it executes (FUSE, userfaultfd, a network file system)";
  constexpr std::string_view kFile =
      "mdl-inject: a file of the process does not let itself be read: what serves its file system does not "
      "answer (FUSE, a network file system)";
  constexpr std::string_view kEnd =
      ". mdl-inject ends itself here; what it has put into the process stays inert: see mdl-inject "
      "--status\n";
  const std::string_view text = is_for_file ? kFile : kMemory;
  [[maybe_unused]] ssize_t put = write(STDERR_FILENO, text.data(), text.size());
  put = write(STDERR_FILENO, kEnd.data(), kEnd.size());
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

[[noreturn]] void end_work() {
  constexpr std::string_view kText =
      "mdl-inject: it has computed for minutes and comes to no end: the files of the process, or the "
      "request, "
      "are more work than they may be. mdl-inject ends itself here";
  constexpr std::string_view kChanged =
      "; what it has put into the process stays inert: see mdl-inject --status";
  [[maybe_unused]] ssize_t put = write(STDERR_FILENO, kText.data(), kText.size());
  if (changed) put = write(STDERR_FILENO, kChanged.data(), kChanged.size());
  put = write(STDERR_FILENO, "\n", 1);
  _exit(static_cast<int>(changed ? Status::left_inert : Status::failed));
}

std::chrono::nanoseconds own_work() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

void watch() {
  std::array<uint64_t, kMostThreads> seen{};
  std::array<int, kMostThreads> looks{};
  uint64_t last_calls = 0;
  std::chrono::nanoseconds last_work = own_work();
  for (;; nap(kLookUs)) {
    uint64_t all_calls = 0;
    for (const Slot& slot : slots) all_calls += slot.begun;
    if (std::exchange(last_calls, all_calls) != all_calls) last_work = own_work();
    if (own_work() - last_work > most_work.load()) end_work();
    for (size_t i = 0; i < slots.size(); i++) {
      const uint64_t calls = slots[i].calls;
      looks[i] = calls % 2 == 1 && calls == seen[i] ? looks[i] + 1 : 0;
      seen[i] = calls;
      if (looks[i] > (standing > 0 ? kPatienceWhileStanding : kPatience)) end(slots[i].is_for_file);
    }
  }
}

std::once_flag started;

}  // namespace

Watched::Watched(Of what) : is_outer_(own.slot && own.slot->calls % 2 == 0) {
  std::call_once(started, run_aside, watch);
  if (!is_outer_) return;
  own.slot->is_for_file = what == Of::file;
  if (what == Of::memory) own.slot->begun++;
  own.slot->calls++;
}

Watched::~Watched() {
  if (is_outer_) own.slot->calls++;
}

void target_stands(bool stands) {
  standing += stands ? 1 : -1;
}

void target_changes() {
  changed = true;
}

bool has_changed_target() {
  return changed;
}

void limit_work(std::chrono::milliseconds most) {
  most_work = most;
  run_aside(watch);  // after a fork nobody does
}

}  // namespace mdl
