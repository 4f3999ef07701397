#include "runtime/patch/tail_calls.h"

#include <algorithm>

#include "runtime/patch/relay.h"

namespace mdl::patch {
namespace {

using focus::BoundSnippet;
using format::PointKind;

// The metric or constraint whose code a stencil is: its name less the point's (format/manifest.h).
std::string owner_of(const format::StencilInfo& info) {
  const std::string point = "_" + std::string(format::info(info.point).name);
  const size_t at = info.name.rfind(point);
  return at == std::string::npos ? info.name : info.name.substr(0, at);
}

bool is_jump(const image::Exit& exit) {
  return exit.kind != image::ExitKind::return_;
}

FunctionPlan::Point* return_point(FunctionPlan& f) {
  auto it = std::find_if(f.points.begin(), f.points.end(), [](const FunctionPlan::Point& point) {
    return point.wanted.kind == PointKind::return_;
  });
  return it == f.points.end() ? nullptr : &*it;
}

// Why not each return of the function is seen; "" when each is.
std::string missing_returns(const FunctionPlan& f) {
  if (!f.code->doubt.empty()) return f.code->doubt;
  if (!f.code->complete) return "not all of the function could be decoded";
  for (const Refusal& refusal : f.sites.refusals)
    if (refusal.site.kind == PointKind::return_ && !is_tail_jump(refusal.site)) return refusal.reason;
  std::set<uint64_t> seen;
  for (const Window& window : f.sites.windows)
    for (const Site& site : window.sites)
      if (site.kind == PointKind::return_) seen.insert(site.instead_of ? site.instead_of : site.address);
  for (const image::Exit& exit : f.code->exits)
    if (!is_jump(exit) && !seen.contains(exit.address)) return "one of its returns is not instrumented";
  return "";
}

}  // namespace

Endings::Endings(const plan::Plan& plan, const focus::Binding& binding) : plan_(plan), binding_(binding) {
  for (const focus::Balance& balance : binding.balances)
    if (!balance.of_calls) balanced_.emplace(balance.function, balance.flag);
  for (const plan::Stencil& stencil : plan.stencils) {
    if (stencil.info.point != PointKind::call_before && stencil.info.point != PointKind::call_after) continue;
    for (const format::CellUse& use : stencil.info.cells)
      if (use.writes) at_calls_.emplace(owner_of(stencil.info), use.name);
  }
}

std::vector<std::optional<Endings::Ending>> Endings::of(const FunctionPlan& f,
                                                        const FunctionPlan::Point& point) const {
  std::vector<std::optional<Ending>> out(point.snippets.size());
  if (point.wanted.kind != PointKind::return_) return out;
  std::set<focus::CellId> balanced;
  for (auto [it, end] = balanced_.equal_range(f.function); it != end; ++it) balanced.insert(it->second);
  if (balanced.empty()) return out;
  Writers writers;
  for (const BoundSnippet& snippet : point.snippets) {
    const auto& uses = plan_.stencils[snippet.stencil].info.cells;
    for (size_t i = 0; i < uses.size(); i++)
      if (uses[i].writes) writers[snippet.cells[i]]++;
  }
  for (size_t i = 0; i < out.size(); i++) out[i] = of(point.snippets[i], balanced, writers);
  return out;
}

std::optional<Endings::Ending> Endings::of(const BoundSnippet& snippet,
                                           const std::set<focus::CellId>& balanced,
                                           const Writers& writers) const {
  if (snippet.keys != BoundSnippet::kNoTable && !binding_.key_tables[snippet.keys].adds) {
    const focus::KeyTable& table = binding_.key_tables[snippet.keys];
    if (!balanced.contains(table.change)) return std::nullopt;
    return Ending{table.keys, does_nothing_else(snippet, table.change, writers)};
  }
  const format::StencilInfo& info = plan_.stencils[snippet.stencil].info;
  for (size_t i = 0; i < info.cells.size(); i++) {
    const focus::CellId cell = snippet.cells[i];
    if (!balanced.contains(cell) || !raises_or_lowers(plan_, snippet, cell, false)) continue;
    if (at_calls_.contains({owner_of(info), info.cells[i].name})) continue;
    return Ending{cell, does_nothing_else(snippet, cell, writers)};
  }
  return std::nullopt;
}

bool Endings::does_nothing_else(const BoundSnippet& snippet, focus::CellId cell,
                                const Writers& writers) const {
  const format::StencilInfo& info = plan_.stencils[snippet.stencil].info;
  if (info.uses_result || std::ranges::find(info.routines, format::Routine::call) != info.routines.end())
    return false;
  const auto writes =
      std::ranges::count_if(info.cells, [](const format::CellUse& use) { return use.writes; });
  const bool keyed = snippet.keys != BoundSnippet::kNoTable;  // it writes a key, and what happens to it
  return writes <= (keyed ? 2 : 1) && writers.at(cell) == 1;
}

TailCalls::TailCalls(const plan::Plan& plan, const focus::Binding& binding, const image::Image& image,
                     const image::Memory& memory, const std::set<const image::Object*>* only,
                     const TailScope& scope)
    : targets_(image, memory), only_(only), scope_(scope), endings_(plan, binding) {
  if (auto made = focus::Exclusions::make(plan.manifest.excludes)) exclusions_.emplace(std::move(*made));
}

bool TailCalls::has_endings(const FunctionPlan& f) const {
  return std::ranges::any_of(f.code->exits, is_jump) &&
         std::ranges::any_of(f.points, [&](const FunctionPlan::Point& point) {
           return std::ranges::any_of(endings_.of(f, point),
                                      [](const auto& ending) { return ending && ending->can_wait; });
         });
}

std::string TailCalls::objection(const image::TailTarget& target) const {
  if (target.function->is_ifunc) return "it is an indirect function that has not been chosen";
  if (target.object->is_loader) return "it is the dynamic linker's";
  if (target.object->is_go) return "it is Go code";
  if (focus::own_abi(*target.object, *target.function) != focus::OwnAbi::no)
    return "it has a calling convention of its own";
  if (!exclusions_ || exclusions_->excludes(*target.object) ||
      exclusions_->excludes(*target.object, *target.function))
    return "the plan excludes it";
  if (only_ && !only_->contains(target.object) && !scope_.ends.contains(target.function->address))
    return "its returns were not instrumented at the attach";
  return "";
}

TailCalls::Node TailCalls::make_node(const FunctionPlan& f) {
  Node out;
  for (const image::Exit& exit : f.code->exits) {
    if (!is_jump(exit)) continue;
    auto jump = std::lower_bound(f.code->instructions.begin(), f.code->instructions.end(), exit.address,
                                 [](const image::Instruction& in, uint64_t a) { return in.address < a; });
    Way way{exit.address, {}};
    if (jump == f.code->instructions.end() || jump->address != exit.address)
      way.target.obstacle = "its instruction was not decoded";
    else
      way.target = targets_.of(*f.object, *jump);
    if (way.target.function)
      if (std::string why = objection(way.target); !why.empty())
        way.target.obstacle = way.target.function->name + ": " + why;
    out.ways.push_back(std::move(way));
  }
  return out;
}

void TailCalls::add_targets(std::vector<FunctionPlan>& functions, image::Codes& codes) {
  if (!scope_.may_wait) return;
  std::map<const image::Function*, size_t> index;
  std::vector<size_t> work;
  for (size_t i = 0; i < functions.size(); i++) {
    index[functions[i].function] = i;
    if (has_endings(functions[i])) work.push_back(i);
  }
  while (!work.empty()) {
    const size_t at = work.back();
    work.pop_back();
    auto [known, fresh] = nodes_.try_emplace(functions[at].function);
    if (!fresh) continue;
    known->second = make_node(functions[at]);
    for (const Way& way : known->second.ways) {
      const image::TailTarget& target = way.target;
      if (!target.obstacle.empty() || (only_ && !only_->contains(target.object))) continue;
      auto [slot, added] = index.try_emplace(target.function, functions.size());
      if (added) {
        FunctionPlan& f = functions.emplace_back();
        f.object = target.object, f.function = target.function;
        f.code = std::make_shared<const image::Code>(codes.take(*f.object, *f.function));
      }
      FunctionPlan& f = functions[slot->second];
      f.ends_deferred = true;
      if (!return_point(f)) f.points.push_back({{PointKind::return_}, {}});
      work.push_back(slot->second);
    }
  }
}

void TailCalls::withdraw(FunctionPlan& f, std::string why) {
  f.ends_deferred = false;
  nodes_[f.function].obstacle = std::move(why);
}

std::string TailCalls::obstacle(const Way& way) const {
  if (!way.target.obstacle.empty()) return way.target.obstacle;
  if (only_ && !only_->contains(way.target.object)) return "";  // objection() has asked
  auto node = nodes_.find(way.target.function);
  if (node == nodes_.end()) return way.target.function->name + ": it is a part of another function";
  return node->second.obstacle.empty() ? "" : way.target.function->name + ": " + node->second.obstacle;
}

void TailCalls::find_obstacles(const Coverage& coverage) {
  std::map<const image::Function*, const FunctionPlan*> plans;
  for (const FunctionPlan& f : coverage.functions) plans[f.function] = &f;
  for (auto& [function, node] : nodes_) {
    auto f = plans.find(function);
    if (!node.obstacle.empty()) continue;
    if (f == plans.end())
      node.obstacle = "it is a part of another function";
    else if (f->second->ends_deferred)
      node.obstacle = missing_returns(*f->second);
  }
}

// A function that ends with a jump that is not waited for cannot be waited for.
void TailCalls::spread_obstacles() {
  std::multimap<const image::Function*, Node*> before;  // who jumps there
  std::vector<const image::Function*> work;
  for (auto& [function, node] : nodes_) {
    for (const Way& way : node.ways) {
      if (node.obstacle.empty()) node.obstacle = way.target.obstacle;
      if (way.target.function) before.emplace(way.target.function, &node);
    }
    if (!node.obstacle.empty()) work.push_back(function);
  }
  std::map<const Node*, const image::Function*> functions;
  for (const auto& [function, node] : nodes_) functions[&node] = function;
  while (!work.empty()) {
    const image::Function* function = work.back();
    work.pop_back();
    auto [it, end] = before.equal_range(function);
    for (; it != end; ++it) {
      if (!it->second->obstacle.empty()) continue;
      it->second->obstacle = function->name + ": " + nodes_.at(function).obstacle;
      work.push_back(functions.at(it->second));
    }
  }
}

void TailCalls::set_deferrals(FunctionPlan& f) const {
  auto node = nodes_.find(f.function);
  if (node == nodes_.end()) return;
  for (const Way& way : node->second.ways) {
    if (!obstacle(way).empty()) continue;
    f.tail_targets.push_back(way.target.function);
    f.deferrals[way.exit] = {way.target.slot, way.target.value, way.target.unbound};
  }
}

std::set<const image::Function*> TailCalls::needed(const Coverage& coverage) const {
  std::set<const image::Function*> out;
  std::vector<const image::Function*> work;
  for (const FunctionPlan& f : coverage.functions)
    if (!f.deferrals.empty()) work.insert(work.end(), f.tail_targets.begin(), f.tail_targets.end());
  while (!work.empty()) {
    const image::Function* function = work.back();
    work.pop_back();
    auto node = nodes_.find(function);
    if (!out.insert(function).second || node == nodes_.end()) continue;
    for (const Way& way : node->second.ways) work.push_back(way.target.function);
  }
  return out;
}

std::string TailCalls::obstacle_at(const FunctionPlan& f, uint64_t exit) const {
  if (auto node = nodes_.find(f.function); node != nodes_.end())
    for (const Way& way : node->second.ways)
      if (way.exit == exit) return obstacle(way);
  return scope_.may_wait ? "" : "no room was made for it at the attach";
}

void TailCalls::record_early_ends(Coverage& coverage, const FunctionPlan& f) const {
  for (const Window& window : f.sites.windows)
    for (const Site& site : window.sites) {
      if (!is_tail_jump(site)) continue;
      const FunctionPlan::Point& point = f.points[site.point];
      const auto endings = endings_.of(f, point);
      std::string reason;
      for (size_t i = 0; i < endings.size(); i++) {
        if (!endings[i] || (endings[i]->can_wait && f.deferrals.contains(site.address))) continue;
        for (uint32_t request : point.snippets[i].requests) coverage.early_of[request]++;
        if (reason.empty()) reason = obstacle_at(f, site.address);
        if (reason.empty()) reason = "the code there does more than lower one value";
      }
      if (!reason.empty()) coverage.early.push_back({f.object, f.function, site, reason});
    }
}

void TailCalls::decide(Coverage& coverage) {
  find_obstacles(coverage);
  spread_obstacles();
  for (FunctionPlan& f : coverage.functions)
    if (has_endings(f)) set_deferrals(f);
  const std::set<const image::Function*> used = needed(coverage);
  for (FunctionPlan& f : coverage.functions) {
    record_early_ends(coverage, f);
    if (!f.ends_deferred) continue;
    f.ends_deferred = used.contains(f.function);
    if (f.ends_deferred && f.tail_targets.empty())
      for (const Way& way : nodes_.at(f.function).ways) f.tail_targets.push_back(way.target.function);
    if (f.ends_deferred || f.hook != arch::Hook::none) continue;
    drop_windows(f.sites.windows, [&](const Window& window) { return f.sites_of(window) == 0; });
  }
}

}  // namespace mdl::patch
