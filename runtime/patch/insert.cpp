#include "runtime/patch/insert.h"

#include <fmt/format.h>

#include "runtime/patch/left_behind.h"
#include "runtime/patch/reach.h"
#include "runtime/patch/remove.h"
#include "runtime/patch/transaction.h"
#include "runtime/process/lock.h"
#include "runtime/process/target.h"
#include "runtime/resident/footprint.h"

namespace mdl::patch {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr size_t kMostRequests = 3;  // that a message names

// The insertion failed: what was staged is taken out as a session is. Threads may have been moved
// into trampolines already, and windows written.
Error take_back(pid_t pid, const process::TargetMemory& memory, const resident::Journal& journal,
                bool entered, Error why) {
  Removal removal(pid, memory);
  if (!entered) removal.expect_nobody();
  Result<void> out = removal.restore(&journal, 10s);
  if (out) out = removal.finish();
  if (!out && !removal.is_executed()) why = {why.text + "; " + out.error().text, Status::left_inert};
  return why;
}

}  // namespace

Result<void> refuse_occupied(pid_t pid, const std::vector<image::Mapping>& mappings,
                             const image::Memory& memory) {
  resident::Footprint session = resident::find_footprint(mappings, memory);
  if (session.mappings.empty()) return {};
  if (session.journal && has_owner(*session.journal))
    return Error{
        fmt::format("process {0} is being instrumented by {1}, since {2}, which measures {3}: end that one "
                    "first, or see mdl-inject --status {0}",
                    pid, owner_text(*session.journal), resident::began_text(*session.journal),
                    resident::requests_text(*session.journal, kMostRequests))};
  return Error{fmt::format(
      "process {0} holds the instrumentation of an mdl-inject that has ended: look at it with mdl-inject "
      "--status {0}, take it out with mdl-inject --remove {0}",
      pid)};
}

std::set<uint64_t> ends_deferred(const Coverage& coverage) {
  std::set<uint64_t> out;
  for (const FunctionPlan& f : coverage.functions)
    if (f.ends_deferred && !f.sites.windows.empty()) out.insert(f.function->address);
  return out;
}

Result<Inserted> insert(const InsertInput& input, const process::TargetMemory& memory) {
  const Clock::time_point begun = Clock::now();
  const pid_t pid = input.image.pid;
  auto lock = process::TransactionLock::take(pid, 10s);
  if (!lock) return lock.error();
  Inserted out;
  if (!lock->passed_over().empty())
    out.warnings.push_back(
        fmt::format("{} holds a lock of process {} and is no mdl-inject that could be at work there: it was "
                    "passed over, and only injectors of your own user wait for this one",
                    lock->passed_over(), pid));
  auto stage = put_in(input, memory,
                      {.check =
                           [&](const std::vector<image::Mapping>& mappings) {
                             return refuse_occupied(pid, mappings, memory);
                           }},
                      out, [&](Stage& failed, const Error& why) {
                        { auto ended = std::move(*lock); }  // the removal takes it again
                        if (!failed.code_written)
                          failed.journal.windows.clear();  // nothing is to be put back
                        return take_back(pid, memory, failed.journal, failed.entered, why);
                      });
  if (!stage) return stage.error();
  out.journal = std::move(stage->journal);
  note_losses(input.plan, input.binding, input.coverage, out.journal);
  out.journal.ends_deferred = ends_deferred(input.coverage);
  out.took = Clock::now() - begun;
  return out;
}

}  // namespace mdl::patch
