#include "runtime/patch/extend.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/image/unwind.h"
#include "runtime/patch/inside.h"
#include "runtime/patch/map_stage.h"
#include "runtime/patch/moved_code.h"
#include "runtime/patch/transaction.h"
#include "runtime/process/lock.h"
#include "runtime/resident/footprint.h"

namespace mdl::patch {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

void refuse_armed(Coverage& coverage) {
  for (FunctionPlan& f : coverage.functions) {
    const bool arms = std::any_of(f.sites.windows.begin(), f.sites.windows.end(), [](const Window& window) {
      return std::any_of(window.sites.begin(), window.sites.end(),
                         [](const Site& site) { return site.arming != arch::Arming::none; });
    });
    if (arms) give_up(coverage, f, "its calls must be armed, for which no room was made at the attach");
  }
}

}  // namespace

bool give_back(const std::vector<image::Range>& regions, const image::Image& image,
               const process::TargetMemory& memory) {
  process::Threads threads(image.pid, memory);
  if (auto stopped = threads.stop_all(500ms, process::kMaxPause); !stopped) return false;
  process::PausedMemory now(memory, threads.stopped_since(), process::kMaxPause);
  const bool out =
      threads_inside(threads, threads.stopped(), regions, image.pid, now, image::Unwinder(image)).empty() &&
      unmap(image.pid, threads, memory, image, regions);
  threads.release_all();
  return out;
}

Result<Extension> extend(const InsertInput& input, const process::TargetMemory& memory, uint32_t number,
                         resident::Journal& session) {
  const Clock::time_point begun = Clock::now();
  auto lock = process::TransactionLock::take(input.image.pid, 2s);
  if (!lock) return lock.error();
  // New code would write to data that are not there any more.
  if (!resident::is_in_place(session, memory))
    return Error{
        fmt::format("another mdl-inject has removed the instrumentation of process {}", input.image.pid)};
  if (!session.armed.end) refuse_armed(input.coverage);
  Extension out;
  auto stage = put_in(input, memory, {.session = &session, .number = number}, out.inserted,
                      [&](Stage& failed, const Error& why) {
                        // Threads may have been moved inside. Code that stays is inert, and taken out with
                        // the session.
                        (void)give_back(failed.journal.code, input.image, memory);
                        return why;
                      });
  if (!stage) return stage.error();
  out.regions = stage->journal.code;
  out.files = stage->journal.files;
  resident::absorb(session, stage->journal);
  session.ends_deferred.merge(ends_deferred(input.coverage));
  out.inserted.took = Clock::now() - begun;
  return out;
}

bool is_unloaded(const Extension& extension, const resident::Journal& session,
                 const std::vector<image::Mapping>& mappings, const image::Memory& memory) {
  const resident::FilePlaces places(extension.files, mappings);
  std::vector<const resident::PatchedWindow*> windows;
  for (const resident::PatchedWindow& window : session.windows)
    if (std::ranges::any_of(extension.files,
                            [&](const auto& file) { return file.at.contains(window.address); }))
      windows.push_back(&window);
  if (std::ranges::any_of(extension.files,
                          [&](const auto& file) { return places.is_still_there(file.at.start); }) ||
      std::ranges::any_of(windows, [&](const auto* window) { return places.is_copied(*window, memory); }))
    return false;
  const auto moved = find_moved(windows, extension.files, mappings, memory);
  return moved && moved->empty();
}

bool forget(const Extension& extension, const resident::Journal& session, const image::Image& image,
            const process::TargetMemory& memory) {
  auto lock = process::TransactionLock::take(image.pid, 0ms);
  return lock && resident::is_in_place(session, memory) && give_back(extension.regions, image, memory);
}

}  // namespace mdl::patch
