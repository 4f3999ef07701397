#include "runtime/patch/coverage.h"

#include <algorithm>
#include <set>
#include <thread>

namespace mdl::patch {
namespace {

using focus::BoundPoint;
using focus::BoundSnippet;

struct Points {
  const BoundPoint* entry = nullptr;
  const BoundPoint* exit = nullptr;
};

// The points of each function, in the binding's order.
std::vector<std::pair<const image::Function*, Points>> by_function(const focus::Binding& binding) {
  std::vector<std::pair<const image::Function*, Points>> out;
  std::map<const image::Function*, size_t> index;
  for (const BoundPoint& point : binding.points) {
    auto [it, added] = index.try_emplace(point.function, out.size());
    if (added) out.emplace_back(point.function, Points{});
    Points& wanted = out[it->second].second;
    (point.kind == format::PointKind::entry ? wanted.entry : wanted.exit) = &point;
  }
  return out;
}

void charge(Coverage& out, const std::vector<BoundSnippet>& snippets) {
  std::set<uint32_t> requests;
  for (const BoundSnippet& snippet : snippets)
    requests.insert(snippet.requests.begin(), snippet.requests.end());
  for (uint32_t request : requests) out.refused_of[request]++;
}

std::vector<uint8_t> bytes_at(const image::Memory& memory, uint64_t address) {
  std::vector<std::byte> raw(8);
  if (!memory.read(address, raw)) return {};
  std::vector<uint8_t> out;
  for (std::byte b : raw) out.push_back(static_cast<uint8_t>(b));
  return out;
}

// A function with a refused site loses every flag that needs its entry and exits balanced.
// Returns true when something was dropped.
bool drop_unbalanced(const plan::Plan& plan, const focus::Binding& binding, FunctionPlan& function,
                     std::set<uint32_t>& hurt) {
  bool dropped = false;
  for (const focus::Balance& balance : binding.balances) {
    if (balance.function != function.function) continue;
    auto lost = [&](const BoundSnippet& snippet) { return writes_flag(plan, snippet, balance.flag); };
    dropped |= std::erase_if(function.entry, lost) > 0;
    dropped |= std::erase_if(function.exit, lost) > 0;
    hurt.insert(balance.requests.begin(), balance.requests.end());
  }
  return dropped;
}

Wanted wanted_of(const plan::Plan& plan, const FunctionPlan& f) {
  bool result = std::any_of(f.exit.begin(), f.exit.end(), [&](const BoundSnippet& snippet) {
    return plan.stencils[snippet.stencil].info.uses_result;
  });
  return {!f.entry.empty() || f.hook != arch::Hook::none, !f.exit.empty(), result};
}

void plan_function(const plan::Plan& plan, const focus::Binding& binding, const image::Memory& memory,
                   FunctionPlan& f, Coverage& out) {
  f.sites = plan_sites(*f.function, f.code, wanted_of(plan, f));
  if (f.hook != arch::Hook::none)
    for (const Refusal& refusal : f.sites.refusals)
      if (refusal.site.kind == format::PointKind::entry)
        out.unhooked.push_back(f.function->name + ": " + refusal.reason);
  if (f.entry.empty() && f.exit.empty()) return;  // only the hook: nobody asked for it
  out.sites += f.sites.entries + f.sites.exits;
  auto record = [&](const Refusal& refusal) {
    out.refused.push_back(
        {f.object, f.function, refusal.site, refusal.reason, bytes_at(memory, refusal.site.address)});
  };
  bool refused = !f.sites.refusals.empty();
  for (const Refusal& refusal : f.sites.refusals) {
    record(refusal);
    charge(out, refusal.site.kind == format::PointKind::entry ? f.entry : f.exit);
  }
  if (!refused) return;
  std::set<uint32_t> hurt;
  if (!drop_unbalanced(plan, binding, f, hurt)) return;
  f.sites = plan_sites(*f.function, f.code, wanted_of(plan, f));
}

// Every normal end of a process passes _exit: exit() and a return from main call it.
struct HookedName {
  std::string_view name;
  arch::Hook hook;
};
constexpr HookedName kHooks[] = {
    {"_exit", arch::Hook::exit},      {"__cxa_begin_catch", arch::Hook::catch_},
    {"longjmp", arch::Hook::jump},    {"_longjmp", arch::Hook::jump},
    {"siglongjmp", arch::Hook::jump}, {"__longjmp_chk", arch::Hook::jump},
};

arch::Hook hook_of(const image::Function& function) {
  for (const HookedName& hooked : kHooks)
    if (function.name == hooked.name ||
        std::find(function.aliases.begin(), function.aliases.end(), hooked.name) != function.aliases.end())
      return hooked.hook;
  return arch::Hook::none;
}

void add_hooks(const image::Image& image, bool flags, std::vector<FunctionPlan>& functions) {
  for (const image::Object& object : image.objects)
    for (const image::Function& function : object.functions) {
      arch::Hook hook = object.is_loader ? arch::Hook::none : hook_of(function);
      if (hook == arch::Hook::none || (hook != arch::Hook::exit && !flags)) continue;
      auto it = std::find_if(functions.begin(), functions.end(),
                             [&](const FunctionPlan& f) { return f.function == &function; });
      if (it == functions.end()) {
        FunctionPlan f;
        f.object = &object;
        f.function = &function;
        it = functions.insert(functions.end(), std::move(f));
      }
      it->hook = hook;
    }
}

// Decodes all functions, on as many threads as there are processors: it is most of the work.
void read_codes(const image::Image& image, const image::Memory& memory,
                std::vector<FunctionPlan>& functions) {
  size_t workers = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 8);
  if (functions.size() < 64) workers = 1;
  auto work = [&](size_t first) {
    for (size_t i = first; i < functions.size(); i += workers) {
      auto code = image::read_code(image, *functions[i].object, *functions[i].function, memory);
      if (code) {
        functions[i].code = std::move(*code);
      } else {
        functions[i].code.complete = false;
        functions[i].code.doubt = code.error().text;
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers; i++) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

uint64_t FunctionPlan::points(const Window& window) const {
  return static_cast<uint64_t>(std::count_if(window.sites.begin(), window.sites.end(), [&](const Site& site) {
    return !(site.kind == format::PointKind::entry ? entry : exit).empty();
  }));
}

bool writes_flag(const plan::Plan& plan, const BoundSnippet& snippet, focus::CellId flag) {
  const auto& uses = plan.stencils[snippet.stencil].info.cells;
  for (size_t i = 0; i < uses.size() && i < snippet.cells.size(); i++)
    if (snippet.cells[i] == flag && uses[i].writes) return true;
  return false;
}

Coverage plan_coverage(const plan::Plan& plan, const focus::Binding& binding, const image::Image& image,
                       const image::Memory& memory) {
  Coverage out;
  out.refused_of.resize(binding.requests.size());
  for (auto& [function, wanted] : by_function(binding)) {
    FunctionPlan f;
    f.object = (wanted.entry ? wanted.entry : wanted.exit)->object;
    f.function = function;
    if (wanted.entry) f.entry = wanted.entry->snippets;
    if (wanted.exit) f.exit = wanted.exit->snippets;
    out.functions.push_back(std::move(f));
  }
  add_hooks(image, !binding.balances.empty(), out.functions);
  read_codes(image, memory, out.functions);
  for (FunctionPlan& f : out.functions) {
    plan_function(plan, binding, memory, f, out);
    for (const Window& window : f.sites.windows)
      if (uint64_t points = f.points(window)) out.by_tactic[std::string(name(window.tactic))] += points;
  }
  return out;
}

}  // namespace mdl::patch
