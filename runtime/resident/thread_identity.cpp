#include "runtime/resident/thread_identity.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nap.h"
#include "runtime/arch/description.h"
#include "runtime/arch/thread_registers.h"
#include "runtime/process/target.h"
#include "runtime/process/threads.h"

namespace mdl::resident {
namespace {

using namespace std::chrono_literals;

bool uses_thread(const plan::Stencil& stencil) {
  return std::any_of(stencil.holes.begin(), stencil.holes.end(),
                     [](const plan::Hole& hole) { return hole.kind == plan::HoleKind::thread; });
}

uint32_t place_in(uint64_t thread_pointer, pid_t id, const process::TargetMemory& memory) {
  for (uint32_t place : arch::kMachine.thread_id_places) {
    int32_t word = 0;
    if (memory.read(thread_pointer + place, std::as_writable_bytes(std::span(&word, 1))) && word == id)
      return place;
  }
  return 0;
}

}  // namespace

bool needs_identity(const plan::Plan& plan, const focus::Binding& binding) {
  if (std::any_of(binding.cells.begin(), binding.cells.end(),
                  [](const focus::CellSlot& cell) { return cell.kind != format::CellKind::counter; }))
    return true;
  for (const focus::BoundRequest& request : binding.requests)
    if (request.thread != focus::kAllThreads) return true;
  for (const focus::BoundPoint& point : binding.points)
    for (const focus::BoundSnippet& snippet : point.snippets)
      if (uses_thread(plan.stencils[snippet.stencil])) return true;
  return false;
}

Result<uint32_t> find_thread_place(pid_t pid, const process::TargetMemory& memory) {
  process::Threads threads(pid, memory);
  constexpr int kAsked = 20;
  int asked = 0;
  const auto until = std::chrono::steady_clock::now() + 10s;
  for (int attempt = 0; attempt < 100 && std::chrono::steady_clock::now() < until; attempt++) {
    for (pid_t tid : process::live_threads(pid)) {
      if (process::awaits_vfork(tid)) continue;
      if (std::chrono::steady_clock::now() > until) break;
      bool stopped = threads.stop_one(tid, 200ms).operator bool();
      auto registers = stopped ? threads.registers(tid) : Result<arch::ThreadRegisters>(Error{});
      // Read while it is stopped: one that is let go may end, and its memory with it.
      uint32_t place = 0;
      if (registers)
        place = place_in(arch::thread_pointer(*registers), process::read_status(tid).inner_pid, memory);
      threads.release(tid);
      if (!registers && threads.executed()) return threads.left_alone();
      if (registers) asked++;
      // musl takes it away from a thread that is ending: then another one is asked.
      if (place != 0 || asked == kAsked) return place;
    }
    if (asked != 0 && attempt >= kAsked) return 0;
    nap(2000);
  }
  return Error{fmt::format("no thread of process {} can be stopped: try again later", pid)};
}

}  // namespace mdl::resident
