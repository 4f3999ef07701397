#include "runtime/patch/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>

#include "runtime/arch/decoder.h"
#include "runtime/arch/description.h"
#include "runtime/arch/displacement.h"
#include "runtime/arch/point.h"
#include "runtime/arch/windows.h"
#include "runtime/image/flow_graph.h"
#include "runtime/patch/relay.h"
#include "runtime/patch/spots.h"

namespace mdl::patch {
namespace {

using image::Code;
using image::Flow;
using image::Instruction;

using arch::kPage;  // a write inside one is whole

bool ends(const Instruction& in) {
  return in.flow == Flow::return_ || in.flow == Flow::jump || in.flow == Flow::jump_indirect;
}

// A handler that throws has the unwinder begin there, which knows nothing of trampolines.
constexpr std::string_view kMayFault =
    "an instruction would have to be moved that may fault, and the program makes exceptions of faults";

// Why the instructions [first, last) cannot be a window whose first `written` bytes change; "" when they can.
std::string_view objection(const Code& code, size_t first, size_t last, uint64_t written) {
  const auto& list = code.instructions;
  uint64_t start = list[first].address;
  if (start / kPage != (start + written - 1) / kPage) return "the jump would cross a page";
  bool ended = false;
  for (size_t i = first; i < last; i++) {
    if (i > first && list[i].address != list[i - 1].address + list[i - 1].size)
      return "the function ends before the jump would";
    if (i > first && code.is_target(list[i].address)) return "a branch leads into it";
    if (i > first && code.is_entry(list[i].address)) return "a function or a part of one begins in it";
    if (i > first && code.unresolved_jump && !ended)
      return "an indirect jump of the function is not understood";
    if (ended && !list[i].is_padding) return "the function is shorter than a jump";
    if (ended) continue;
    if (list[i].is_landing) return "a landing instruction must stay first";
    if (!arch::can_displace(list[i])) return "a call or system call would have to be moved";
    if (code.catches_faults && image::may_fault(list[i])) return kMayFault;
    ended = ends(list[i]);
  }
  return {};
}

class Planner {
 public:
  Planner(const Code& code, StubSpace* stubs) : code_(code), stubs_(stubs) {}

  void want(Spot spot, bool asked) {
    if (asked) out_.wanted++;
    if (!spot.refusal.empty()) return refuse(spot.choices[0][0], spot.refusal);
    if (std::string why = try_choices(spot); !why.empty())
      left_.emplace_back(std::move(spot), std::move(why));
  }

  // A site that has no room for a jump gets a shorter one, when everything else has its place: relays lie in
  // padding, punned jumps end with bytes that must not change any more. Code that would have to make room for
  // relays, and is the slower for it, comes last.
  FunctionSites finish() {
    if (!left_.empty()) padding_ = unreachable_padding(code_);
    for (Closely how : {Closely::alone, Closely::hosted}) {
      closely_ = how;
      std::erase_if(left_, [&](const auto& left) { return try_choices(left.first).empty(); });
    }
    for (auto& [spot, why] : left_) refuse(spot.choices[0][0], std::move(why));
    for (Window& window : out_.windows)
      std::stable_sort(window.sites.begin(), window.sites.end(), [](const Site& a, const Site& b) {
        return std::tuple(a.address, a.where, format::info(a.kind).rank) <
               std::tuple(b.address, b.where, format::info(b.kind).rank);
      });
    std::sort(out_.windows.begin(), out_.windows.end(),
              [](const Window& a, const Window& b) { return a.start < b.start; });
    return std::move(out_);
  }

 private:
  std::string try_choices(const Spot& spot) {
    std::string why;
    for (const std::vector<Site>& sites : spot.choices) {
      std::string objected = try_sites(sites);
      if (objected.empty()) return "";
      if (why.empty()) why = std::move(objected);
    }
    return why;
  }

  void refuse(const Site& site, std::string why) { out_.refusals.push_back({site, std::move(why)}); }

  // All of them, or none.
  std::string try_sites(const std::vector<Site>& sites) {
    std::vector<Window> before;
    if (sites.size() > 1) before = out_.windows;
    for (const Site& site : sites) {
      std::string objected = try_site(site);
      if (objected.empty()) continue;
      if (sites.size() > 1) go_back_to(std::move(before));
      return objected;
    }
    return "";
  }

  void go_back_to(std::vector<Window> before) {
    for (const Window& window : out_.windows)
      if (window.tactic == Tactic::punned &&
          std::none_of(before.begin(), before.end(), [&](const Window& w) { return w.stub == window.stub; }))
        stubs_->release(window.stub);
    out_.windows = std::move(before);
  }

  // Takes a window for the site; returns why there is none, "" when there is.
  std::string try_site(const Site& site) {
    auto at = index_of(site.address);
    if (!at) return "its instruction was not decoded";
    // The test of an armed call looks at the return address, which the call would replace.
    bool at_call = site.where == Where::before && arch::can_turn(code_.instructions[*at]) &&
                   site.arming != arch::Arming::test;
    if (at_call && take_call(*at, site)) return "";
    std::string_view why;
    for (auto [first, last] : candidates(*at, arch::kMachine.jump_size)) {
      std::string_view objected = take(first, last, site);
      if (objected.empty()) return "";
      if (why.empty()) why = objected;
    }
    if (closely_ != Closely::no && (join(site) || take_short(*at, site) || take_punned(*at, site))) return "";
    if (closely_ == Closely::hosted && take_hosted(*at, site)) return "";
    return why.empty() ? "the function is shorter than a jump" : std::string(why);
  }

  std::optional<size_t> index_of(uint64_t address) const {
    auto it = std::lower_bound(code_.instructions.begin(), code_.instructions.end(), address,
                               [](const Instruction& in, uint64_t a) { return in.address < a; });
    if (it == code_.instructions.end() || it->address != address) return std::nullopt;
    return static_cast<size_t>(it - code_.instructions.begin());
  }

  using Run = std::pair<size_t, size_t>;  // of instructions, [first, last)

  uint64_t bytes_of(const Run& run) const {
    const Instruction& last = code_.instructions[run.second - 1];
    return last.address + last.size - code_.instructions[run.first].address;
  }

  // Runs of at least `bytes` that contain instruction `at`, the preferred first: the shortest from it
  // onwards, then from ever earlier instructions.
  std::vector<Run> candidates(size_t at, uint64_t bytes) const {
    std::vector<Run> out;
    for (size_t back = 0; back <= std::min<size_t>(at, 5); back++)
      for (size_t last = at + 1; last <= std::min(code_.instructions.size(), at - back + 16); last++)
        if (bytes_of({at - back, last}) >= bytes) {
          out.emplace_back(at - back, last);
          break;
        }
    return out;
  }

  // Runs that contain it and are shorter than a jump, the longest first.
  std::vector<Run> short_runs(size_t at) const {
    std::vector<Run> out;
    for (size_t first = at - std::min<size_t>(at, 3); first <= at; first++)
      for (size_t last = at + 1; last <= code_.instructions.size(); last++) {
        if (bytes_of({first, last}) >= arch::kMachine.jump_size) break;
        out.emplace_back(first, last);
      }
    std::stable_sort(out.begin(), out.end(),
                     [&](const Run& a, const Run& b) { return bytes_of(a) > bytes_of(b); });
    return out;
  }

  // The shortest run from an instruction on of at least `bytes`.
  std::optional<Run> run_from(size_t first, uint64_t bytes) const {
    for (size_t last = first + 1; last <= std::min(code_.instructions.size(), first + 16); last++)
      if (bytes_of({first, last}) >= bytes) return Run{first, last};
    return std::nullopt;
  }

  // Fills in the instructions that a window of this run consists of.
  void lay(Window& window, const Run& run) const {
    window.start = code_.instructions[run.first].address;
    window.end = window.start + bytes_of(run);
    auto first = code_.instructions.begin() + static_cast<std::ptrdiff_t>(run.first);
    auto end = code_.instructions.begin() + static_cast<std::ptrdiff_t>(run.second);
    auto last = std::find_if(first, end, ends);
    if (last != end) ++last;
    window.instructions.assign(first, last);
    window.tactic = last == end ? Tactic::instructions : Tactic::padding;
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
        if (other.tactic != Tactic::instructions && other.tactic != Tactic::padding)
          return "another window is in the way";
        auto other_first = index_of(other.start), other_last = index_of_end(other.end);
        if (!other_first || !other_last) return "another window is in the way";
        first = std::min(first, *other_first);
        last = std::max(last, *other_last);
        merged.push_back(w);
        grown = true;
      }
    }
    Window window;
    lay(window, {first, last});
    for (size_t w : merged) {  // relays stay where they are
      const Window& host = out_.windows[w];
      if (host.relays && (window.relays || host.start != window.start)) return "another window is in the way";
      window.relays += host.relays;
    }
    if (auto why = objection(code_, first, last, written_by(window)); !why.empty()) return why;
    const image::Range taken{window.start, window.end};
    for (size_t w = 0; w < out_.windows.size(); w++)
      if (occupies(out_.windows[w], taken) && std::find(merged.begin(), merged.end(), w) == merged.end())
        return "another window is in the way";
    for (size_t w : merged)
      sites.insert(sites.end(), out_.windows[w].sites.begin(), out_.windows[w].sites.end());
    std::sort(merged.rbegin(), merged.rend());
    for (size_t w : merged) out_.windows.erase(out_.windows.begin() + static_cast<std::ptrdiff_t>(w));
    window.sites = std::move(sites);
    out_.windows.push_back(std::move(window));
    return {};
  }

  // A site in front of a direct call: the call itself is turned to the trampoline, which
  // goes on to what was called; call and return stay paired.
  bool take_call(size_t at, const Site& site) {
    const Instruction& in = code_.instructions[at];
    if (code_.catches_faults && image::may_fault(in)) return false;
    for (Window& window : out_.windows)
      if (window.tactic == Tactic::call && window.start == in.address) {
        window.sites.push_back(site);
        return true;
      }
    image::Range taken{in.address, in.address + in.size};
    if (in.address / kPage != (taken.end - 1) / kPage || is_occupied(taken)) return false;
    Window window;
    window.start = taken.start, window.end = taken.end;
    window.tactic = Tactic::call;
    window.instructions = {in};
    window.sites = {site};
    out_.windows.push_back(std::move(window));
    return true;
  }

  bool is_occupied(const image::Range& bytes) const {
    return std::any_of(out_.windows.begin(), out_.windows.end(),
                       [&](const Window& window) { return occupies(window, bytes); });
  }

  // A short or punned window that runs the instruction already.
  bool join(const Site& site) {
    for (Window& window : out_.windows) {
      if (window.tactic != Tactic::short_ && window.tactic != Tactic::punned) continue;
      for (const Instruction& in : window.instructions)
        if (in.address == site.address) {
          window.sites.push_back(site);
          return true;
        }
    }
    return false;
  }

  // A run as a window of its own whose first bytes change.
  std::optional<Window> close_window(const Run& run, uint64_t written, const Site& site) const {
    Window window;
    lay(window, run);
    if (!objection(code_, run.first, run.second, written).empty() || is_occupied({window.start, window.end}))
      return std::nullopt;
    window.sites = {site};
    return window;
  }

  // A short jump to a jump in padding.
  bool take_short(size_t at, const Site& site) {
    for (const Run& run : candidates(at, arch::kMachine.short_jump_size)) {
      auto window = close_window(run, arch::kMachine.short_jump_size, site);
      if (!window) continue;
      window->tactic = Tactic::short_;
      out_.windows.push_back(*window);  // its own bytes are no room for its relay
      auto relay = find_relay(padding_, out_.windows, window->start);
      if (relay) out_.windows.back().relay = *relay;
      if (relay) return true;
      out_.windows.pop_back();
    }
    return false;
  }

  // A short jump to a jump in a host.
  bool take_hosted(size_t at, const Site& site) {
    for (const Run& run : candidates(at, arch::kMachine.short_jump_size)) {
      auto window = close_window(run, arch::kMachine.short_jump_size, site);
      if (!window) continue;
      window->tactic = Tactic::short_, window->hosted = true;
      const size_t index = out_.windows.size();
      out_.windows.push_back(*window);
      auto relay = relay_in_window(window->start);
      if (!relay) relay = relay_in_new_window(window->start);
      if (relay) out_.windows[index].relay = *relay;
      if (relay) return true;
      out_.windows.pop_back();
    }
    return false;
  }

  // In a window that there is, the nearest first: it is made longer where that is needed.
  std::optional<uint64_t> relay_in_window(uint64_t from) {
    std::vector<Window*> near;
    for (Window& window : out_.windows)
      if ((window.tactic == Tactic::instructions || window.tactic == Tactic::padding) &&
          window.relays < kMostRelays && arch::short_jump_reaches(from, next_relay(window)))
        near.push_back(&window);
    std::sort(near.begin(), near.end(), [&](const Window* a, const Window* b) {
      return distance(from, a->start) < distance(from, b->start);
    });
    for (Window* host : near) {
      Window longer = *host;
      longer.relays++;
      const size_t first = *index_of(host->start);
      auto run = run_from(first, std::max(written_by(longer), host->end - host->start));
      if (!run || !objection(code_, first, run->second, written_by(longer)).empty()) continue;
      lay(longer, *run);
      if (longer.end > host->end && is_occupied({host->end, longer.end})) continue;
      const uint64_t relay = next_relay(*host);
      *host = std::move(longer);
      return relay;
    }
    return std::nullopt;
  }

  // In a window that is made for it, as near as can be.
  std::optional<uint64_t> relay_in_new_window(uint64_t from) {
    std::vector<size_t> near;
    const uint64_t reach = 2 * arch::kMachine.short_reach;
    auto from_here =
        std::lower_bound(code_.instructions.begin(), code_.instructions.end(), from,
                         [&](const Instruction& in, uint64_t a) { return in.address + reach < a; });
    for (auto in = from_here; in != code_.instructions.end() && in->address < from + reach; ++in)
      if (arch::short_jump_reaches(from, in->address + arch::kMachine.jump_size))
        near.push_back(static_cast<size_t>(in - code_.instructions.begin()));
    std::stable_sort(near.begin(), near.end(), [&](size_t a, size_t b) {
      return distance(from, code_.instructions[a].address) < distance(from, code_.instructions[b].address);
    });
    for (size_t first : near) {
      Window host;
      host.relays = 1;
      auto run = run_from(first, written_by(host));
      if (!run || !objection(code_, first, run->second, written_by(host)).empty()) continue;
      lay(host, *run);
      if (is_occupied({host.start, host.end})) continue;
      const uint64_t relay = host.start + arch::kMachine.jump_size;
      out_.windows.push_back(std::move(host));
      return relay;
    }
    return std::nullopt;
  }

  static uint64_t distance(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }

  // A jump that ends with the bytes of what follows; the more of its own it has, the better.
  bool take_punned(size_t at, const Site& site) {
    if (!stubs_) return false;
    for (const Run& run : short_runs(at)) {
      auto window = close_window(run, arch::kMachine.jump_size, site);
      if (!window) continue;
      window->tactic = Tactic::punned;
      window->kept =
          image::bytes_at(code_, window->end, window->start + arch::kMachine.jump_size - window->end);
      const auto written = static_cast<uint32_t>(window->end - window->start);
      if (window->kept.size() != arch::kMachine.jump_size - written) continue;
      image::Range tail{window->end, window->start + arch::kMachine.jump_size};
      if (std::any_of(out_.windows.begin(), out_.windows.end(),
                      [&](const Window& other) { return changes(other, tail); }))
        continue;
      auto stub = stubs_->take(arch::punned_targets(window->start, written, window->kept));
      if (!stub) continue;
      window->stub = *stub;
      out_.windows.push_back(std::move(*window));
      return true;
    }
    return false;
  }

  std::optional<size_t> index_of_end(uint64_t end) const {
    auto it = std::lower_bound(code_.instructions.begin(), code_.instructions.end(), end,
                               [](const Instruction& in, uint64_t a) { return in.address < a; });
    return static_cast<size_t>(it - code_.instructions.begin());
  }

  const Code& code_;
  StubSpace* stubs_;
  enum class Closely : uint8_t { no, alone, hosted };
  Closely closely_ =
      Closely::no;  // whether shorter windows than a jump are taken, and hosts for their relays
  std::vector<image::Range> padding_;
  std::vector<std::pair<Spot, std::string>> left_;  // what has no window yet, and why
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
    case Tactic::short_:
      return "short";
    case Tactic::punned:
      return "punned";
  }
  return "";
}

FunctionSites plan_sites(const image::Function& function, const Code& code,
                         std::span<const WantedSite> wanted, StubSpace* stubs) {
  std::optional<image::FlowGraph> graph;
  Planner planner(code, stubs);
  for (size_t i = 0; i < wanted.size(); i++) {
    bool needs_graph = wanted[i].kind >= format::PointKind::loop_enter;
    if (needs_graph && !graph) graph = image::make_flow_graph(function, code);
    for (Spot& spot :
         spots_of(function, code, graph ? &*graph : nullptr, wanted[i], static_cast<uint32_t>(i)))
      planner.want(std::move(spot), wanted[i].asked);
  }
  return planner.finish();
}

}  // namespace mdl::patch
