#include "runtime/session/next_requests.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/patch/change.h"
#include "runtime/resident/thread_identity.h"
#include "runtime/session/budget.h"
#include "runtime/session/check.h"
#include "runtime/session/errno_place.h"
#include "runtime/session/thread_starts.h"

namespace mdl::inject {
namespace {

// The names by which requests are printed: a focus may be typed in another way.
Result<std::vector<std::string>> names_of(const std::vector<std::string>& texts, const Measured& next,
                                          image::Codes& codes) {
  std::vector<std::string> out;
  if (texts.empty()) return out;
  focus::BindOptions wanted = next.wanted;
  wanted.metrics = texts;
  auto alone = focus::bind(next.plan(), next.image, wanted, &codes);
  if (!alone) return alone.error();
  return names_in(*alone);
}

// By name, those that there are to be.
Result<std::vector<std::string>> names_after(const Move& move, const Measured& now, const Measured& next,
                                             image::Codes& codes) {
  std::vector<std::string> out = names_in(now.binding);
  // What is about something that is gone by now is found by its name only.
  for (const GuestRequests& guest : now.guests)
    if (guest.feed == move.goes)
      std::erase_if(out, [&](const std::string& text) {
        return plan::has_metric(guest.part, focus::split_request(text).metric);
      });
  for (const std::string& text : move.change.remove) {
    if (std::erase(out, text) != 0) continue;
    auto names = names_of({text}, next, codes);
    if (!names) return names.error();
    for (const std::string& name : *names)
      if (std::erase(out, name) == 0) return Error{fmt::format("{} is not measured", name)};
  }
  if (const GuestRequests* guest = move.comes) {
    focus::BindOptions wanted = next.wanted;
    wanted.metrics = guest->metrics, wanted.foci = guest->foci;
    wanted.queries = guest->queries, wanted.spare = guest->spare;
    wanted.flavor = guest->part.flavor;
    wanted.allow_calls = guest->part.allow_calls, wanted.allow_reads = guest->part.allow_reads;
    auto bound = focus::bind(*guest->part.plan, next.image, wanted, &codes);
    if (!bound) return bound.error();
    for (std::string& name : names_in(*bound)) out.push_back(std::move(name));
  }
  auto added = names_of(move.change.add, next, codes);
  if (!added) return added.error();
  for (const std::string& name : *added) {
    if (std::ranges::any_of(now.binding.requests,
                            [&](const auto& one) { return focus::text_of(one) == name; }))
      return Error{fmt::format("{} is measured", name)};
    out.push_back(name);
  }
  if (out.empty()) return Error{"a session has at least one request: end it instead"};
  return out;
}

void join_plans(const Move& move, Measured& next) {
  std::erase_if(next.guests, [&](const GuestRequests& one) { return one.feed == move.goes; });
  std::vector<plan::Part> parts;
  for (const GuestRequests& one : next.guests) parts.push_back(one.part);
  if (move.comes) {
    plan::Part& part = next.guests.emplace_back(*move.comes).part;
    part.first_stencil = plan::place_for(*next.own_plan, parts, *part.plan);
    parts.push_back(part);
  }
  if (parts.empty()) return;
  next.joined = std::make_shared<plan::Plan>(plan::join(*next.own_plan, parts));
}

// What the guest's code needs to know of the process.
void identify_for(const GuestRequests& guest, const process::TargetMemory& memory,
                  std::chrono::milliseconds max_pause, Measured& next) {
  const plan::Plan& plan = *guest.part.plan;
  if (next.errno_at == 0) next.errno_at = errno_for(plan, next.image, memory, next.wanted.denied);
  if (next.wanted.starts.empty() && focus::uses_start(plan.manifest))
    next.wanted.starts = thread_starts(next.image, memory, max_pause);
}

// Its requests, bound, in the code as it was before anything was inserted.
Result<void> bind(const Move& move, const Ongoing& session, Measured& next) {
  const resident::Journal& journal = session.measurement.journal();
  const patch::OriginalMemory original(session.measurement.memory(), journal, next.image.mappings);
  image::Codes codes(next.image, original);
  auto names = names_after(move, session.now, next, codes);
  if (!names) return names.error();
  if (auto ok = session.goes_on(); !ok) return ok;
  next.wanted.metrics = std::move(*names);
  next.wanted.again = true;  // an error of those that stay has a reason of its own
  auto binding = focus::bind(next.plan(), next.image, next.wanted, &codes);
  if (!binding) return binding.error();
  next.wanted.again = false;
  next.binding = std::move(*binding);
  if (auto ok = session.goes_on(); !ok) return ok;
  next.coverage = patch::plan_coverage(next.plan(), next.binding, next.image, original, codes,
                                       {.tails = {.may_wait = journal.layout.deferred != 0, .ends = {}},
                                        .stubs = patch::stub_pages(journal, next.image.mappings)});
  return {};
}

}  // namespace

Result<NewLines> check(const NextRequests& change, const Ongoing& session) {
  const auto& [next, kept, comes] = change;
  const SessionOptions& options = session.options;
  const resident::Journal& journal = session.measurement.journal();
  for (const std::string& name : next.wanted.metrics)
    if (std::ranges::none_of(next.binding.requests, [&](const focus::BoundRequest& request) {
          return request.of == focus::BoundRequest::kNone && focus::text_of(request) == name;
        }))
      return Error{fmt::format("{} could not be measured: what it is about is gone", name)};
  const auto behind = patch::code_behind_calls(session.now.coverage);
  for (const auto& [call, place] : patch::code_behind_calls(next.coverage))
    if (const auto before = behind.find(call); before != behind.end() && before->second != place)
      return Error{fmt::format(
          "the code behind the call at {:#x} would stand at another place: a call in flight could miss it",
          call)};
  if (auto ok = check_sites(next.binding, next.coverage); !ok) return ok.error();
  Reach reach(next.plan(), next.binding);
  reach.add(next.plan(), next.coverage);
  const std::vector<bool> hollow = reach.hollow(next.binding);
  NewLines lines;
  std::string why;  // of the first one
  for (size_t i = 0; i < next.binding.requests.size(); i++) {
    const std::string name = focus::text_of(next.binding.requests[i]);
    const bool refused = next.coverage.refused_of[i] != 0;
    if (comes && comes->strict && !kept.requests[i] && refused)
      return Error{
          fmt::format("{} points of {} would be refused (--strict)", next.coverage.refused_of[i], name)};
    if (!kept.requests[i] && next.binding.requests[i].of == focus::BoundRequest::kNone) {
      lines.all++;
      if (hollow[i] && lines.unmeasured++ == 0)
        why = fmt::format("{} cannot be measured: {}", name,
                          refused ? "its points are refused" : "the functions have no such points");
    }
    if (!kept.requests[i]) continue;
    const resident::JournalRequest& before = journal.requests[*kept.requests[i]];
    if (next.coverage.early_of[i] > before.early)
      return Error{fmt::format("flags or timers of {} would end before their functions", name)};
  }
  if (lines.unmeasured != 0 && lines.unmeasured == lines.all) return Error{why};
  if (auto loser = session.libraries.inserted().loser(next.binding, next.coverage, kept.requests))
    return Error{
        fmt::format("{} would lose points that it has", focus::text_of(next.binding.requests[*loser]))};
  if (options.strict && !next.coverage.refused.empty())
    return Error{fmt::format("{} points would be refused (--strict)", next.coverage.refused.size())};
  if (comes && comes->budget)
    if (auto ok = check_budget(next.plan(), next.binding, next.wanted.ps_per_cycle, comes->budget); !ok)
      return ok.error();
  if (auto ok = check_budget(next.plan(), next.binding, next.wanted.ps_per_cycle, options.budget); !ok)
    return ok.error();
  return lines;
}

Result<NextRequests> prepare(const Move& move, const Ongoing& session) {
  if (auto ok = session.goes_on(); !ok) return ok.error();
  const Measured& now = session.now;
  auto image = image::read_image(now.image.pid);
  if (!image) return image.error();
  if (auto ok = session.goes_on(); !ok) return ok.error();
  Measured next{.own_plan = now.own_plan,
                .guests = now.guests,
                .image = std::move(*image),
                .wanted = now.wanted,
                .errno_at = now.errno_at};
  next.wanted.foci.clear();
  next.wanted.queries.clear();  // requests like others from here on
  join_plans(move, next);
  if (move.comes) identify_for(*move.comes, session.measurement.memory(), session.options.max_pause, next);
  if (auto ok = bind(move, session, next); !ok) return ok.error();
  if (move.comes && !session.tells_threads_apart &&
      (resident::needs_identity(next.plan(), next.binding) || patch::arms_calls(next.coverage)))
    return Error{
        "threads would have to be told apart for it, as for times and `within`, and nothing that was asked "
        "for at the attach needs that (--share does it all the same)"};
  auto kept = focus::kept_in(now.binding, next.binding);
  if (!kept) return kept.error();
  NextRequests out{std::move(next), std::move(*kept), move.comes};
  if (auto ok = check(out, session); !ok) return ok.error();
  return out;
}

}  // namespace mdl::inject
