#include "runtime/patch/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>

#include "runtime/arch/arch.h"
#include "runtime/image/flow_graph.h"
#include "runtime/patch/spots.h"

namespace mdl::patch {
namespace {

using image::Code;
using image::Flow;
using image::Instruction;

constexpr uint64_t kPage = 4096;  // the smallest page: a write inside one is whole

bool is_target(const Code& code, uint64_t address) {
  return std::binary_search(code.targets.begin(), code.targets.end(), address);
}

// Which event comes first where several meet at one instruction: what ends comes before what
// begins.
int rank(format::PointKind kind) {
  switch (kind) {
    case format::PointKind::entry:
      return 0;
    case format::PointKind::call_after:
      return 1;
    case format::PointKind::loop_exit:
      return 2;
    case format::PointKind::loop_end:
      return 3;
    case format::PointKind::loop_enter:
      return 4;
    case format::PointKind::loop_start:
      return 5;
    case format::PointKind::block:
      return 6;
    case format::PointKind::call_before:
      return 7;
    case format::PointKind::return_:
      return 8;
  }
  return 9;
}

// Why the instructions [first, last) cannot be a window; "" when they can.
std::string_view objection(const Code& code, size_t first, size_t last) {
  const auto& list = code.instructions;
  uint64_t start = list[first].address;
  if (start / kPage != (start + arch::kJumpSize - 1) / kPage) return "the jump would cross a page";
  bool ended = false;
  for (size_t i = first; i < last; i++) {
    if (i > first && list[i].address != list[i - 1].address + list[i - 1].size)
      return "the function ends before the jump would";
    if (i > first && is_target(code, list[i].address)) return "a branch leads into it";
    if (i > first && code.unresolved_jump && !ended)
      return "an indirect jump of the function is not understood";
    if (ended && !list[i].is_padding) return "the function is shorter than a jump";
    if (ended) continue;
    if (i > first && list[i].is_landing) return "a landing instruction must stay first";
    if (!arch::can_displace(list[i])) return "a call or system call would have to be moved";
    ended =
        list[i].flow == Flow::return_ || list[i].flow == Flow::jump || list[i].flow == Flow::jump_indirect;
  }
  return {};
}

class Planner {
 public:
  explicit Planner(const Code& code) : code_(code) {}

  void want(const Spot& spot) {
    out_.wanted++;
    if (!spot.refusal.empty()) return refuse(spot.choices[0][0], spot.refusal);
    std::string why;
    for (const std::vector<Site>& sites : spot.choices) {
      std::string objected = try_sites(sites);
      if (objected.empty()) return;
      if (why.empty()) why = std::move(objected);
    }
    refuse(spot.choices[0][0], std::move(why));
  }

  FunctionSites finish() {
    for (Window& window : out_.windows)
      std::stable_sort(window.sites.begin(), window.sites.end(), [](const Site& a, const Site& b) {
        return std::tuple(a.address, a.where, rank(a.kind)) < std::tuple(b.address, b.where, rank(b.kind));
      });
    std::sort(out_.windows.begin(), out_.windows.end(),
              [](const Window& a, const Window& b) { return a.start < b.start; });
    return std::move(out_);
  }

 private:
  void refuse(const Site& site, std::string why) { out_.refusals.push_back({site, std::move(why)}); }

  // All of them, or none.
  std::string try_sites(const std::vector<Site>& sites) {
    std::vector<Window> before;
    if (sites.size() > 1) before = out_.windows;
    for (const Site& site : sites) {
      std::string objected = try_site(site);
      if (objected.empty()) continue;
      if (sites.size() > 1) out_.windows = std::move(before);
      return objected;
    }
    return "";
  }

  // Takes a window for the site; returns why there is none, "" when there is.
  std::string try_site(const Site& site) {
    auto at = index_of(site.address);
    if (!at) return "its instruction was not decoded";
    // The test of an armed call looks at the return address, which the call would replace.
    bool at_call = site.where == Where::before && code_.instructions[*at].flow == Flow::call &&
                   site.arming != arch::Arming::test;
    if (at_call && take_call(*at, site)) return "";
    std::string_view why;
    for (auto [first, last] : candidates(*at)) {
      std::string_view objected = take(first, last, site);
      if (objected.empty()) return "";
      if (why.empty()) why = objected;
    }
    return why.empty() ? "the function is shorter than a jump" : std::string(why);
  }

  std::optional<size_t> index_of(uint64_t address) const {
    auto it = std::lower_bound(code_.instructions.begin(), code_.instructions.end(), address,
                               [](const Instruction& in, uint64_t a) { return in.address < a; });
    if (it == code_.instructions.end() || it->address != address) return std::nullopt;
    return static_cast<size_t>(it - code_.instructions.begin());
  }

  // The shortest run that starts at `first` and is long enough, when there is one.
  std::optional<size_t> long_enough(size_t first, size_t at_least) const {
    const auto& list = code_.instructions;
    for (size_t last = first; last < list.size() && last < first + 16; last++) {
      uint64_t end = list[last].address + list[last].size;
      if (last + 1 > at_least && end - list[first].address >= arch::kJumpSize) return last + 1;
    }
    return std::nullopt;
  }

  // Runs that contain instruction `at`, the preferred first: from it onwards, then from ever
  // earlier instructions.
  std::vector<std::pair<size_t, size_t>> candidates(size_t at) const {
    std::vector<std::pair<size_t, size_t>> out;
    for (size_t back = 0; back <= std::min<size_t>(at, 5); back++)
      if (auto last = long_enough(at - back, at)) out.emplace_back(at - back, *last);
    return out;
  }

  // Takes the run as a window, together with those it touches; returns the objection.
  std::string_view take(size_t first, size_t last, const Site& site) {
    const auto& list = code_.instructions;
    std::vector<Site> sites = {site};
    std::vector<size_t> merged;
    for (bool grown = true; grown;) {
      grown = false;
      for (size_t w = 0; w < out_.windows.size(); w++) {
        const Window& other = out_.windows[w];
        uint64_t start = list[first].address, end = list[last - 1].address + list[last - 1].size;
        if (other.end <= start || other.start >= end ||
            std::find(merged.begin(), merged.end(), w) != merged.end())
          continue;
        if (other.tactic == Tactic::call) return "another window is in the way";
        auto other_first = index_of(other.start), other_last = index_of_end(other.end);
        if (!other_first || !other_last) return "another window is in the way";
        first = std::min(first, *other_first);
        last = std::max(last, *other_last);
        merged.push_back(w);
        grown = true;
      }
    }
    if (auto why = objection(code_, first, last); !why.empty()) return why;
    for (size_t w : merged)
      sites.insert(sites.end(), out_.windows[w].sites.begin(), out_.windows[w].sites.end());
    std::sort(merged.rbegin(), merged.rend());
    for (size_t w : merged) out_.windows.erase(out_.windows.begin() + static_cast<std::ptrdiff_t>(w));
    Window window{list[first].address,
                  list[last - 1].address + list[last - 1].size,
                  Tactic::instructions,
                  {},
                  std::move(sites)};
    bool ended = false;
    for (size_t i = first; i < last; i++) {
      if (ended) {
        window.tactic = Tactic::padding;
        continue;
      }
      window.instructions.push_back(list[i]);
      ended =
          list[i].flow == Flow::return_ || list[i].flow == Flow::jump || list[i].flow == Flow::jump_indirect;
    }
    out_.windows.push_back(std::move(window));
    return {};
  }

  // A site in front of a direct call: the call itself is turned to the trampoline, which
  // goes on to what was called; call and return stay paired.
  bool take_call(size_t at, const Site& site) {
    const Instruction& in = code_.instructions[at];
    for (Window& window : out_.windows)
      if (window.tactic == Tactic::call && window.start == in.address) {
        window.sites.push_back(site);
        return true;
      }
    if (in.flow != Flow::call || in.size != arch::kJumpSize ||
        in.address / kPage != (in.address + in.size - 1) / kPage)
      return false;
    out_.windows.push_back({in.address, in.address + in.size, Tactic::call, {in}, {site}});
    return true;
  }

  std::optional<size_t> index_of_end(uint64_t end) const {
    auto it = std::lower_bound(code_.instructions.begin(), code_.instructions.end(), end,
                               [](const Instruction& in, uint64_t a) { return in.address < a; });
    return static_cast<size_t>(it - code_.instructions.begin());
  }

  const Code& code_;
  FunctionSites out_;
};

}  // namespace

std::string_view name(Tactic tactic) {
  switch (tactic) {
    case Tactic::instructions:
      return "instructions";
    case Tactic::padding:
      return "padding";
    case Tactic::call:
      return "call";
  }
  return "";
}

FunctionSites plan_sites(const image::Function& function, const Code& code, std::span<const Wanted> wanted) {
  std::optional<image::FlowGraph> graph;
  Planner planner(code);
  for (size_t i = 0; i < wanted.size(); i++) {
    bool needs_graph = wanted[i].kind >= format::PointKind::loop_enter;
    if (needs_graph && !graph) graph = image::make_flow_graph(function, code);
    for (const Spot& spot :
         spots_of(function, code, graph ? &*graph : nullptr, wanted[i], static_cast<uint32_t>(i)))
      planner.want(spot);
  }
  return planner.finish();
}

}  // namespace mdl::patch
