#include "runtime/session/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/say.h"
#include "runtime/focus/continuation.h"
#include "runtime/image/for_people.h"

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

namespace {

// Functions of which a request has points.
std::set<const image::Function*> functions_measured(const patch::Coverage& coverage, uint32_t request) {
  std::set<const image::Function*> out;
  for (const patch::FunctionPlan& f : coverage.functions)
    for (const patch::Window& window : f.sites.windows)
      for (const patch::Site& site : window.sites)
        for (const focus::BoundSnippet& snippet : f.points[site.point].snippets)
          if (std::ranges::find(snippet.requests, request) != snippet.requests.end()) out.insert(f.function);
  return out;
}

// Where functions are keys, one has a line from its first call on. So nobody misses one that has none, because no call
// of it is seen: those of `functions`, by request.
std::set<std::string> unlisted(const focus::Binding& binding, const patch::Coverage& coverage,
                               const patch::Coverage::Functions& functions) {
  std::set<std::string> out;
  for (const focus::KeyTable& table : binding.key_tables) {
    const auto unseen = functions.find(table.request);
    if (unseen == functions.end()) continue;
    if (std::ranges::find(table.names, format::KeyName::path) == table.names.end()) continue;
    const std::set<const image::Function*> measured = functions_measured(coverage, table.request);
    for (const image::Function* function : unseen->second)
      if (!measured.contains(function)) out.insert(image::for_people(function->name));
  }
  return out;
}

// `why`: of one, and of many.
void say_unlisted(std::set<std::string> names, std::string_view why, std::string_view why_many,
                  bool verbose) {
  constexpr size_t kFew = 5;
  const size_t all = names.size();
  if (all == 0) return;
  while (!verbose && names.size() > kFew) names.erase(std::prev(names.end()));
  say(stderr, "warning: {} no line, because {}: {}{}{}\n",
      all == 1 ? "1 function has" : fmt::format("{} functions have", all), all == 1 ? why : why_many,
      fmt::join(names, ", "), names.size() < all ? ", ..." : "",
      verbose ? "" : " (--verbose names all, and says why)");
}

}  // namespace

Result<void> check_coverage(const plan::Plan& plan, const focus::Binding& binding,
                            const patch::Coverage& coverage, const SessionOptions& options) {
  Reach reach(plan, binding);
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
  say_unlisted(unlisted(binding, coverage, coverage.functions_refused), "its points are refused",
               "their points are refused", options.verbose);
  say_unlisted(unlisted(binding, coverage, coverage.of_parts), "it is taken for a part of another one",
               "they are taken for parts of others", options.verbose);
  if (options.may_come_later()) return {};  // Found says it at the end
  Unmeasured unmeasured;
  for (size_t i = 0; i < hollow.size(); i++)
    if (hollow[i]) unmeasured[reach.why(i)].push_back(focus::text_of(binding.requests[i]));
  say_unmeasured(unmeasured, hollow.size(), options.verbose);
  return {};
}

}  // namespace mdl::inject
