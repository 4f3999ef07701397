#include "runtime/session/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/say.h"

namespace mdl::inject {

namespace {

// What cannot be measured though what it is about is there: METRIC@FOCUS, by the reason.
using Unmeasured = std::map<Reach::Why, std::vector<std::string>>;

constexpr std::string_view reason_of_one(Reach::Why why) {
  switch (why) {
    case Reach::Why::refused:
      return "its points are refused";
    case Reach::Why::part:
      return "it is a part of another function";
    case Reach::Why::without:
      break;
  }
  return "the functions have no such points (one that never returns has no returns)";
}

std::string reason_of_many(Reach::Why why, size_t count) {
  switch (why) {
    case Reach::Why::refused:
      return fmt::format("of {} the points are refused", count);
    case Reach::Why::part:
      return fmt::format("{} are parts of other functions", count);
    case Reach::Why::without:
      break;
  }
  return fmt::format("{} have no such points (what never returns has no returns)", count);
}

// Each, or, where there are many, how many of `all` for which reason.
void say_unmeasured(const Unmeasured& names, size_t all, bool verbose) {
  constexpr size_t kFew = 3;
  size_t count = 0;
  std::vector<std::string> reasons;
  for (const auto& [why, of_reason] : names) {
    count += of_reason.size();
    reasons.push_back(reason_of_many(why, of_reason.size()));
  }
  if (!verbose && count > kFew) {
    say(stderr, "warning: {} of {} lines cannot be measured: {} (--verbose names them)\n", count, all,
        fmt::format("{}", fmt::join(reasons, "; ")));
    return;
  }
  for (const auto& [why, of_reason] : names)
    for (const std::string& name : of_reason)
      say(stderr, "warning: {} cannot be measured: {}\n", name, reason_of_one(why));
}

}  // namespace

void Reach::Code::add(const plan::Plan& plan, const focus::BoundSnippet& snippet) {
  const auto& uses = plan.stencils[snippet.stencil].info.cells;
  for (size_t i = 0; i < uses.size(); i++)
    written[snippet.cells[i]] = written[snippet.cells[i]] || uses[i].writes;
  for (const focus::TrackedCells& track : snippet.tracks) written[track.span] = true;
  for (uint32_t request : snippet.requests)
    guards[request].insert(guards[request].end(), snippet.guards.begin(), snippet.guards.end());
}

void Reach::add(const plan::Plan& plan, const patch::Coverage& coverage) {
  for (size_t i = 0; i < coverage.refused_of.size(); i++)  // none, where there was nothing to plan
    refused_[i] = refused_[i] || coverage.refused_of[i] != 0;
  for (const uint32_t request : coverage.of_parts) parts_[request] = true;
  for (const patch::FunctionPlan& f : coverage.functions) {
    std::set<uint32_t> taken;
    for (const patch::Window& window : f.sites.windows)
      for (const patch::Site& site : window.sites) taken.insert(site.point);
    for (uint32_t point = 0; point < f.points.size(); point++) {
      for (const focus::BoundSnippet& snippet : f.points[point].snippets) {
        there_.add(plan, snippet);
        if (taken.contains(point)) inserted_.add(plan, snippet);
      }
    }
  }
}

std::vector<bool> Reach::Code::hollow(const focus::Binding& binding) const {
  std::vector<bool> out;
  for (size_t i = 0; i < binding.requests.size(); i++) {
    const focus::BoundRequest& request = binding.requests[i];
    bool hollow = !request.idle && !written[request.value];
    for (focus::CellId guard : guards[i]) hollow = hollow || (!request.idle && !written[guard]);
    if (request.of != focus::BoundRequest::kNone) hollow = hollow || out[request.of];
    out.push_back(hollow);
  }
  return out;
}

std::vector<bool> Reach::without_functions(const focus::Binding& binding) const {
  std::vector<bool> out = there_.hollow(binding);
  for (size_t i = 0; i < out.size(); i++) out[i] = out[i] && why(i) == Why::without;
  return out;
}

void Found::add(const focus::Binding& binding, const Reach& reach) {
  const std::vector<bool> hollow = reach.hollow(binding);
  const std::vector<bool> without = reach.without_functions(binding);
  for (size_t i = 0; i < hollow.size(); i++) {
    const focus::BoundRequest& request = binding.requests[i];
    if (request.of != focus::BoundRequest::kNone) continue;
    std::string name = focus::request_text(request.metric, request.focus);
    if (!hollow[i]) reached_.insert(name);
    if (!without[i]) met_.insert_or_assign(name, reach.why(i));
    const std::string missing =
        request.missing.empty() ? "" : fmt::format(" (it looks for {})", fmt::join(request.missing, ", "));
    if (missing_.emplace(name, missing).second) order_.push_back(std::move(name));
  }
  for (size_t i = 0; i < binding.absent.size(); i++)
    if (binding.absent[i].empty())
      present_.insert(i);
    else
      absent_.emplace(i, binding.absent[i]);
}

bool Found::say_unreached(bool verbose) const {
  bool any = reached_.empty();
  Unmeasured unmeasured;
  for (const std::string& name : order_) {
    if (reached_.contains(name)) continue;
    if (auto met = met_.find(name); met != met_.end()) {
      unmeasured[met->second].push_back(name);
      continue;
    }
    any = true;
    say(stderr, "mdl-inject: {} was awaited, and nothing came that it could count{}\n", name,
        missing_.at(name));
  }
  say_unmeasured(unmeasured, order_.size(), verbose);
  for (const auto& [index, why] : absent_) {
    if (present_.contains(index)) continue;
    any = true;
    say(stderr, "mdl-inject: in no program: {}\n", why);
  }
  if (order_.empty() && absent_.empty())
    say(stderr, "mdl-inject: no program had anything that was asked for\n");
  return any;
}

Result<void> check_sites(const focus::Binding& binding, const patch::Coverage& coverage) {
  const patch::RefusedSite* unseen = patch::unseen_release(binding, coverage);
  if (unseen == nullptr) return {};
  return Error{
      fmt::format("sites of blocks cannot be told, because blocks would go unseen: {} in {} is refused: {}",
                  unseen->function->name, unseen->object->name, unseen->reason)};
}

Result<void> check_coverage(const plan::Plan& plan, const focus::Binding& binding,
                            const patch::Coverage& coverage, const SessionOptions& options) {
  Reach reach(binding);
  reach.add(plan, coverage);
  const std::vector<bool> hollow = reach.hollow(binding);
  const auto count = static_cast<size_t>(std::count(hollow.begin(), hollow.end(), true));
  std::string example = coverage.refused.empty()
                            ? ": the functions have no such points (one that never returns has no returns)"
                            : fmt::format(": {} in {}: {}", coverage.refused[0].function->name,
                                          coverage.refused[0].object->name, coverage.refused[0].reason);
  if (count == hollow.size() && !options.may_come_later())
    return Error{fmt::format(
        "nothing that was asked for can be measured{} (mdl-inject --dry-run lists every refused point)",
        example)};
  if (auto ok = check_sites(binding, coverage); !ok) return ok;
  if (options.strict && !coverage.refused.empty())
    return Error{fmt::format("{} points are refused{} (--strict; mdl-inject --dry-run lists them)",
                             coverage.refused.size(), example)};
  if (options.may_come_later()) return {};  // Found says it at the end
  Unmeasured unmeasured;
  for (size_t i = 0; i < hollow.size(); i++)
    if (hollow[i]) unmeasured[reach.why(i)].push_back(focus::text_of(binding.requests[i]));
  say_unmeasured(unmeasured, hollow.size(), options.verbose);
  return {};
}

}  // namespace mdl::inject
