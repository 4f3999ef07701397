#include "runtime/session/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/say.h"
#include "runtime/arch/description.h"
#include "runtime/focus/continuation.h"
#include "runtime/focus/folded.h"
#include "runtime/image/for_people.h"
#include "runtime/output/rows.h"

namespace mdl::inject {
namespace {

std::string function_text(const image::Object* object, const image::Function* function) {
  return fmt::format("/Code/{}/{}", object->name, function->name);
}

std::string read_text(const image::Object* object, const image::Function* function) {
  return image::for_people(function_text(object, function));
}

std::string_view site_text(const patch::Site& site) {
  if (site.kind != format::PointKind::return_) return format::info(site.kind).name;
  switch (site.exit) {
    case image::ExitKind::return_:
      return "return";
    case image::ExitKind::tail_jump:
      return "tail jump";
    case image::ExitKind::tail_branch:
      return "conditional tail jump";
    case image::ExitKind::tail_jump_indirect:
      return "indirect tail jump";
  }
  return "";
}

}  // namespace

std::string patience_text(size_t points) {
  constexpr size_t kMany = 30000;  // some 40 us each
  if (points < kMany) return "";
  return fmt::format("looking at the code of {} points, which takes some seconds\n", points);
}

void print_early_ends(std::FILE* out, const patch::Coverage& coverage) {
  for (const patch::EarlyEnd& early : coverage.early)
    say(out, "ends early: {} {} at {:#x}: {}\n", read_text(early.object, early.function),
        site_text(early.site), early.site.address, early.reason);
}

namespace {

// Less those that have a hook only.
size_t count_functions(const patch::Coverage& coverage) {
  std::set<const image::Function*> functions;
  for (const patch::FunctionPlan& f : coverage.functions)
    if (std::any_of(f.points.begin(), f.points.end(),
                    [](const auto& point) { return !point.snippets.empty(); }))
      functions.insert(f.function);
  for (const auto& refused : coverage.refused) functions.insert(refused.function);
  return functions.size();
}

uint64_t count_patched(const patch::Coverage& coverage) {
  uint64_t taken = 0;
  for (const auto& [tactic, count] : coverage.by_tactic) taken += count;
  return taken;
}

nlohmann::ordered_json site_row(const image::Object* object, const image::Function* function,
                                const patch::Site& site, const std::string& reason) {
  return {{"path", function_text(object, function)},
          {"point", site_text(site)},
          {"address", fmt::format("{:#x}", site.address)},
          {"reason", reason}};
}

}  // namespace

nlohmann::ordered_json row_of(pid_t pid, const focus::Binding& binding, const patch::Coverage& coverage) {
  auto tactics = nlohmann::ordered_json::object();
  for (const auto& [tactic, count] : coverage.by_tactic) tactics[fmt::format("{}", tactic)] = count;
  auto requests = nlohmann::ordered_json::array();
  for (size_t i = 0; i < binding.requests.size(); i++) {
    const focus::BoundRequest& request = binding.requests[i];
    requests.push_back({{"metric", request.metric},
                        {"focus", request.focus},
                        {"refused", coverage.refused_of[i]},
                        {"early", coverage.early_of[i]},
                        {"missing", request.missing}});
  }
  auto refused = nlohmann::ordered_json::array();
  for (const patch::RefusedSite& one : coverage.refused)
    refused.push_back(site_row(one.object, one.function, one.site, one.reason));
  auto early = nlohmann::ordered_json::array();
  for (const patch::EarlyEnd& one : coverage.early)
    early.push_back(site_row(one.object, one.function, one.site, one.reason));
  return {{"pid", pid},
          {"points", coverage.sites},
          {"functions", count_functions(coverage)},
          {"patched", count_patched(coverage)},
          {"tactics", std::move(tactics)},
          {"requests", std::move(requests)},
          {"refused", std::move(refused)},
          {"early", std::move(early)}};
}

void print_coverage(std::FILE* out, const focus::Binding& binding, const patch::Coverage& coverage) {
  say(out, "{} points in {} functions: {} would be patched", coverage.sites, count_functions(coverage),
      count_patched(coverage));
  for (const auto& [tactic, count] : coverage.by_tactic) say(out, ", {} by {}", count, tactic);
  say(out, ", {} refused\n", coverage.refused.size());
  std::set<std::string> said;
  for (size_t i = 0; i < binding.requests.size(); i++) {
    const focus::BoundRequest& request = binding.requests[i];
    if (request.of != focus::BoundRequest::kNone && !coverage.refused_of[i] && !coverage.early_of[i])
      continue;
    const std::string text = image::for_people(focus::text_of(request));
    const bool is_first = said.insert(text).second;  // a linkage name tells it from one that reads alike
    say(out, "  {}: {} refused", is_first ? text : focus::text_of(request), coverage.refused_of[i]);
    if (coverage.early_of[i]) say(out, ", {} end early", coverage.early_of[i]);
    say(out, "{}\n", request.children ? fmt::format(", {} children", request.children) : "");
  }
  print_early_ends(out, coverage);
  std::map<std::string, uint64_t> reasons;
  for (const patch::RefusedSite& refused : coverage.refused) reasons[refused.reason]++;
  for (const auto& [reason, count] : reasons) say(out, "  {:6}  {}\n", count, reason);
  print_refused(out, coverage);
}

void print_refused(std::FILE* out, const patch::Coverage& coverage) {
  for (const patch::RefusedSite& refused : coverage.refused)
    say(out, "refused: {} {} at {:#x}: {} [{:02x}]\n", read_text(refused.object, refused.function),
        site_text(refused.site), refused.site.address, refused.reason, fmt::join(refused.bytes, " "));
}

namespace {

void print_snippet(std::FILE* out, const plan::Plan& plan, const focus::Binding& binding,
                   const focus::BoundPoint& point, const focus::BoundSnippet& snippet) {
  say(out, "  {} of {}{}: {}", format::info(point.kind).name, function_text(point.object, point.function),
      point.place ? fmt::format("+{:#x}", point.place - point.function->address) : "",
      plan.stencils[snippet.stencil].info.name);
  for (focus::CellId guard : snippet.guards) say(out, ", while {}", binding.cells[guard].label);
  if (!snippet.obstacle.empty()) say(out, ", refused: {}", snippet.obstacle);
  say(out, "\n");
}

}  // namespace

void print_binding(std::FILE* out, const plan::Plan& plan, const focus::Binding& binding) {
  for (size_t i = 0; i < binding.requests.size(); i++) {
    const focus::BoundRequest& request = binding.requests[i];
    if (request.of != focus::BoundRequest::kNone) continue;  // thousands, and all alike
    say(out, "{} ({})\n", focus::text_of(request), request.definition->name);
    if (request.children)
      say(out, "  one value for {} children, each with a flag and a span of it\n", request.children);
    for (const std::string& name : request.missing) say(out, "  not in this process: {}\n", name);
    for (const focus::BoundPoint& point : binding.points)
      for (const focus::BoundSnippet& snippet : point.snippets) {
        if (std::find(snippet.requests.begin(), snippet.requests.end(), i) == snippet.requests.end())
          continue;
        print_snippet(out, plan, binding, point, snippet);
      }
  }
  bool any = false;
  for (const focus::BoundPoint& point : binding.points)
    for (const focus::BoundSnippet& snippet : point.snippets) {
      if (!snippet.requests.empty()) continue;
      if (!any) say(out, "code outside metrics\n");
      any = true;
      print_snippet(out, plan, binding, point, snippet);
    }
}

namespace {

// The first ones, and how many more there are.
std::string listed(std::vector<std::string> names) {
  constexpr size_t kMost = 4;
  const size_t more = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more ? fmt::format(" and {} more", more) : "");
}

}  // namespace

void print_left_out(std::FILE* out, pid_t pid, const focus::Binding& binding, bool verbose) {
  std::map<std::string, std::string> left_out = binding.left_out;
  for (const focus::BoundRequest& request : binding.requests) left_out.erase(request.metric);
  std::vector<std::string> names;
  for (const auto& [name, why] : left_out) {
    names.push_back(name);
    if (verbose) say(out, "left out: {}\n", why);
  }
  if (!names.empty() && !verbose)
    say(out, "note: process {} cannot have {} (--verbose says why)\n", pid, listed(std::move(names)));
}

void print_clones(std::FILE* out, const focus::Binding& binding, bool verbose) {
  std::vector<std::string> names;
  for (const image::Function* clone : binding.clones) names.push_back(image::for_people(clone->name));
  if (names.empty()) return;
  say(out,
      "note: the compiler has made further functions of some that are measured, and calls of these are not "
      "counted: {}; in quotes they can be asked for, too\n",
      verbose ? fmt::format("{}", fmt::join(names, ", ")) : listed(std::move(names)));
}

void print_folded(std::FILE* out, const focus::Binding& binding) {
  std::vector<std::string> texts;
  for (const focus::Folded& one : focus::folded_functions(binding))
    texts.push_back(fmt::format("{} is {}", one.name, listed(one.others)));
  if (texts.empty()) return;
  say(out, "note: functions that have the same code are one, and all calls of it are counted: {}\n",
      listed(std::move(texts)));
}

void print_inlined(std::FILE* out, const std::vector<focus::InlinedCalls>& calls) {
  std::vector<std::string> texts;
  for (const focus::InlinedCalls& one : calls)
    texts.push_back(fmt::format("{} into {}", one.name, listed(one.holders)));
  if (texts.empty()) return;
  say(out, "note: the compiler has inlined some calls of what is measured, and these are not counted: {}\n",
      listed(std::move(texts)));
}

std::string points_text(const patch::Inserted& inserted) {
  constexpr std::chrono::milliseconds kNotable{10};
  const auto ms = [](std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; };
  const process::Pauses& paused = inserted.paused;
  return fmt::format(
      "{} points in {:.1f} ms, paused {:.1f} ms{}", inserted.points, ms(inserted.took), ms(paused.all),
      paused.all < kNotable ? "" : fmt::format(", at most {:.1f} ms at a time", ms(paused.longest)));
}

void print_inserted(const patch::Inserted& inserted, const patch::Coverage& coverage) {
  say(stderr, "inserted {} ({} threads", points_text(inserted), inserted.threads);
  if (inserted.frames) say(stderr, ", {} active frames", inserted.frames);
  say(stderr, "){}\n", coverage.refused.empty() ? "" : fmt::format(", {} refused", coverage.refused.size()));
  for (const std::string& warning : inserted.warnings) warn_once("{}", warning);
  for (const std::string& why : coverage.unhooked)
    warn_once(
        "not hooked: {} (docs/events.md, \"Frames that vanish\"; docs/processes.md, \"The end of the "
        "process\")",
        why);
}

namespace {

// Its path, as a focus has it; what it is called, and what else.
nlohmann::ordered_json row_of(const image::Object& object, const image::Function& function) {
  nlohmann::ordered_json out = {{"path", function_text(&object, &function)},
                                {"object", object.name},
                                {"function", function.name},
                                {"demangled", image::demangle(function.name).full},
                                {"aliases", function.aliases}};
  if (function.is_ifunc) out["ifunc"] = true;
  return out;
}

}  // namespace

int print_functions(std::FILE* out, const image::Image& image, const std::string& glob,
                    std::string_view format) {
  output::Rows rows(format);
  size_t printed = 0;
  for (const image::Object& object : image.objects)
    for (const image::Function& function : object.functions) {
      std::string text = function_text(&object, &function);
      const auto [full, plain] = image::demangle(function.name);
      bool wanted = glob.empty();
      const std::string in_object = object.name + "/" + function.name;  // as lists of functions have it
      for (const std::string& candidate : {text, in_object, function.name, plain, full})
        wanted = wanted || fnmatch(glob.c_str(), candidate.c_str(), 0) == 0;
      for (const std::string& alias : function.aliases)
        wanted = wanted || fnmatch(glob.c_str(), alias.c_str(), 0) == 0;
      if (!wanted) continue;
      printed++;
      if (rows.has_objects()) {
        say_text(out, rows.of(row_of(object, function)));
        continue;
      }
      say(out, "{}", text);
      if (plain != function.name) say(out, "  {}", full);
      for (const std::string& alias : function.aliases) say(out, "  ={}", alias);
      say(out, "{}\n", function.is_ifunc ? "  (IFUNC)" : "");
    }
  say_text(out, rows.end());
  return printed ? 0 : 1;
}

namespace {

std::string counted(uint64_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace

namespace {

struct Exits {
  patch::MissedExit all;
  std::vector<std::string> requests;
};

// A function's flag, its timers and the flags of other requests are up for the same frames.
std::map<std::vector<uint32_t>, Exits> by_functions(const resident::Journal& journal,
                                                    const std::vector<patch::MissedExit>& exits) {
  std::map<std::vector<uint32_t>, Exits> out;
  for (const patch::MissedExit& one : exits) {
    auto& [all, requests] = out[one.cell->functions];
    all.entries = std::max(all.entries, one.entries);
    all.threads = std::max(all.threads, one.threads);
    for (const uint32_t r : one.cell->requests)
      if (r < journal.requests.size())
        requests.push_back(focus::request_text(journal.requests[r].metric, journal.requests[r].focus));
  }
  return out;
}

std::string names_of(const resident::Journal& journal, const std::vector<uint32_t>& functions) {
  std::vector<std::string> names;
  for (const uint32_t f : functions) names.push_back(journal.functions[f].name);
  return (names.size() == 1 ? "" : fmt::format("one of {} functions, ", names.size())) + listed(names);
}

}  // namespace

void say_missed_exits(pid_t pid, const resident::Journal& journal, const patch::ExitCheck& check) {
  for (const auto& [functions, exits] : by_functions(journal, check.missed))
    say(stderr,
        "warning: process {}: {} was entered {} more often than it was left, in {}, and is not "
        "active there: exits were missed; suspect: {}\n",
        pid, names_of(journal, functions),
        exits.all.entries == 1 ? "once" : fmt::format("{} times", exits.all.entries),
        counted(exits.all.threads, "thread"), listed(exits.requests));
  for (const auto& [functions, exits] : by_functions(journal, check.elsewhere))
    say(stderr,
        "warning: process {}: {} is active in {} on a stack that does not run now, as that of a coroutine: "
        "what the thread did elsewhere meanwhile is taken to be within it; about: {}\n",
        pid, names_of(journal, functions), counted(exits.all.threads, "thread"), listed(exits.requests));
}

void print_check(std::FILE* out, const patch::ExitCheck& check) {
  if (!check.done) {
    say(out, "exits were not checked: the session's data cannot be read\n");
    return;
  }
  uint64_t missed = 0, unclear = 0;
  for (const patch::MissedExit& one : check.missed) missed += one.threads;
  for (const auto& [why, count] : check.unclear) unclear += count;
  say(out,
      "checked exits: flags and timers up in threads: {}; for active frames {}, for frames that are gone {}, "
      "not checked {}\n",
      check.up, check.up - missed - unclear, missed, unclear);
  for (const auto& [why, count] : check.unclear) say(out, "  {} not checked: {}\n", count, why);
}

void say_breakpoints(pid_t pid, size_t windows) {
  if (windows == 0) return;
  say(stderr,
      "warning: {} windows of process {} held breakpoints ({}) of a debugger or a uprobe, which were left "
      "there; what is around them is the original code\n",
      windows, pid, arch::kMachine.breakpoint_name);
}

}  // namespace mdl::inject
