// Requests to bindings.
//
// Each request is evaluated by itself (constraints in the metric's order, then the base) and
// then laid onto the points: append after what is there, prepend before it. Constraint code
// is shared: a constraint at a resource has one flag, and its code stands once at a
// point however many requests select it. That keeps every request's own order, because a
// request's base always comes after its constraints' code.
//
// A request whose metric was not named is left out when the process has none of the
// procedures that it looks for; one that was named is then an error.
//
// Manifest::statements are not laid: code that belongs to no metric has no cell to change,
// so it does nothing that could be seen.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "runtime/focus/evaluate.h"
#include "runtime/focus/nearest.h"
#include "runtime/focus/request.h"
#include "runtime/focus/resource.h"
#include "runtime/focus/vector.h"
#include "runtime/image/symbols.h"

namespace mdl::focus {
namespace {

constexpr size_t kMostRequests = 16384;  // besides the children of vectors
constexpr size_t kMostSnippets = 2'000'000;
constexpr size_t kNoInstance = SIZE_MAX;  // of a snippet that is a base's

// A constraint at a resource: its flag, and where its code went.
struct Instance {
  std::vector<CellId> cells;     // the flag first
  std::vector<size_t> points;    // indices into Binding::points, with repetitions
  std::vector<size_t> balances;  // indices into Binding::balances
  std::vector<std::string> missing;
};

struct DraftSnippet {
  BoundSnippet snippet;
  size_t instance = kNoInstance;
};

// A constraint that a request selects, and the resource it selects it for.
struct Selection {
  size_t order = 0;  // in the metric
  const format::Constraint* constraint = nullptr;
  const Resource* resource = nullptr;
};

struct Wanted {
  const format::Metric* metric = nullptr;
  Focus focus;
  bool named = false;  // the user asked for this metric by name
};

bool covers(const std::vector<std::string>& path, const std::vector<std::string>& resource, bool prefix) {
  if (prefix ? path.size() > resource.size() : path.size() != resource.size()) return false;
  for (size_t i = 0; i < path.size(); ++i)
    if (path[i] != "*" && path[i] != resource[i]) return false;
  return true;
}

bool has_constrained_code(const std::vector<format::Placement>& statements) {
  return std::any_of(statements.begin(), statements.end(), [](const format::Placement& statement) {
    return statement.kind == format::PlacementKind::insert ? statement.constrained
                                                           : has_constrained_code(statement.body);
  });
}

struct PointKey {
  const image::Function* function;
  format::PointKind kind;
  uint64_t place;
  bool operator==(const PointKey&) const = default;
};
struct PointHash {
  size_t operator()(const PointKey& key) const {
    return std::hash<const void*>()(key.function) * 31 + key.place * 16 + static_cast<size_t>(key.kind);
  }
};

// How the 8 aligned bytes that a variable lies in are shifted so that it is left, with its sign.
Result<plan::SymbolValue> value_of(const image::Image& image, const format::SymbolUse& symbol) {
  if (symbol.kind == format::SymbolKind::function) {
    auto address = image::find_callee(image, symbol.name);
    if (!address) return address.error();
    return plan::SymbolValue{*address};
  }
  auto variable = image::find_variable(image, symbol.name);
  if (!variable) return variable.error();
  const uint64_t behind = variable->address % 8 + variable->size;
  return plan::SymbolValue{variable->address & ~uint64_t{7}, static_cast<uint8_t>(64 - 8 * behind),
                           static_cast<uint8_t>(64 - 8 * variable->size)};
}

class Binder {
 public:
  Binder(const plan::Plan& plan, const Names& names, const BindOptions& options, image::Codes* codes)
      : plan_(plan),
        names_(names),
        codes_(codes),
        starts_(options.starts),
        flavor_(options.flavor.empty() ? "unix" : options.flavor),
        allow_calls_(options.allow_calls) {
    for (const format::Constraint& constraint : plan.manifest.constraints)
      by_name_[constraint.name] = &constraint;
  }

  Result<Binding> run(const std::vector<Wanted>& wanted);

 private:
  using Cells = std::vector<std::pair<std::string_view, CellId>>;  // by the names that stencils use

  Result<void> bind(const Wanted& wanted, const ResolvedFocus& focus, size_t foci);
  Result<void> bind_keys(const Wanted& wanted, const ResolvedFocus& focus);
  Result<void> lay_keys(const Selection& selection, uint32_t request, CellId base);
  Result<bool> bind_vector(const Wanted& wanted, const std::vector<ResolvedFocus>& foci);
  Result<void> bind_children(const format::Metric& metric, const format::Constraint& constraint, size_t order,
                             const std::vector<ResolvedFocus>& foci, uint32_t vector);
  void track(const Instance& instance, size_t index, const Track& track);
  Error too_much() const;
  Result<void> use_symbols(const std::vector<Insertion>& code, const std::string& owner);
  void share_code(uint32_t first, uint32_t request);
  Result<void> leave_out(const Wanted& wanted, const Error& why);
  Error nothing(const format::Metric& metric, const std::vector<std::string>& missing) const;
  Result<std::vector<Selection>> select(const format::Metric& metric, const ResolvedFocus& focus,
                                        Selection& replacement) const;
  Result<std::vector<CellId>> constrain(const std::vector<Selection>& selections, BoundRequest& bound,
                                        uint32_t request);
  Result<size_t> instance(const Selection& selection, const std::vector<CellId>& guards, uint32_t request);
  bool writes(const std::vector<Insertion>& code, std::string_view cell) const;
  Result<void> lay(const std::vector<Insertion>& code, const Cells& cells, const std::vector<CellId>& guards,
                   size_t instance, uint32_t request);
  void share(Instance& instance, size_t index, uint32_t request);
  std::vector<size_t> balance(const std::vector<Insertion>& code, const format::Cell& cell, CellId id,
                              uint32_t request);
  size_t point(const Insertion& insertion);
  CellId cell(const format::Cell& cell, std::string label) {
    binding_.cells.push_back(
        {cell.kind, std::move(label), format::event(cell.event).value_or(format::Event::minor_faults)});
    return static_cast<CellId>(binding_.cells.size() - 1);
  }

  const plan::Plan& plan_;
  const Names& names_;
  image::Codes* codes_;
  std::span<const uint64_t> starts_;
  std::string flavor_;
  std::unordered_map<std::string_view, const format::Constraint*> by_name_;
  std::map<std::string, size_t> instance_of_;  // by constraint, resource and guards
  std::vector<Instance> instances_;
  size_t snippets_ = 0;
  size_t children_ = 0;
  std::vector<std::vector<DraftSnippet>> drafts_;  // as Binding::points
  std::unordered_map<PointKey, size_t, PointHash> points_;
  std::unordered_set<std::string> bound_;  // metric and focus
  std::unordered_map<std::string, uint32_t>
      laid_;  // metric and focus without a thread: the first such request
  bool allow_calls_;
  std::optional<Error> skipped_;  // why the last metric that was not named was left out
  Binding binding_;
};

size_t Binder::point(const Insertion& insertion) {
  const auto [slot, fresh] =
      points_.try_emplace({insertion.at.function, insertion.kind, insertion.place}, binding_.points.size());
  if (fresh) {
    binding_.points.push_back(
        {insertion.at.object, insertion.at.function, insertion.kind, insertion.place, {}});
    drafts_.emplace_back();
  }
  return slot->second;
}

bool Binder::writes(const std::vector<Insertion>& code, std::string_view cell) const {
  return std::any_of(code.begin(), code.end(), [&](const Insertion& insertion) {
    const auto& uses = plan_.stencils[insertion.stencil].info.cells;
    return std::any_of(uses.begin(), uses.end(),
                       [&](const format::CellUse& use) { return use.writes && use.name == cell; });
  });
}

Error Binder::too_much() const {
  return {
      fmt::format("these requests need more than {} pieces of code in the process; ask for fewer metrics or "
                  "narrower foci",
                  kMostSnippets)};
}

Result<void> Binder::lay(const std::vector<Insertion>& code, const Cells& cells,
                         const std::vector<CellId>& guards, size_t instance, uint32_t request) {
  snippets_ += code.size();
  if (snippets_ > kMostSnippets) return too_much();
  for (const Insertion& insertion : code) {
    const format::StencilInfo& info = plan_.stencils[insertion.stencil].info;
    DraftSnippet draft;
    draft.instance = instance;
    draft.snippet.stencil = insertion.stencil;
    for (const format::CellUse& use : info.cells) {
      const auto known =
          std::find_if(cells.begin(), cells.end(), [&](const auto& c) { return c.first == use.name; });
      if (known == cells.end())
        return Error{
            fmt::format("stencil `{}` uses `{}`, which its owner does not have", info.name, use.name),
            Status::plan_rejected};
      draft.snippet.cells.push_back(known->second);
    }
    if (insertion.constrained) draft.snippet.guards = guards;
    draft.snippet.constants = insertion.constants;
    draft.snippet.requests = {request};
    const size_t at = point(insertion);
    if (instance != kNoInstance) instances_[instance].points.push_back(at);
    std::vector<DraftSnippet>& there = drafts_[at];
    there.insert(insertion.order == format::Order::append ? there.end() : there.begin(), std::move(draft));
  }
  return {};
}

// A further request selects code that stands already.
void Binder::share(Instance& instance, size_t index, uint32_t request) {
  for (const size_t at : instance.points)
    for (DraftSnippet& draft : drafts_[at])
      if (draft.instance == index && draft.snippet.requests.back() != request)
        draft.snippet.requests.push_back(request);
  for (const size_t at : instance.balances) binding_.balances[at].requests.push_back(request);
}

// Functions that raise a flag, or start a timer, at their entry and lower or stop it at their return, or
// before and after their calls. Returns the indices of what it adds to Binding::balances.
std::vector<size_t> Binder::balance(const std::vector<Insertion>& code, const format::Cell& cell, CellId id,
                                    uint32_t request) {
  struct Sides {
    bool entry = false, exit = false, before = false, after = false;
  };
  std::unordered_map<const image::Function*, Sides> sides;
  std::vector<const image::Function*> order;
  for (const Insertion& insertion : code) {
    const bool raises =
        insertion.kind == format::PointKind::entry || insertion.kind == format::PointKind::call_before;
    const auto& uses = plan_.stencils[insertion.stencil].info.cells;
    if (std::none_of(uses.begin(), uses.end(), [&](const format::CellUse& use) {
          return use.writes && use.name == cell.name &&
                 (!format::is_timer(cell.kind) || use.starts == raises);
        }))
      continue;
    const auto [slot, fresh] = sides.try_emplace(insertion.at.function);
    if (fresh) order.push_back(insertion.at.function);
    slot->second.entry |= insertion.kind == format::PointKind::entry;
    slot->second.exit |= insertion.kind == format::PointKind::return_;
    slot->second.before |= insertion.kind == format::PointKind::call_before;
    slot->second.after |= insertion.kind == format::PointKind::call_after;
  }
  std::vector<size_t> made;
  auto add = [&](const image::Function* function, bool of_calls) {
    made.push_back(binding_.balances.size());
    binding_.balances.push_back({function, id, of_calls, {request}});
  };
  for (const image::Function* function : order) {
    const Sides& has = sides[function];
    if (has.entry && has.exit) add(function, false);
    if (has.before && has.after) add(function, true);
  }
  return made;
}

// The constraint of each resource of the focus: the first of the metric that fits, after
// the in-line ones, which replace the base.
Result<std::vector<Selection>> Binder::select(const format::Metric& metric, const ResolvedFocus& focus,
                                              Selection& replacement) const {
  std::vector<Selection> selections;
  for (const Resource& resource : focus.resources) {
    bool found = false;
    for (const format::Constraint& inline_constraint : metric.replacements) {
      if (found || !covers(inline_constraint.path, resource.path, inline_constraint.is_default)) continue;
      if (replacement.constraint)
        return Error{fmt::format("metric `{}` has two replacements that {} selects; ask for one resource",
                                 metric.id, focus.text)};
      replacement = {0, &inline_constraint, &resource};
      found = true;
    }
    for (size_t i = 0; i < metric.constraints.size() && !found; ++i) {
      const auto constraint = by_name_.find(metric.constraints[i]);
      if (constraint == by_name_.end()) continue;
      if (!covers(constraint->second->path, resource.path, constraint->second->is_default)) continue;
      found = true;
      if (!constraint->second->is_default) selections.push_back({i, constraint->second, &resource});
    }
    if (found) continue;
    std::string path = "/" + resource.path[0];
    for (size_t i = 1; i < resource.path.size(); ++i)
      path += resource.path[0] == "SyncObject" && i == 1 ? "/" + resource.path[i] : "/*";
    return Error{
        fmt::format("metric `{}` cannot be restricted to {}: it has no constraint for {}; add one to its "
                    "definition (`constraint NAME;`, where NAME is a `constraint NAME {} is counter "
                    "{{...}}`)",
                    metric.id, resource.text, path, path)};
  }
  std::stable_sort(selections.begin(), selections.end(),
                   [](const Selection& a, const Selection& b) { return a.order < b.order; });
  return selections;
}

// The instance of a selection, laid now unless an earlier request has. `constrained` in a
// constraint's own code means the constraints before it; only then do they tell instances apart.
Result<size_t> Binder::instance(const Selection& selection, const std::vector<CellId>& guards,
                                uint32_t request) {
  const format::Constraint& constraint = *selection.constraint;
  std::string key = fmt::format("{}@{}", constraint.name, selection.resource->identity());
  if (has_constrained_code(constraint.placement)) key += fmt::format("|{}", fmt::join(guards, ","));
  if (const auto known = instance_of_.find(key); known != instance_of_.end()) {
    share(instances_[known->second], known->second, request);
    return known->second;
  }
  if (constraint.cells.empty())
    return Error{fmt::format("constraint `{}` has no flag", constraint.name), Status::plan_rejected};
  const Scope scope{
      plan_,  names_, flavor_, selection.resource, fmt::format("constraint `{}`", constraint.name),
      codes_, starts_};
  auto code = evaluate(scope, constraint.placement);
  if (!code) return code.error();
  if (auto known = use_symbols(code->insertions, scope.owner); !known) return known.error();

  const size_t index = instances_.size();
  instance_of_.emplace(std::move(key), index);
  Instance& made = instances_.emplace_back();
  Cells cells;
  for (const format::Cell& c : constraint.cells) {
    made.cells.push_back(cell(c, fmt::format("{}@{}", c.name, selection.resource->text)));
    cells.emplace_back(c.name, made.cells.back());
  }
  made.missing = std::move(code->missing);
  if (auto laid = lay(code->insertions, cells, guards, index, request); !laid) return laid.error();
  for (size_t i = 0; i < constraint.cells.size(); ++i)
    if (i == 0 || format::is_timer(constraint.cells[i].kind))
      for (const size_t at : balance(code->insertions, constraint.cells[i], made.cells[i], request))
        made.balances.push_back(at);
  return index;
}

// Lays the selected constraints; their flags guard the base.
Result<std::vector<CellId>> Binder::constrain(const std::vector<Selection>& selections, BoundRequest& bound,
                                              uint32_t request) {
  std::vector<CellId> guards;
  for (const Selection& selection : selections) {
    auto index = instance(selection, guards, request);
    if (!index) return index.error();
    const Instance& selected = instances_[*index];
    guards.push_back(selected.cells[0]);
    bound.missing.insert(bound.missing.end(), selected.missing.begin(), selected.missing.end());
  }
  return guards;
}

Error Binder::nothing(const format::Metric& metric, const std::vector<std::string>& missing) const {
  const std::string start =
      fmt::format("metric `{}` has nothing to count in process {}", metric.id, names_.image().pid);
  if (missing.empty()) return {start + ": no function is left to instrument"};
  std::vector<std::string> known;
  for (const image::Object& object : names_.image().objects)
    for (const image::Function& function : object.functions) known.push_back(function.name);
  return {fmt::format("{}: it looks for {}, which the process does not have{}", start,
                      fmt::join(missing, ", "), did_you_mean(missing[0], known))};
}

// What the code refers to in the application, looked up once for each stencil.
Result<void> Binder::use_symbols(const std::vector<Insertion>& code, const std::string& owner) {
  for (const Insertion& insertion : code) {
    const format::StencilInfo& info = plan_.stencils[insertion.stencil].info;
    if (!allow_calls_ &&
        std::find(info.routines.begin(), info.routines.end(), format::Routine::call) != info.routines.end())
      return Error{
          fmt::format("{} calls functions of the application, which may change what it does: allow that with "
                      "--allow-calls",
                      owner)};
    if (info.symbols.empty() || binding_.symbols.contains(insertion.stencil)) continue;
    std::vector<plan::SymbolValue> values;
    for (const format::SymbolUse& symbol : info.symbols) {
      auto value = value_of(names_.image(), symbol);
      if (!value) return Error{fmt::format("{}: {}", owner, value.error().text)};
      values.push_back(*value);
    }
    binding_.symbols.emplace(insertion.stencil, std::move(values));
  }
  return {};
}

// A request for other threads' values of the same code.
void Binder::share_code(uint32_t first, uint32_t request) {
  const auto join = [&](std::vector<uint32_t>& requests) {
    if (std::find(requests.begin(), requests.end(), first) != requests.end()) requests.push_back(request);
  };
  for (auto& drafts : drafts_)
    for (DraftSnippet& draft : drafts) join(draft.snippet.requests);
  for (Balance& balance : binding_.balances) join(balance.requests);
}

Result<void> Binder::leave_out(const Wanted& wanted, const Error& why) {
  if (wanted.named) return why;
  if (!skipped_) skipped_ = why;
  return {};
}

// One request of the `foci` that a pattern stands for.
Result<void> Binder::bind(const Wanted& wanted, const ResolvedFocus& focus, size_t foci) {
  const format::Metric& metric = *wanted.metric;
  if (!bound_.insert(metric.id + "@" + focus.text).second) return {};
  if (binding_.requests.size() - children_ >= kMostRequests)
    return Error{fmt::format("these are more than {} requests; ask for fewer metrics or narrower foci",
                             kMostRequests)};
  if (metric.cells.empty())
    return Error{fmt::format("metric `{}` has no value", metric.id), Status::plan_rejected};
  const auto same = laid_.find(metric.id + "@" + focus.code_text);
  if (same != laid_.end()) {
    const auto request = static_cast<uint32_t>(binding_.requests.size());
    BoundRequest bound = binding_.requests[same->second];
    bound.focus = focus.text, bound.thread = focus.thread;
    binding_.requests.push_back(std::move(bound));
    share_code(same->second, request);
    return {};
  }
  Selection replacement;
  auto selections = select(metric, focus, replacement);
  if (!selections) return leave_out(wanted, selections.error());
  const bool replaced = replacement.constraint != nullptr;
  const Scope scope{plan_,  names_, flavor_, replacement.resource, fmt::format("metric `{}`", metric.id),
                    codes_, starts_};
  auto base = evaluate(scope, replaced ? replacement.constraint->placement : metric.placement);
  if (!base) return base.error();
  if (base->insertions.empty()) return leave_out(wanted, nothing(metric, base->missing));
  if (base->insertions.size() > kMostSnippets / foci) return too_much();
  if (auto known = use_symbols(base->insertions, fmt::format("metric `{}`", metric.id)); !known)
    return leave_out(wanted, known.error());

  const auto request = static_cast<uint32_t>(binding_.requests.size());
  BoundRequest bound{metric.id, focus.text, &metric, 0, std::move(base->missing)};
  auto guards = constrain(*selections, bound, request);
  if (!guards) return guards.error();
  Cells cells;
  const std::string suffix = focus.text.empty() ? "" : "@" + focus.text;
  for (const format::Cell& c : metric.cells) cells.emplace_back(c.name, cell(c, c.name + suffix));
  if (replaced)
    for (const format::Cell& c : replacement.constraint->cells)
      cells.emplace_back(c.name, cell(c, c.name + suffix));
  // Code that replaces the base counts in its own cell, unless it names the metric's.
  bound.value = cells[0].second;
  if (replaced && !writes(base->insertions, cells[0].first)) {
    if (cells.size() == metric.cells.size())
      return Error{fmt::format("a replacement in metric `{}` has no value", metric.id),
                   Status::plan_rejected};
    bound.value = cells[metric.cells.size()].second;
  }
  bound.thread = focus.thread;
  binding_.requests.push_back(std::move(bound));
  laid_.emplace(metric.id + "@" + focus.code_text, request);
  size_t index = 0;
  for (const auto* owner : {&metric.cells, replaced ? &replacement.constraint->cells : nullptr})
    for (size_t i = 0; owner && i < owner->size(); ++i, ++index)
      if (format::is_timer((*owner)[i].kind))
        balance(base->insertions, (*owner)[i], cells[index].second, request);
  return lay(base->insertions, cells, *guards, kNoInstance, request);
}

// Code that writes the flag of an instance is followed by what tracks it.
void Binder::track(const Instance& instance, size_t index, const Track& track) {
  binding_.tracks.push_back(track);
  size_t done = SIZE_MAX;
  for (const size_t at : instance.points) {
    if (at == done) continue;  // several pieces at one point stand in a row in `points`
    done = at;
    for (DraftSnippet& draft : drafts_[at]) {
      if (draft.instance != index) continue;
      const auto& uses = plan_.stencils[draft.snippet.stencil].info.cells;
      for (size_t i = 0; i < uses.size(); ++i)
        if (uses[i].writes && draft.snippet.cells[i] == track.flag) {
          auto& tracks = draft.snippet.tracks;
          if (tracks.empty() || tracks.back().span != track.span) tracks.push_back(track);
        }
    }
  }
}

// The children of a vector: a flag each, as alone, and a span instead of a value.
Result<void> Binder::bind_children(const format::Metric& metric, const format::Constraint& constraint,
                                   size_t order, const std::vector<ResolvedFocus>& foci, uint32_t vector) {
  for (const ResolvedFocus& focus : foci) {
    if (!bound_.insert(metric.id + "@" + focus.text).second) continue;
    const auto request = static_cast<uint32_t>(binding_.requests.size());
    auto index = instance({order, &constraint, varying(focus)}, {}, request);
    if (!index) return index.error();
    const CellId span = cell({"", format::CellKind::span_}, metric.id + "@" + focus.text);
    BoundRequest child{metric.id, focus.text, &metric, span, instances_[*index].missing};
    child.of = vector;
    binding_.requests.push_back(std::move(child));
    binding_.requests[vector].children++;
    children_++;
    track(instances_[*index], *index, {instances_[*index].cells[0], span, binding_.requests[vector].value});
  }
  return {};
}

// All foci of a pattern by one base (vector.h). False when they must be bound one by one.
Result<bool> Binder::bind_vector(const Wanted& wanted, const std::vector<ResolvedFocus>& foci) {
  const format::Metric& metric = *wanted.metric;
  if (!metric.additive || !may_vary_together(foci) || foci[0].thread != kAllThreads) return false;
  Selection replacement;
  auto selections = select(metric, foci[0], replacement);
  if (!selections || replacement.constraint) return false;
  for (const Selection& selection : *selections)
    if (has_constrained_code(selection.constraint->placement)) return false;
  for (const ResolvedFocus& focus : foci) {
    auto same = select(metric, focus, replacement);
    if (!same || replacement.constraint ||
        !std::equal(same->begin(), same->end(), selections->begin(), selections->end(),
                    [](const Selection& a, const Selection& b) { return a.constraint == b.constraint; }))
      return false;
  }
  const Scope scope{plan_, names_, flavor_, nullptr, fmt::format("metric `{}`", metric.id), codes_, starts_};
  auto base = evaluate(scope, metric.placement);
  if (!base || base->insertions.empty()) return false;

  const auto request = static_cast<uint32_t>(binding_.requests.size());
  const CellId value = cell(metric.cells[0], metric.cells[0].name + "@" + wanted.focus.text);
  binding_.requests.push_back({metric.id, wanted.focus.text, &metric, value, std::move(base->missing)});
  std::vector<CellId> guards;
  for (const Selection& selection : *selections) {
    if (selection.resource == varying(foci[0])) {
      auto laid = bind_children(metric, *selection.constraint, selection.order, foci, request);
      if (!laid) return laid.error();
    } else {
      auto guard = constrain({selection}, binding_.requests[request], request);
      if (!guard) return guard.error();
      guards.push_back(guard->front());
    }
  }
  if (binding_.requests[request].children == 0)
    binding_.requests.pop_back();
  else if (auto laid = lay(base->insertions, {{metric.cells[0].name, value}}, guards, kNoInstance, request);
           !laid)
    return laid.error();
  return true;
}

// The keyed form of the constraint, whose code writes no flag but what to do to which key.
Result<void> Binder::lay_keys(const Selection& selection, uint32_t request, CellId base) {
  const format::Constraint& constraint = *selection.constraint;
  const Scope scope{
      plan_, names_, flavor_, selection.resource, fmt::format("constraint `{}`", constraint.name), codes_};
  auto code = evaluate(scope, constraint.key_placement);
  if (!code) return code.error();
  const size_t index = instances_.size();
  Instance& made = instances_.emplace_back();
  const std::string suffix = "@" + selection.resource->text;
  const auto& names = constraint.key_cells;
  const CellId change = cell(names[1], names[1].name + suffix);  // what balances look at comes first
  const CellId key = cell(names[0], names[0].name + suffix);
  made.cells = {change, key, cell({constraint.name, format::CellKind::keys}, constraint.name + suffix)};
  const KeyTable table{request, key, change, made.cells[2], base};
  if (auto laid = lay(code->insertions, {{names[0].name, key}, {names[1].name, change}}, {}, index, request);
      !laid)
    return laid.error();
  made.balances = balance(code->insertions, names[1], change, request);
  for (const size_t at : made.points)
    for (DraftSnippet& draft : drafts_[at])
      if (draft.instance == index) draft.snippet.keys = static_cast<uint32_t>(binding_.key_tables.size());
  binding_.key_tables.push_back(table);
  auto& missing = binding_.requests[request].missing;
  missing.insert(missing.end(), code->missing.begin(), code->missing.end());
  return {};
}

// All resources of a hierarchy, known only once they are seen.
Result<void> Binder::bind_keys(const Wanted& wanted, const ResolvedFocus& focus) {
  const format::Metric& metric = *wanted.metric;
  if (!bound_.insert(metric.id + "@" + focus.text).second) return {};
  Selection replacement;
  auto selections = select(metric, focus, replacement);
  if (!selections) return leave_out(wanted, selections.error());
  std::string why;
  size_t keyed = 0;
  for (const Selection& selection : *selections) {
    if (!selection.resource->every) continue;
    keyed++;
    const format::Constraint& c = *selection.constraint;
    if (c.key_placement.empty())
      why =
          fmt::format("constraint `{}` is not vectorized: {}", c.name,
                      c.not_keyed.empty() ? "mdlc was told not to (--disable-pass=vectorize)" : c.not_keyed);
  }
  if (!metric.additive) why = "its base does more than add, constrained, to its value";
  if (metric.aggregate != format::Aggregate::sum) why = "only sums over threads can be kept by key";
  if (focus.thread != kAllThreads) why = "keys are counted over all threads";
  if (keyed != 1 || replacement.constraint)
    why = "one resource of it may be `*`, and nothing may replace its base";
  if (!why.empty())
    return leave_out(wanted, {fmt::format("metric `{}` cannot be asked for at {}: {}; name one resource",
                                          metric.id, focus.text, why)});
  const Scope scope{plan_, names_, flavor_, nullptr, fmt::format("metric `{}`", metric.id), codes_};
  auto base = evaluate(scope, metric.placement);
  if (!base) return base.error();
  if (base->insertions.empty()) return leave_out(wanted, nothing(metric, base->missing));

  const auto request = static_cast<uint32_t>(binding_.requests.size());
  const CellId value = cell(metric.cells[0], metric.cells[0].name + "@" + focus.text);
  BoundRequest bound{metric.id, focus.text, &metric, value, std::move(base->missing)};
  bound.keyed = true;
  binding_.requests.push_back(std::move(bound));
  std::vector<CellId> guards;
  for (const Selection& selection : *selections) {
    if (selection.resource->every) {
      if (auto laid = lay_keys(selection, request, value); !laid) return laid;
    } else {
      auto guard = constrain({selection}, binding_.requests[request], request);
      if (!guard) return guard.error();
      guards.push_back(guard->front());
    }
  }
  return lay(base->insertions, {{metric.cells[0].name, value}}, guards, kNoInstance, request);
}

Result<Binding> Binder::run(const std::vector<Wanted>& wanted) {
  for (const Wanted& one : wanted) {
    auto foci = resolve(one.focus, names_);
    if (!foci) return foci.error();
    auto vector = bind_vector(one, *foci);
    if (!vector) return vector.error();
    if (*vector) continue;
    const auto has_every = [](const ResolvedFocus& focus) {
      return std::any_of(focus.resources.begin(), focus.resources.end(),
                         [](const Resource& r) { return r.every; });
    };
    if (has_every(foci->front())) {
      for (const ResolvedFocus& focus : *foci)
        if (auto bound = bind_keys(one, focus); !bound) return bound.error();
      continue;
    }
    for (const ResolvedFocus& focus : *foci)
      if (auto bound = bind(one, focus, foci->size()); !bound) return bound.error();
  }
  if (binding_.requests.empty()) {
    if (skipped_) return *skipped_;
    return Error{fmt::format("the plan has no metric of flavor `{}`", flavor_)};
  }
  for (size_t i = 0; i < drafts_.size(); ++i)
    for (DraftSnippet& draft : drafts_[i]) binding_.points[i].snippets.push_back(std::move(draft.snippet));
  return std::move(binding_);
}

bool has_flavor(const format::Metric& metric, const std::string& flavor) {
  return metric.flavors.empty() ||
         std::find(metric.flavors.begin(), metric.flavors.end(), flavor) != metric.flavors.end();
}

// The metrics and foci that the options name, in their order.
Result<std::vector<Wanted>> read_options(const plan::Plan& plan, const BindOptions& options) {
  const std::string flavor = options.flavor.empty() ? "unix" : options.flavor;
  std::vector<Focus> foci;
  for (const std::string& text : options.foci) {
    auto focus = parse_focus(text);
    if (!focus) return focus.error();
    foci.push_back(std::move(*focus));
  }
  if (foci.empty()) foci.emplace_back();
  std::vector<Wanted> wanted;
  for (const std::string& text : options.metrics) {
    const RequestText request = split_request(text);
    const auto& metrics = plan.manifest.metrics;
    const auto metric =
        std::find_if(metrics.begin(), metrics.end(), [&](const auto& m) { return m.id == request.metric; });
    if (metric == metrics.end()) {
      std::vector<std::string> known;
      for (const format::Metric& m : metrics) known.push_back(m.id);
      return Error{fmt::format("the plan has no metric `{}`{}", request.metric,
                               known.empty() ? std::string("; it has none")
                               : nearest(request.metric, known).empty()
                                   ? fmt::format("; it has {}", fmt::join(known, ", "))
                                   : did_you_mean(request.metric, known))};
    }
    if (!has_flavor(*metric, flavor))
      return Error{fmt::format("metric `{}` is of flavor {}, not `{}`; select one with --flavor", metric->id,
                               fmt::join(metric->flavors, ", "), flavor)};
    if (text.find('@') == std::string::npos) {
      for (const Focus& focus : foci) wanted.push_back({&*metric, focus, true});
      continue;
    }
    auto focus = parse_focus(request.focus);
    if (!focus) return focus.error();
    wanted.push_back({&*metric, std::move(*focus), true});
  }
  if (options.metrics.empty())
    for (const format::Metric& metric : plan.manifest.metrics)
      if (has_flavor(metric, flavor))
        for (const Focus& focus : foci) wanted.push_back({&metric, focus, false});
  return wanted;
}

bool names_start(const format::Expr& expr) {
  return expr.kind == format::ExprKind::start ||
         std::any_of(expr.operands.begin(), expr.operands.end(),
                     [](const format::Expr& operand) { return names_start(operand); });
}

bool names_start(const std::vector<format::Placement>& statements) {
  return std::any_of(statements.begin(), statements.end(), [](const format::Placement& statement) {
    return names_start(statement.expr) || names_start(statement.body);
  });
}

}  // namespace

bool uses_start(const format::Manifest& manifest) {
  const auto constraint = [](const format::Constraint& c) { return names_start(c.placement); };
  return std::any_of(manifest.constraints.begin(), manifest.constraints.end(), constraint) ||
         std::any_of(manifest.metrics.begin(), manifest.metrics.end(), [&](const format::Metric& metric) {
           return names_start(metric.placement) ||
                  std::any_of(metric.replacements.begin(), metric.replacements.end(), constraint);
         });
}

Result<Binding> bind(const plan::Plan& plan, const image::Image& image, const BindOptions& options,
                     image::Codes* codes) {
  auto wanted = read_options(plan, options);
  if (!wanted) return wanted.error();
  auto exclusions = Exclusions::make(plan.manifest.excludes);
  if (!exclusions) return exclusions.error();
  const Names names(image, std::move(*exclusions));
  return Binder(plan, names, options, codes).run(*wanted);
}

}  // namespace mdl::focus
