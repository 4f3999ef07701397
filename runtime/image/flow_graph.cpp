#include "runtime/image/flow_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace mdl::image {
namespace {

bool holds(const std::vector<uint64_t>& sorted, uint64_t address) {
  return std::binary_search(sorted.begin(), sorted.end(), address);
}

// True when nothing runs on from this instruction to the next.
bool ends_flow(const Code& code, const Instruction& in) {
  switch (in.flow) {
    case Flow::jump:
    case Flow::jump_indirect:
    case Flow::return_:
    case Flow::stop:
      return true;
    case Flow::call:
    case Flow::call_indirect:
      return holds(code.no_return, in.address);
    default:
      return false;
  }
}

class Maker {
 public:
  Maker(const Function& function, const Code& code) : function_(function), code_(code) {}

  FlowGraph make() {
    out_.doubt = code_.doubt;
    if (out_.doubt.empty() && !code_.complete) out_.doubt = "not all of the function could be decoded";
    if (out_.doubt.empty() && code_.unresolved_jump) out_.doubt = "an indirect jump of it is not understood";
    make_blocks();
    if (out_.doubt.empty()) {
      make_edges();
      make_exception_edges();
      find_roots();
    }
    out_.loop_doubt = out_.doubt.empty() ? loop_doubt_ : out_.doubt;
    return std::move(out_);
  }

 private:
  bool inside(uint64_t address) const {
    return std::any_of(code_.ranges.begin(), code_.ranges.end(),
                       [&](const Range& range) { return range.contains(address); });
  }

  // Where control does come to otherwise than from the instruction before. Code::targets are more than these:
  // what might be a target is one there, since no window may cover it. A block that begins at such a place, in
  // the midst of another one, would count what the other one has counted.
  void find_leaders() {
    leaders_ = code_.arrivals;
    leaders_.push_back(function_.address);
    may_lead_ = code_.may_arrive;
    for (const Instruction& in : code_.instructions)
      if (in.flow == Flow::jump || in.flow == Flow::branch) leaders_.push_back(in.target);
    for (const Switch& one : code_.switches) {
      std::vector<uint64_t>& list = one.exact ? leaders_ : may_lead_;
      list.insert(list.end(), one.targets.begin(), one.targets.end());
      if (one.targets.empty())
        doubt(fmt::format("where its jump at {:#x} leads is known in part only", one.jump));
    }
    for (const LandingPad& pad : code_.pads) leaders_.push_back(pad.pad);
    std::ranges::sort(leaders_);
    std::ranges::sort(may_lead_);
  }

  void doubt(std::string why) {
    if (out_.doubt.empty()) out_.doubt = std::move(why);
  }

  void make_blocks() {
    find_leaders();
    const auto& list = code_.instructions;
    bool open = false;
    for (size_t i = 0; i < list.size(); i++) {
      const Instruction& in = list[i];
      if (!inside(in.address)) {
        open = false;
        continue;
      }
      bool follows = i > 0 && list[i - 1].address + list[i - 1].size == in.address;
      const bool is_leader = holds(leaders_, in.address);
      const bool leads = !open || !follows || is_leader || list[i - 1].flow == Flow::branch;
      const bool may_lead = holds(may_lead_, in.address);
      // Padding that nothing runs into is no code.
      if (!open && in.is_padding && !is_leader && !may_lead) continue;
      if (!leads && may_lead)
        doubt(fmt::format("whether a block of it begins at {:#x} is not known", in.address));
      if (leads) out_.blocks.push_back({in.address, in.address, i, false, {}, {}});
      out_.blocks.back().end = in.address + in.size;
      out_.blocks.back().last = i;
      open = !ends_flow(code_, in);
    }
  }

  size_t block_at(uint64_t address) const {
    auto it = std::lower_bound(out_.blocks.begin(), out_.blocks.end(), address,
                               [](const Block& block, uint64_t a) { return block.start < a; });
    return it != out_.blocks.end() && it->start == address ? static_cast<size_t>(it - out_.blocks.begin())
                                                           : kOutside;
  }

  void add(size_t from, size_t to, EdgeKind kind) {
    out_.blocks[from].outs.push_back(out_.edges.size());
    if (to != kOutside) out_.blocks[to].ins.push_back(out_.edges.size());
    out_.edges.push_back({from, to, kind});
  }

  void add_to(size_t from, uint64_t target, EdgeKind kind) {
    size_t to = block_at(target);
    if (to == kOutside && inside(target))
      out_.doubt = fmt::format("its jump to {:#x} leads into an instruction", target);
    add(from, to, kind);
  }

  void make_edges() {
    for (size_t b = 0; b < out_.blocks.size(); b++) {
      const Instruction& last = code_.instructions[out_.blocks[b].last];
      if (last.flow == Flow::jump) add_to(b, last.target, EdgeKind::jump);
      if (last.flow == Flow::branch) add_to(b, last.target, EdgeKind::taken);
      if (last.flow == Flow::jump_indirect) add_switch(b, last.address);
      if (ends_flow(code_, last)) continue;
      size_t next = block_at(out_.blocks[b].end);
      if (next != kOutside) add(b, next, EdgeKind::falls);
    }
  }

  void add_switch(size_t from, uint64_t jump) {
    auto it = std::find_if(code_.switches.begin(), code_.switches.end(),
                           [&](const Switch& one) { return one.jump == jump; });
    if (it == code_.switches.end()) return;  // a way out
    if (!it->exact)
      loop_doubt_ = fmt::format("the length of the jump table read at {:#x} is not known", jump);
    for (uint64_t target : it->targets) add_to(from, target, EdgeKind::table);
  }

  void make_exception_edges() {
    std::set<std::pair<size_t, size_t>> made;
    for (const LandingPad& pad : code_.pads) {
      size_t to = block_at(pad.pad);
      if (to == kOutside) continue;  // not decoded: there is a doubt
      auto it = std::upper_bound(out_.blocks.begin(), out_.blocks.end(), pad.calls.start,
                                 [](uint64_t a, const Block& block) { return a < block.end; });
      for (; it != out_.blocks.end() && it->start < pad.calls.end; ++it) {
        auto from = static_cast<size_t>(it - out_.blocks.begin());
        if (made.insert({from, to}).second) add(from, to, EdgeKind::exception);
      }
    }
  }

  // A jump from a cold part is found among those from outside: it has an edge from another range.
  bool entered_by_a_part(const Block& block) const {
    auto range_of = [&](uint64_t address) {
      return std::find_if(code_.ranges.begin(), code_.ranges.end(),
                          [&](const Range& range) { return range.contains(address); });
    };
    return std::any_of(block.ins.begin(), block.ins.end(), [&](size_t e) {
      return range_of(out_.blocks[out_.edges[e].from].start) != range_of(block.start);
    });
  }

  void find_roots() {
    for (Block& block : out_.blocks)
      block.is_root = block.start == function_.address || block.ins.empty() ||
                      (holds(code_.entered, block.start) && !entered_by_a_part(block));
  }

  const Function& function_;
  const Code& code_;
  std::vector<uint64_t> leaders_, may_lead_;  // sorted
  std::string loop_doubt_;
  FlowGraph out_;
};

// Dominators after Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm": blocks in reverse
// postorder, a virtual root in front of all roots.
class LoopFinder {
 public:
  explicit LoopFinder(FlowGraph& graph) : graph_(graph), order_(graph.blocks.size(), kOutside) {}

  void find() {
    number();
    dominate();
    std::map<size_t, std::vector<size_t>> backs;  // head -> edges
    std::set<uint64_t> irreducible;
    for (size_t e = 0; e < graph_.edges.size(); e++) {
      const Edge& edge = graph_.edges[e];
      if (edge.to == kOutside || order_[edge.from] == kOutside) continue;
      if (order_[edge.to] > order_[edge.from]) continue;
      if (dominates(edge.to, edge.from))
        backs[edge.to].push_back(e);
      else
        irreducible.insert(graph_.blocks[edge.to].start);
    }
    graph_.irreducible.assign(irreducible.begin(), irreducible.end());
    for (auto& [head, edges] : backs)
      if (!irreducible.contains(graph_.blocks[head].start)) graph_.loops.push_back(make_loop(head, edges));
    std::stable_sort(graph_.loops.begin(), graph_.loops.end(),
                     [](const Loop& a, const Loop& b) { return a.blocks.size() < b.blocks.size(); });
  }

 private:
  // Reverse postorder, without recursion: functions may have 100,000 blocks.
  void number() {
    std::vector<size_t> postorder;
    std::vector<uint8_t> seen(graph_.blocks.size());
    std::vector<std::pair<size_t, size_t>> stack;
    for (size_t root = 0; root < graph_.blocks.size(); root++) {
      if (!graph_.blocks[root].is_root || seen[root]) continue;
      seen[root] = 1;
      stack.emplace_back(root, 0);
      while (!stack.empty()) {
        auto& [block, next] = stack.back();
        if (next == graph_.blocks[block].outs.size()) {
          postorder.push_back(block);
          stack.pop_back();
          continue;
        }
        size_t to = graph_.edges[graph_.blocks[block].outs[next++]].to;
        if (to == kOutside || seen[to]) continue;
        seen[to] = 1;
        stack.emplace_back(to, 0);
      }
    }
    by_order_.assign(postorder.rbegin(), postorder.rend());
    for (size_t i = 0; i < by_order_.size(); i++) order_[by_order_[i]] = i + 1;  // 0: the virtual root
  }

  void dominate() {
    dominator_.assign(by_order_.size() + 1, kOutside);
    dominator_[0] = 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 1; i <= by_order_.size(); i++) {
        const Block& block = graph_.blocks[by_order_[i - 1]];
        size_t found = block.is_root ? 0 : kOutside;
        for (size_t e : block.ins) {
          size_t from = order_[graph_.edges[e].from];
          if (from == kOutside || dominator_[from] == kOutside) continue;
          found = found == kOutside ? from : meet(found, from);
        }
        if (found != dominator_[i]) dominator_[i] = found, changed = true;
      }
    }
  }

  size_t meet(size_t a, size_t b) const {
    while (a != b) {
      while (a > b) a = dominator_[a];
      while (b > a) b = dominator_[b];
    }
    return a;
  }

  bool dominates(size_t a, size_t b) const {
    size_t at = order_[b];
    while (at > order_[a]) at = dominator_[at];
    return at == order_[a];
  }

  // All that reaches an edge back without passing the head.
  Loop make_loop(size_t head, const std::vector<size_t>& backs) const {
    Loop loop;
    loop.head = graph_.blocks[head].start;
    loop.backs = backs;
    loop.entered_otherwise = graph_.blocks[head].is_root;
    std::set<size_t> members = {head};
    std::vector<size_t> work;
    for (size_t e : backs)
      if (members.insert(graph_.edges[e].from).second) work.push_back(graph_.edges[e].from);
    while (!work.empty()) {
      size_t block = work.back();
      work.pop_back();
      for (size_t e : graph_.blocks[block].ins) {
        size_t from = graph_.edges[e].from;
        if (order_[from] != kOutside && members.insert(from).second) work.push_back(from);
      }
    }
    loop.blocks.assign(members.begin(), members.end());
    for (size_t e : graph_.blocks[head].ins)
      if (!members.contains(graph_.edges[e].from)) loop.enters.push_back(e);
    for (size_t block : loop.blocks)
      for (size_t e : graph_.blocks[block].outs)
        if (graph_.edges[e].to == kOutside || !members.contains(graph_.edges[e].to)) loop.exits.push_back(e);
    return loop;
  }

  FlowGraph& graph_;
  std::vector<size_t> order_;      // of a block in reverse postorder, from 1; kOutside: not reached
  std::vector<size_t> by_order_;   // blocks
  std::vector<size_t> dominator_;  // by order
};

}  // namespace

FlowGraph make_flow_graph(const Function& function, const Code& code) {
  FlowGraph graph = Maker(function, code).make();
  if (graph.loop_doubt.empty()) LoopFinder(graph).find();
  return graph;
}

}  // namespace mdl::image
