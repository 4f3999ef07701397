#include "runtime/patch/inside.h"

#include <algorithm>

#include "base/nap.h"
#include "runtime/patch/stack_scan.h"
#include "runtime/process/target.h"

namespace mdl::patch {

using Clock = std::chrono::steady_clock;

std::vector<pid_t> threads_inside(const process::Threads& threads, std::vector<pid_t> which,
                                  const std::vector<image::Range>& code, pid_t pid,
                                  process::PausedMemory& now, const image::Unwinder& unwinder) {
  const auto inside = [&](uint64_t address) {
    return std::ranges::any_of(code, [&](const image::Range& range) { return range.contains(address); });
  };
  auto mappings = image::read_maps(pid);
  if (!mappings) return which;
  std::erase_if(which, [&](pid_t tid) {
    now.begin(tid);
    auto registers = threads.registers(tid);
    if (!registers || inside(arch::pc(*registers))) return false;
    const ReturnPlaces places = return_places(*registers, *mappings, now, unwinder);
    return places.unread == 0 && std::ranges::none_of(places.known, inside) && !now.is_over();
  });
  return which;
}

Result<bool> drain(process::Threads& threads, const std::vector<image::Range>& code, pid_t pid,
                   process::PausedMemory& now, const image::Unwinder& unwinder,
                   std::chrono::milliseconds patience) {
  constexpr long kMoment = 20;  // microseconds
  const Clock::time_point until = Clock::now() + patience;
  for (;;) {
    std::vector<pid_t> inside = threads_inside(threads, threads.stopped(), code, pid, now, unwinder);
    if (inside.empty()) return true;
    while (!inside.empty()) {
      if (Clock::now() > until || now.is_over()) return false;
      for (pid_t tid : inside) threads.release(tid);
      nap(kMoment);
      for (pid_t tid : inside)
        if (auto ok = threads.stop_one(tid, now.left()); !ok && now.is_over())
          return false;
        else if (!ok && process::is_alive_thread(tid))
          return ok.error();
      const std::vector<pid_t> stopped = threads.stopped();
      std::erase_if(inside, [&](pid_t tid) { return std::ranges::find(stopped, tid) == stopped.end(); });
      inside = threads_inside(threads, std::move(inside), code, pid, now, unwinder);
    }
    // Those that ran may have started threads.
    if (auto ok = threads.stop_all(now.left(), now.left()); !ok) {
      if (threads.is_late() || now.is_over()) return false;
      return ok.error();
    }
  }
}

}  // namespace mdl::patch
