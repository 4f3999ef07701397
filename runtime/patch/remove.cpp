#include "runtime/patch/remove.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/patch/stack_scan.h"
#include "runtime/patch/stage.h"
#include "runtime/process/remote.h"

namespace mdl::patch {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

bool holds(const process::TargetMemory& memory, uint64_t address, const std::vector<uint8_t>& bytes) {
  std::vector<std::byte> now(bytes.size());
  return memory.read(address, now) &&
         std::equal(now.begin(), now.end(), std::as_bytes(std::span(bytes)).begin());
}

}  // namespace

bool Removal::anyone_inside() {
  auto mappings = image::read_maps(pid_);
  if (!mappings) return true;
  std::vector<image::Range> code;
  for (const image::Mapping& mapping : *mappings)
    if (is_session_mapping(mapping) && mapping.execute) code.push_back({mapping.start, mapping.end});
  auto inside = [&](uint64_t address) {
    return std::any_of(code.begin(), code.end(),
                       [&](const image::Range& range) { return range.contains(address); });
  };
  for (pid_t tid : threads_.stopped()) {
    auto regs = threads_.registers(tid);
    if (!regs || inside(arch::pc(*regs))) return true;
    for (uint64_t word : stack_words(*regs, *mappings, memory_))
      if (inside(word)) return true;
  }
  return false;
}

Result<void> Removal::restore(const Journal* journal, std::chrono::milliseconds deadline) {
  Clock::time_point until = Clock::now() + deadline;
  for (int round = 0;; round++) {
    if (auto ok = threads_.stop_all(2000ms); !ok) return ok;
    if (round == 0 && journal)
      for (const PatchedWindow& window : journal->windows) {
        if (holds(memory_, window.address, window.patched)) {
          if (!memory_.write(window.address, std::as_bytes(std::span(window.original))))
            return Error{fmt::format("cannot restore the code at {:#x}", window.address), Status::left_inert};
          restored_++;
        } else if (!holds(memory_, window.address, window.original)) {
          foreign_++;
        }
      }
    inside_ = anyone_inside();
    if (!inside_ || Clock::now() > until) return {};
    threads_.release_all();
    timespec nap{0, std::min(round + 1, 20) * 500'000};
    nanosleep(&nap, nullptr);
  }
}

Result<void> Removal::finish() {
  auto image = image::read_image(pid_);
  if (!image) {
    threads_.release_all();
    return image.error();
  }
  process::restore_slack(memory_, *image);
  Session session = find_session(image->mappings, memory_);
  if (inside_) {
    threads_.release_all();
    return Error{
        fmt::format(
            "a thread of process {0} is still inside the instrumentation (asleep in a signal handler?): its "
            "text is "
            "restored and the code left behind is inert; take it out later with mdl-inject --remove {0}",
            pid_),
        Status::left_inert};
  }
  Result<void> done;
  if (!session.mappings.empty()) done = unmap(pid_, threads_, memory_, *image, session.mappings);
  threads_.release_all();
  return done;
}

}  // namespace mdl::patch
