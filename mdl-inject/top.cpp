#include "mdl-inject/top.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/phases.h"
#include "base/say.h"
#include "mdl-inject/clean.h"
#include "runtime/image/image.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/patch/insert.h"
#include "runtime/process/profile.h"
#include "runtime/process/target.h"
#include "runtime/session/busiest.h"
#include "runtime/session/users.h"

namespace mdl::inject {
namespace {

constexpr size_t kFunctions = 10;  // where --top says no other number
constexpr uint64_t kFewSamples = 50;
constexpr size_t kNamed = 5;  // functions that are named as left out; -v names all

double percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// An mdl-inject that measures there is found now, and not behind the sampling.
Result<void> refuse_measured(pid_t pid, const process::TargetMemory& memory) {
  auto maps = image::read_maps(kernel::live_thread(pid));
  if (!maps) return maps.error();
  return patch::refuse_occupied(pid, *maps, memory);
}

Error nothing_ran(const Options& options, const process::Profile& profile) {
  if (profile.missed > 0)
    return {fmt::format("no thread of process {} could be sampled: {}", options.pid, profile.why_missed)};
  if (profile.running > 0)
    return {fmt::format(
        "the threads of process {} ran for moments only, and slept again before they could be sampled: "
        "sample it for longer, with --sample 5s",
        options.pid)};
  return {
      fmt::format("nothing of process {} ran while it was sampled ({} looks at its threads in {:g} s), so it "
                  "has no busiest functions: sample it while it works, or for longer: --sample 5s",
                  options.pid, profile.looked_at, options.sample)};
}

void say_left_out(const Options& options, const Busiest& busiest, uint64_t taken) {
  size_t named = 0;
  for (const BusyFunction& one : busiest.refused) {
    if (!options.verbose && named == kNamed) break;
    named++;
    say(stderr, "left out: {:.1f} % in {}, which cannot be measured: {}\n", percent(one.samples, taken),
        one.focus, one.refused);
  }
  if (named < busiest.refused.size())
    say(stderr, "left out: {} more functions that cannot be measured (-v names them)\n",
        busiest.refused.size() - named);
  if (busiest.others > 0)
    say(stderr, "left out: {:.1f} % in {} functions that are less busy (--top N measures more)\n",
        percent(busiest.in_others, taken), busiest.others);
  if (busiest.in_no_function > 0)
    say(stderr, "left out: {:.1f} % in code that belongs to no function\n",
        percent(busiest.in_no_function, taken));
}

void say_found(const Options& options, const process::Profile& profile, const Busiest& busiest) {
  uint64_t in_chosen = 0;
  for (const BusyFunction& one : busiest.chosen) in_chosen += one.samples;
  say(stderr,
      "sampled process {} for {:g} s: {} samples, {:.0f} % of them in system calls (counted for the "
      "functions "
      "that make them); its threads ran in {:.0f} % of {} looks at them\n",
      options.pid, options.sample, profile.taken, percent(profile.in_calls, profile.taken),
      percent(profile.running, profile.looked_at), profile.looked_at);
  if (profile.taken < kFewSamples)
    say(stderr, "these are few samples, so another run may find other functions: --sample {:g}s takes more\n",
        5 * options.sample);
  if (options.verbose && profile.slept + profile.missed > 0)
    say(stderr, "not sampled: {} times a thread had begun to wait, and {} that did not stop in time\n",
        profile.slept, profile.missed);
  if (in_chosen > 0)
    say(stderr, "measured: the {} busiest functions, which have {:.1f} % of the samples\n",
        busiest.chosen.size(), percent(in_chosen, profile.taken));
  if (options.verbose)
    for (const BusyFunction& one : busiest.chosen)
      say(stderr, "  {:5.1f} %  {}\n", percent(one.samples, profile.taken), one.focus);
  say_left_out(options, busiest, profile.taken);
}

}  // namespace

// The pattern is never looked for: other foci stand in its place.
void ask_for_busiest(Options& options) {
  options.typed = {"calls /Code/busiest/* as calls", "self /Code/busiest/* as self_time",
                   "latency /Code/busiest/* as call_latency"};
}

Result<void> choose_busiest(Options& options, plan::Plan& plan, Audit& audit) {
  phases::begin("sampling");
  if (auto ok = process::check_target(options.pid); !ok) return ok.error();
  auto memory = process::TargetMemory::open(options.pid);
  if (!memory) return memory.error();
  if (auto ok = check_users(options.pid, options); !ok) return ok;
  // Before the sampling: windows of another session would be taken for the functions' own code.
  if (!options.dry_run)
    if (auto ok = clean(options, options.pid, *memory, audit); !ok) return ok;
  if (auto ok = refuse_measured(options.pid, *memory); !ok) return ok;
  const auto duration =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(options.sample));
  auto profile = process::take_profile(options.pid, *memory, duration);
  if (!profile) return profile.error();
  if (profile->ended) return Error{fmt::format("process {} has ended while it was sampled", options.pid)};
  if (profile->taken == 0) return nothing_ran(options, *profile);
  phases::begin("busiest");
  auto image = image::read_image(options.pid);
  if (!memory->is_of(options.pid)) return process::another_program(options.pid);
  if (!image) return image.error();
  const std::vector<std::string> metrics = std::exchange(options.queries, {});
  for (format::Metric& metric : plan.manifest.metrics) metric.focus.clear();
  auto busiest = find_busiest(*profile, *image, plan, metrics, *memory,
                              options.look.top == 0 ? kFunctions : options.look.top);
  if (!busiest) return busiest.error();
  say_found(options, *profile, *busiest);
  if (busiest->chosen.empty())
    return Error{fmt::format("none of the functions in which process {} ran can be measured", options.pid)};
  for (const std::string& metric : metrics)
    for (const BusyFunction& one : busiest->chosen)
      options.metrics.push_back(focus::request_text(metric, one.focus));
  return {};
}

}  // namespace mdl::inject
