#include "runtime/patch/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/in_parallel.h"
#include "format/heap.h"
#include "runtime/arch/code_search.h"
#include "runtime/arch/description.h"
#include "runtime/focus/exclusion.h"
#include "runtime/image/incoming_jumps.h"
#include "runtime/image/unread_results.h"
#include "runtime/patch/find_in_code.h"
#include "runtime/patch/hooks.h"
#include "runtime/patch/own_frame.h"
#include "runtime/patch/pointer_changes.h"
#include "runtime/patch/relay.h"
#include "runtime/patch/tail_calls.h"
#include "runtime/patch/written_code.h"

namespace mdl::patch {
namespace {

using focus::BoundPoint;
using focus::BoundSnippet;

// The functions of a binding with their points, in the binding's order.
std::vector<FunctionPlan> by_function(const focus::Binding& binding) {
  std::vector<FunctionPlan> out;
  std::map<const image::Function*, size_t> index;
  for (const BoundPoint& point : binding.points) {
    auto [it, added] = index.try_emplace(point.function, out.size());
    if (added) {
      FunctionPlan& fresh = out.emplace_back();
      fresh.object = point.object;
      fresh.function = point.function;
    }
    out[it->second].points.push_back({{point.kind, point.place}, point.snippets});
  }
  return out;
}

bool reads_result(const plan::Plan& plan, const BoundSnippet& snippet) {
  return plan.stencils[snippet.stencil].info.uses_result;
}

// Anything but its own scratch registers: what they hold is known at the entry only.
bool reads_arguments(const plan::Plan& plan, const BoundSnippet& snippet) {
  return (plan.stencils[snippet.stencil].read & ~arch::kMachine.scratch) != 0;
}

void charge(Coverage& out, const image::Function* function, const std::vector<BoundSnippet>& snippets) {
  std::set<uint32_t> requests;
  for (const BoundSnippet& snippet : snippets)
    requests.insert(snippet.requests.begin(), snippet.requests.end());
  for (uint32_t request : requests) {
    out.refused_of[request]++;
    out.functions_refused[request].insert(function);
  }
}

std::vector<uint8_t> bytes_at(const image::Memory& memory, uint64_t address) {
  std::vector<std::byte> raw(8);
  if (!memory.read(address, raw)) return {};
  std::vector<uint8_t> out;
  for (std::byte b : raw) out.push_back(static_cast<uint8_t>(b));
  return out;
}

// Cells whose value means nothing when a function changes them at some of its points only.
// Such cells that code writes.
std::set<focus::CellId> even_cells(const plan::Plan& plan, const focus::Binding& binding,
                                   const std::vector<BoundSnippet>& snippets) {
  std::set<focus::CellId> out;
  for (const BoundSnippet& snippet : snippets)
    for (focus::CellId cell : snippet.cells)
      if (format::is_even(binding.cells[cell].kind) && writes_flag(plan, snippet, cell)) out.insert(cell);
  return out;
}

// The code that does not run at a site: all of its point, or at a tail jump what reads the returned value, or at a call
// what must know where the function's frame lies.
struct Loss {
  Site site;
  std::string reason;
  std::vector<BoundSnippet> snippets;
};

std::vector<Loss> losses(const plan::Plan& plan, const FunctionPlan& f) {
  std::vector<Loss> out;
  for (const Refusal& refusal : f.sites.refusals)
    if (const auto& snippets = f.points[refusal.site.point].snippets; !snippets.empty())
      out.push_back({refusal.site, refusal.reason, snippets});
  for (const Window& window : f.sites.windows)
    for (const Site& site : window.sites) {
      const auto lose = [&](auto reads, std::string_view reason) {
        std::vector<BoundSnippet> readers = f.points[site.point].snippets;
        std::erase_if(readers, [&](const BoundSnippet& snippet) { return !reads(plan, snippet); });
        if (!readers.empty()) out.push_back({site, std::string(reason), std::move(readers)});
      };
      if (is_tail_jump(site)) lose(reads_result, kTailJump);
      if (lacks_frame(site)) lose(needs_own_frame, kNoFrame);
    }
  return out;
}

// A function that loses code which writes such a cell at one site loses it at all its points.
// Returns true when something was dropped.
bool drop_uneven(const plan::Plan& plan, const focus::Binding& binding, const std::vector<Loss>& losses,
                 FunctionPlan& function) {
  std::set<focus::CellId> lost;
  for (const Loss& loss : losses) {
    std::set<focus::CellId> cells = even_cells(plan, binding, loss.snippets);
    lost.insert(cells.begin(), cells.end());
  }
  if (lost.empty()) return false;
  size_t dropped = 0;
  for (FunctionPlan::Point& point : function.points)
    dropped += std::erase_if(point.snippets, [&](const BoundSnippet& snippet) {
      return std::any_of(lost.begin(), lost.end(),
                         [&](focus::CellId cell) { return writes_flag(plan, snippet, cell); });
    });
  return dropped > 0;
}

void plan_windows(const plan::Plan& plan, FunctionPlan& f, StubSpace& stubs) {
  for (const Window& window : f.sites.windows)
    if (window.tactic == Tactic::punned) stubs.release(window.stub);
  std::erase_if(f.points, [&](const FunctionPlan::Point& point) {
    bool ends = f.ends_deferred && point.wanted.kind == format::PointKind::return_;
    return point.snippets.empty() && !f.is_hooked(point.wanted.kind) && !ends;
  });
  std::vector<WantedSite> wanted;
  for (FunctionPlan::Point& point : f.points) {
    auto readers =
        static_cast<size_t>(std::count_if(point.snippets.begin(), point.snippets.end(),
                                          [&](const BoundSnippet& s) { return reads_result(plan, s); }));
    point.wanted.asked = !point.snippets.empty();
    point.wanted.at_tail_jumps = point.wanted.asked || f.hook == arch::Hook::vfork;
    point.wanted.result = readers > 0;
    point.wanted.repeatable =
        std::ranges::all_of(point.snippets, [&](const BoundSnippet& s) { return needs_own_frame(plan, s); });
    point.wanted.only_result = readers > 0 && readers == point.snippets.size();
    point.wanted.arguments = f.hook != arch::Hook::none ||
                             std::any_of(point.snippets.begin(), point.snippets.end(),
                                         [&](const BoundSnippet& s) { return reads_arguments(plan, s); });
    wanted.push_back(point.wanted);
  }
  f.sites = plan_sites(*f.function, *f.code, wanted, &stubs);
  find_own_frames(plan, f);
}

// Code that reads a result which the compiler may have left out is refused.
void refuse_unread_results(const plan::Plan& plan, const image::Image& image, const image::Memory& memory,
                           std::vector<FunctionPlan>& functions) {
  const auto each_reader = [&](FunctionPlan& f, auto act) {
    for (FunctionPlan::Point& point : f.points)
      if (point.wanted.kind == format::PointKind::return_)
        for (BoundSnippet& snippet : point.snippets)
          if (snippet.obstacle.empty() && reads_result(plan, snippet)) act(snippet);
  };
  std::map<const image::Object*, std::set<const image::Function*>> read;
  for (FunctionPlan& f : functions)
    each_reader(f, [&](const BoundSnippet&) { read[f.object].insert(f.function); });
  for (auto& [object, of_object] : read) of_object = with_unread_results(image, *object, of_object, memory);
  for (FunctionPlan& f : functions)
    if (const auto found = read.find(f.object); found != read.end() && found->second.contains(f.function))
      each_reader(f, [](BoundSnippet& snippet) { snippet.obstacle = kUnreadResult; });
}

// Code that binding refused at its point, by reason; it is taken away.
std::vector<Loss> take_refused(FunctionPlan& f) {
  std::vector<Loss> out;
  for (FunctionPlan::Point& point : f.points) {
    const size_t before = out.size();
    for (BoundSnippet& snippet : point.snippets) {
      if (snippet.obstacle.empty()) continue;
      auto known = std::find_if(out.begin() + static_cast<ptrdiff_t>(before), out.end(),
                                [&](const Loss& loss) { return loss.reason == snippet.obstacle; });
      if (known == out.end()) {
        Site site;
        site.address = point.wanted.place ? point.wanted.place : f.function->address;
        site.kind = point.wanted.kind;
        known = out.insert(out.end(), {site, snippet.obstacle, {}});
      }
      known->snippets.push_back(std::move(snippet));
      snippet.obstacle = known->reason;
    }
    std::erase_if(point.snippets, [](const BoundSnippet& snippet) { return !snippet.obstacle.empty(); });
  }
  return out;
}

void plan_function(const plan::Plan& plan, const focus::Binding& binding, const image::Memory& memory,
                   FunctionPlan& f, StubSpace& stubs, Coverage& out) {
  std::vector<Loss> lost = take_refused(f);
  out.sites += lost.size();
  plan_windows(plan, f, stubs);
  if (f.hook != arch::Hook::none)
    for (const Refusal& refusal : f.sites.refusals)
      if (f.is_hooked(refusal.site.kind)) out.unhooked.push_back(f.function->name + ": " + refusal.reason);
  out.sites += f.sites.wanted;
  for (Loss& loss : losses(plan, f)) lost.push_back(std::move(loss));
  for (const Loss& loss : lost) {
    out.refused.push_back(
        {f.object, f.function, loss.site, loss.reason, bytes_at(memory, loss.site.address)});
    charge(out, f.function, loss.snippets);
  }
  if (drop_uneven(plan, binding, lost, f)) plan_windows(plan, f, stubs);
}

void add_hooks(const image::Image& image, const image::Memory& memory, bool flags, bool follow,
               const std::set<const image::Object*>* only, std::vector<FunctionPlan>& functions) {
  std::map<const image::Function*, size_t> index;
  for (size_t i = 0; i < functions.size(); i++) index[functions[i].function] = i;
  const HookScope scope{.flags = flags, .follow = follow, .has_library = flags && has_named_library(image)};
  for (const image::Object& object : image.objects) {
    if (only && !only->contains(&object)) continue;
    for (const auto& [function, hook] : hooked_functions(object, memory, scope)) {
      const auto [known, added] = index.try_emplace(function, functions.size());
      if (added) {
        FunctionPlan& f = functions.emplace_back();
        f.object = &object, f.function = function;
      }
      FunctionPlan* const it = &functions[known->second];
      it->hook = hook;
      if (std::ranges::none_of(
              it->points, [&](const FunctionPlan::Point& point) { return it->is_hooked(point.wanted.kind); }))
        it->points.push_back({{arch::point_of(hook)}, {}});
    }
  }
}

// Where they are some, what leads into them is looked for at once.
void expect_jumps(const std::vector<FunctionPlan>& functions) {
  constexpr size_t kMany = 256;  // then all jumps of the object are listed
  std::map<const image::Object*, std::vector<image::Range>> ranges;
  for (const FunctionPlan& f : functions)
    ranges[f.object].push_back({f.function->address, f.function->address + f.function->size});
  for (auto& [object, all] : ranges)
    if (object->far_jumps && all.size() > 1 && all.size() < kMany) object->far_jumps->expect(std::move(all));
}

std::shared_ptr<const image::Code> code_of(const FunctionPlan& f, image::Codes& codes) {
  image::Code code = codes.take(*f.object, *f.function);
  // What is hooked does not fault: it is given what run-time systems have made themselves.
  if (f.hook != arch::Hook::none) code.catches_faults = false;
  // It is known by its code: glibc's __longjmp, whose jump leaves it.
  if (f.hook == arch::Hook::jump && f.function->unnamed) code.unresolved_jump = false;
  return std::make_shared<const image::Code>(std::move(code));
}

// Decodes all functions, on as many threads as there are processors: it is most of the work.
void read_codes(image::Codes& codes, std::vector<FunctionPlan>& functions) {
  constexpr size_t kBatch = 32;
  expect_jumps(functions);
  in_parallel(functions.size(), kBatch, [&](size_t i) { functions[i].code = code_of(functions[i], codes); });
  // What was read before the budget of its object was spent depends on the order.
  for (FunctionPlan& f : functions)
    if (f.object->budget->is_spent()) f.code = code_of(f, codes);
}

// A function without a name that the code of another one contains is a part of that one, and no function.
void drop_parts(std::vector<FunctionPlan>& functions, Coverage::Functions& of_parts) {
  std::vector<image::Range> parts;
  for (const FunctionPlan& f : functions)
    for (const image::Range& range : f.code->ranges)
      if (range.start != f.function->address) parts.push_back(range);
  std::sort(parts.begin(), parts.end(),
            [](const image::Range& a, const image::Range& b) { return a.start < b.start; });
  std::erase_if(functions, [&](const FunctionPlan& f) {
    if (!f.function->unnamed) return false;
    auto after =
        std::upper_bound(parts.begin(), parts.end(), f.function->address,
                         [](uint64_t address, const image::Range& part) { return address < part.start; });
    if (after == parts.begin() || !std::prev(after)->contains(f.function->address)) return false;
    for (const FunctionPlan::Point& point : f.points)
      for (const BoundSnippet& snippet : point.snippets)
        for (const uint32_t request : snippet.requests) of_parts[request].insert(f.function);
    return true;
  });
}

// Hand-written code may be shared: two functions have a common end, and each would want its returns there.
// A count there would belong to neither.
std::vector<bool> sharing_code(const std::vector<FunctionPlan>& functions) {
  struct Piece {
    uint64_t start, end;
    size_t function;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < functions.size(); i++)
    for (const Window& window : functions[i].sites.windows) {
      // The bytes that a punned jump ends with must not be changed by another function either.
      pieces.push_back({window.start, window.end + window.kept.size(), i});
      if (window.relay) pieces.push_back({window.relay, window.relay + arch::kMachine.jump_size, i});
    }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.start < b.start; });
  std::vector<bool> out(functions.size());
  for (size_t i = 1, widest = 0; i < pieces.size(); i++) {
    if (pieces[i].start < pieces[widest].end && pieces[i].function != pieces[widest].function)
      out[pieces[i].function] = out[pieces[widest].function] = true;
    if (pieces[i].end > pieces[widest].end) widest = i;
  }
  return out;
}

// Points that nobody has asked for go first: the returns at which others end.
void withdraw_shared(Coverage& out, const plan::Plan& plan, StubSpace& stubs, TailCalls& tails) {
  const std::vector<bool> shares = sharing_code(out.functions);
  for (size_t i = 0; i < out.functions.size(); i++) {
    FunctionPlan& f = out.functions[i];
    if (!shares[i] || !f.ends_deferred) continue;
    tails.withdraw(f, "its code is shared with another function");
    plan_windows(plan, f, stubs);
  }
}

void refuse(Coverage& out, const std::vector<bool>& which, const std::string& reason) {
  for (size_t i = 0; i < out.functions.size(); i++) {
    FunctionPlan& f = out.functions[i];
    if (!which[i]) continue;
    if (f.hook != arch::Hook::none) out.unhooked.push_back(f.function->name + ": " + reason);
    give_up(out, f, reason);
  }
}

// No flag is kept and no call armed: nothing has to be known of frames that vanish.
void drop_unwinding_hooks(Coverage& coverage) {
  coverage.unhooked.clear();
  for (FunctionPlan& f : coverage.functions) {
    if (!unwinds(f.hook)) continue;
    f.hook = arch::Hook::none;
    drop_windows(f.sites.windows, [&](const Window& window) { return f.sites_of(window) == 0; });
  }
}

}  // namespace

bool FunctionPlan::is_hooked(format::PointKind kind) const {
  return hook != arch::Hook::none && kind == arch::point_of(hook);
}

uint64_t FunctionPlan::sites_of(const Window& window) const {
  return static_cast<uint64_t>(std::count_if(window.sites.begin(), window.sites.end(), [&](const Site& site) {
    return site.arming != arch::Arming::arm && !site.again && !points[site.point].snippets.empty();
  }));
}

const RefusedSite* unseen_release(const focus::Binding& binding, const Coverage& coverage) {
  if (std::ranges::none_of(binding.key_tables, &focus::KeyTable::has_sites)) return nullptr;
  const auto is_release = [](const std::string& name) {
    return std::ranges::find(format::kReleases, name) != std::end(format::kReleases);
  };
  const auto found = std::ranges::find_if(coverage.refused, [&](const RefusedSite& one) {
    return one.site.kind == format::PointKind::entry &&
           (is_release(one.function->name) || std::ranges::any_of(one.function->aliases, is_release));
  });
  return found == coverage.refused.end() ? nullptr : &*found;
}

void give_up(Coverage& coverage, FunctionPlan& f, const std::string& reason) {
  for (const Window& window : f.sites.windows) {
    const auto counted = coverage.by_tactic.find(std::string(name(window.tactic)));
    if (counted != coverage.by_tactic.end()) counted->second -= f.sites_of(window);
    for (const Site& site : window.sites) {
      if (f.points[site.point].snippets.empty() || site.again) continue;
      coverage.refused.push_back({f.object, f.function, site, reason, {}});
      charge(coverage, f.function, f.points[site.point].snippets);
    }
  }
  f.sites.windows.clear();
  if (!f.ends_deferred) return;
  for (FunctionPlan& other : coverage.functions)
    if (&other != &f && !other.sites.windows.empty() && relies_on(other, f))
      give_up(coverage, other, refused_with(*f.function, reason));
}

std::string refused_with(const image::Function& other, const std::string& reason) {
  return "it ends with a jump to " + other.name + ", which is refused: " + reason;
}

bool defers(const Coverage& coverage) {
  return std::ranges::any_of(coverage.functions, [](const FunctionPlan& f) { return !f.deferrals.empty(); });
}

bool relies_on(const FunctionPlan& f, const FunctionPlan& other) {
  return std::ranges::find(f.tail_targets, other.function) != f.tail_targets.end();
}

bool arms_calls(const Coverage& coverage) {
  for (const FunctionPlan& f : coverage.functions)
    for (const Window& window : f.sites.windows)
      for (const Site& site : window.sites)
        if (site.arming == arch::Arming::arm) return true;
  return false;
}

std::map<uint64_t, BehindCall> code_behind_calls(const Coverage& coverage) {
  std::map<uint64_t, BehindCall> out;
  for (const FunctionPlan& f : coverage.functions)
    for (const Window& window : f.sites.windows)
      for (const Site& site : window.sites)
        if (site.kind == format::PointKind::call_after)
          out[f.points[site.point].wanted.place] = {site.address, site.arming == arch::Arming::test};
  return out;
}

const format::CellUse* write_of(const plan::Plan& plan, const BoundSnippet& snippet, focus::CellId cell) {
  const auto& uses = plan.stencils[snippet.stencil].info.cells;
  for (size_t i = 0; i < uses.size() && i < snippet.cells.size(); i++)
    if (snippet.cells[i] == cell && uses[i].writes) return &uses[i];
  return nullptr;
}

bool raises_or_lowers(const plan::Plan& plan, const BoundSnippet& snippet, focus::CellId cell, bool raises) {
  const format::CellUse* use = write_of(plan, snippet, cell);
  return use && (!format::is_timer(use->kind) || use->starts == raises);
}

// Where an object has a jump of its own that leaves frames, as Ruby throws.
uint64_t stack_jump_in(const image::Object& object, const image::Memory& memory) {
  return find_in_code(object, memory, arch::kMostOfStackJump + 1, arch::find_stack_jump);
}

// Where an object catches panics of Rust in code that calls nothing for it: link-time optimization has taken in both
// functions that is_rust_catch knows, or they have no names. What tells is the class of Rust's exceptions, which
// who catches one compares.
uint64_t unseen_rust_catch_in(const image::Object& object, const image::Memory& memory) {
  constexpr uint64_t kRustClass = 0x54535552005a4f4d;  // "MOZ\0RUST"
  auto find = [&](std::span<const std::byte> bytes, uint64_t start) -> uint64_t {
    for (size_t done = 0; done < bytes.size();) {
      const uint64_t found = arch::find_constant(bytes.subspan(done), start + done, kRustClass);
      if (found == 0) return 0;
      const image::Function* function = image::function_at(object, found);
      if (!function || !(is_rust_catch(*function) || function->name.ends_with("__rust_start_panic")))
        return found;
      done = found - start + 1;
    }
    return 0;
  };
  return find_in_code(object, memory, sizeof kRustClass - 1, find);
}

// What is not hooked: the functions that are left there stay active for flags and timers, and so their values are not
// whole.
void note_unseen_exits(const focus::Binding& binding, const image::Image& image, const image::Memory& memory,
                       const std::set<const image::Object*>* only, Coverage& out) {
  std::set<uint32_t> requests;
  for (const image::Object& object : image.objects) {
    if (only && !only->contains(&object)) continue;
    // A compiler's jump may leave the functions of any object, a panic those of its own.
    std::set<uint32_t> of_object, of_any;
    for (const focus::Balance& balance : binding.balances) {
      of_any.insert(balance.requests.begin(), balance.requests.end());
      if (std::ranges::any_of(object.text, [&](const image::Range& text) {
            return text.contains(balance.function->address);
          }))
        of_object.insert(balance.requests.begin(), balance.requests.end());
    }
    if (const uint64_t at = stack_jump_in(object, memory)) {
      out.unhooked.push_back(fmt::format(
          "{} has a jump at {:#x} that leaves functions unseen (__builtin_longjmp): they stay active, "
          "and times and what is counted within them may be too much",
          object.name, at));
      requests.insert(of_any.begin(), of_any.end());
    }
    if (of_object.empty()) continue;
    if (std::ranges::any_of(object.functions.named(), focus::is_ocaml)) {
      out.unhooked.push_back(
          fmt::format("{} has code of OCaml, whose exceptions leave functions unseen: they stay active, and "
                      "times and what is counted within them may be too much",
                      object.name));
      requests.insert(of_object.begin(), of_object.end());
    }
    if (const uint64_t at = unseen_rust_catch_in(object, memory)) {
      out.unhooked.push_back(
          fmt::format("{} catches panics of Rust at {:#x} unseen: functions that one leaves stay active, and "
                      "times and what is "
                      "counted within them may be too much",
                      object.name, at));
      requests.insert(of_object.begin(), of_object.end());
    }
  }
  for (const uint32_t request : requests) out.early_of[request]++;
}

std::set<uint32_t> requests_in(const Coverage& coverage,
                               llvm::function_ref<bool(const image::Object&)> is_meant) {
  std::set<uint32_t> out;
  for (const FunctionPlan& f : coverage.functions)
    if (is_meant(*f.object))
      for (const FunctionPlan::Point& point : f.points)
        for (const BoundSnippet& snippet : point.snippets)
          out.insert(snippet.requests.begin(), snippet.requests.end());
  return out;
}

Coverage plan_coverage(const plan::Plan& plan, const focus::Binding& binding, const image::Image& image,
                       const image::Memory& memory, image::Codes& codes, const CoverageScope& scope) {
  Coverage out;
  out.refused_of.resize(binding.requests.size());
  out.early_of.resize(binding.requests.size());
  out.functions = by_function(binding);
  // State that vanished frames leave behind must be put right.
  bool flags = !binding.balances.empty() ||
               std::any_of(binding.cells.begin(), binding.cells.end(),
                           [](const focus::CellSlot& cell) { return cell.kind == format::CellKind::call; });
  bool may_arm = std::any_of(binding.points.begin(), binding.points.end(), [](const BoundPoint& point) {
    return point.kind == format::PointKind::call_after;
  });
  add_hooks(image, memory, flags || may_arm, scope.follow, scope.only, out.functions);
  read_codes(codes, out.functions);
  refuse_unread_results(plan, image, memory, out.functions);
  TailCalls tails(plan, binding, image, memory, scope.only, scope.tails);
  tails.add_targets(out.functions, codes);
  drop_parts(out.functions, out.of_parts);
  StubSpace stubs(image.mappings, scope.stubs);
  for (FunctionPlan& f : out.functions) plan_function(plan, binding, memory, f, stubs, out);
  withdraw_shared(out, plan, stubs, tails);
  refuse(out, sharing_code(out.functions), "its code is shared with another function");
  refuse(
      out, over_written_code(out.functions, image, memory),
      "its code is not that of its file (relocations, or a program that writes its code): if mdl-inject were "
      "killed, it could not be put back");
  refuse(out, with_changed_pointer(out.functions, memory),
         "code of its object gives threads another thread pointer, by which hits find the thread");
  tails.decide(out);
  if (!flags && !arms_calls(out)) drop_unwinding_hooks(out);
  // Copies of its functions run that no name means: what they do is missing.
  for (const uint32_t request : requests_in(out, [](const image::Object& one) { return one.runs_old_code; }))
    out.early_of[request]++;
  if (flags) note_unseen_exits(binding, image, memory, scope.only, out);
  for (FunctionPlan& f : out.functions)
    for (const Window& window : f.sites.windows)
      if (uint64_t points = f.sites_of(window)) out.by_tactic[std::string(name(window.tactic))] += points;
  return out;
}

}  // namespace mdl::patch
