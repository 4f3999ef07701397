#include "runtime/inject/commands.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>

#include "runtime/image/image.h"
#include "runtime/inject/report.h"
#include "runtime/inject/session_values.h"
#include "runtime/patch/journal.h"
#include "runtime/patch/remove.h"
#include "runtime/plan/plan.h"
#include "runtime/process/target.h"

namespace mdl::inject {
namespace {

bool is_alive(const patch::Journal& journal) {
  return process::is_running(journal.owner, journal.owner_start);
}

void print_journal(pid_t pid, const patch::Journal& journal, const image::Memory& memory) {
  auto started =
      std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(journal.started_ns)));
  fmt::print("instrumented by mdl-inject {} ({}) since {:%Y-%m-%d %H:%M:%S} UTC\n", journal.owner,
             is_alive(journal) ? "running" : "ended", fmt::gmtime(started));
  fmt::print("plan {}, {} points, {} requests\n", journal.plan, journal.points, journal.requests.size());
  values::TargetClocks clocks(pid);
  auto snapshot = values::read_values(block_layout(journal), memory, clocks);
  if (!snapshot) fmt::print("values cannot be read: {}\n", snapshot.error().text);
  for (size_t i = 0; i < journal.requests.size(); i++) {
    const patch::JournalRequest& request = journal.requests[i];
    if (snapshot && request.thread == focus::kEachThread) {
      for (const auto& [thread, value] : snapshot->each[i])
        fmt::print("  {}@{} = {} {}\n", request.metric, focus::of_thread(request.focus, thread), value,
                   request.units);
      continue;
    }
    fmt::print("  {}{}{}", request.metric, request.focus.empty() ? "" : "@", request.focus);
    if (request.children) fmt::print(": {} children, in all", request.children);
    if (request.keyed) fmt::print(": by key, in all");
    if (snapshot) fmt::print(" = {} {}", snapshot->cells[i], request.units);
    uint64_t refused = journal.refused_of(i);
    fmt::print("{}\n", refused ? fmt::format(" ({} refused)", refused) : "");
  }
}

}  // namespace

int fail(const Error& error) {
  // Not fmt::print, which throws: standard error may be what is closed.
  std::fputs(fmt::format("mdl-inject: {}\n", error.text).c_str(), stderr);
  return static_cast<int>(error.status);
}

int list(const Options& options) {
  if (auto ok = process::check_target(options.pid); !ok) return fail(ok.error());
  auto image = image::read_image(options.pid);
  if (!image) return fail(image.error());
  int printed = print_functions(stdout, *image, options.glob);
  if (printed != 0)
    fmt::print(stderr, "mdl-inject: no function of process {} matches '{}'\n", options.pid, options.glob);
  return printed;
}

int verify(const Options& options) {
  auto plan = plan::read_plan_file(options.plan);
  if (!plan) return fail(plan.error());
  fmt::print("{}: a valid plan for {}: {} metrics, {} constraints, {} stencils\n", options.plan,
             plan->manifest.target, plan->manifest.metrics.size(), plan->manifest.constraints.size(),
             plan->stencils.size());
  for (const format::Metric& metric : plan->manifest.metrics)
    fmt::print("  {} ({}, {})\n", metric.id, metric.name, metric.units);
  return 0;
}

int status(const Options& options) {
  if (auto ok = process::check_target(options.pid); !ok) return fail(ok.error());
  auto maps = image::read_maps(options.pid);
  if (!maps) return fail(maps.error());
  image::LiveMemory memory(image::live_thread(options.pid));
  patch::Session session = patch::find_session(*maps, memory);
  if (session.mappings.empty()) {
    fmt::print("process {} is not instrumented\n", options.pid);
    return 0;
  }
  if (!session.journal)
    fmt::print(
        "process {0} holds {1} mappings of an mdl-inject that was killed before it changed any code: take "
        "them out with "
        "mdl-inject --remove {0}\n",
        options.pid, session.mappings.size());
  else
    print_journal(options.pid, *session.journal, memory);
  return 0;
}

int remove(const Options& options) {
  if (auto ok = process::check_target(options.pid); !ok) return fail(ok.error());
  auto memory = process::TargetMemory::open(options.pid);
  if (!memory) return fail(memory.error());
  auto maps = image::read_maps(options.pid);
  if (!maps) return fail(maps.error());
  patch::Session session = patch::find_session(*maps, *memory);
  patch::Removal removal(options.pid, *memory);
  if (auto ok = removal.restore(session.journal ? &*session.journal : nullptr, std::chrono::seconds(5)); !ok)
    return fail(ok.error());
  if (auto ok = removal.finish(); !ok) return fail(ok.error());
  if (session.mappings.empty())
    fmt::print("process {} is not instrumented\n", options.pid);
  else
    fmt::print("removed: {} windows restored, {} mappings unmapped\n", removal.restored(),
               session.mappings.size());
  if (removal.foreign())
    fmt::print(stderr, "mdl-inject: {} windows held neither our code nor the original and were left alone\n",
               removal.foreign());
  return 0;
}

}  // namespace mdl::inject
