#include "runtime/process/profile.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/nap.h"
#include "runtime/arch/thread_registers.h"
#include "runtime/process/target.h"
#include "runtime/process/threads.h"

namespace mdl::process {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr size_t kMostLooks = 64;  // threads whose states one look reads, and of these
constexpr size_t kMostStops = 8;   // those that it stops
// One that waits for a processor stops when it gets one; it does not stand before.
constexpr std::chrono::milliseconds kToStop = 100ms;
constexpr int kLeastNap = 3000, kMostNap = 7000;  // microseconds between two looks

// One thread stands while its registers are read.
Result<void> sample(Threads& threads, pid_t tid, Profile& out) {
  const auto stopped = threads.stop_one(tid, kToStop);
  if (stopped) {
    const auto registers = threads.registers(tid);
    if (registers && arch::interrupted_wait(*registers)) {
      out.slept++;
    } else if (registers) {
      out.samples[arch::pc(*registers)]++;
      out.taken++;
      if (arch::system_call(*registers) >= 0) out.in_calls++;
    }
  } else {
    if (out.missed++ == 0) out.why_missed = stopped.error().text;
  }
  threads.release_all();  // and with it, Ctrl-C is heard
  if (threads.executed()) return threads.left_alone();
  return {};
}

}  // namespace

Result<Profile> take_profile(pid_t pid, const TargetMemory& memory, std::chrono::milliseconds duration) {
  Profile out;
  Threads threads(pid, memory);
  std::minstd_rand chance(static_cast<unsigned>(Clock::now().time_since_epoch().count()));
  std::uniform_int_distribution<int> pause(kLeastNap, kMostNap);
  const Clock::time_point end = Clock::now() + duration;
  while (Clock::now() < end) {
    std::vector<pid_t> all = live_threads(pid);
    out.ended = all.empty() || has_ended(pid);
    if (out.ended) return out;
    if (!memory.is_of(pid) && !ends_now(pid)) return another_program(pid);
    std::shuffle(all.begin(), all.end(), chance);
    all.resize(std::min(all.size(), kMostLooks));
    size_t stops = 0;
    for (const pid_t tid : all) {
      out.looked_at++;
      if (read_status(tid).state != 'R') continue;
      out.running++;
      if (++stops > kMostStops) continue;
      if (auto ok = sample(threads, tid, out); !ok) return ok.error();
    }
    nap(pause(chance));
  }
  return out;
}

}  // namespace mdl::process
