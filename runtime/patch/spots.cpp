#include "runtime/patch/spots.h"

#include <algorithm>

#include "runtime/arch/conventions.h"
#include "runtime/arch/displacement.h"
#include "runtime/arch/point.h"

namespace mdl::patch {
namespace {

using format::PointKind;
using image::Block;
using image::Code;
using image::Edge;
using image::EdgeKind;
using image::ExitKind;
using image::Flow;
using image::FlowGraph;
using image::Instruction;
using image::Loop;

constexpr size_t kMostSteps = 8;

class Finder {
 public:
  Finder(const image::Function& function, const Code& code, const FlowGraph* graph, const WantedSite& wanted,
         uint32_t index)
      : function_(function), code_(code), graph_(graph), wanted_(wanted), index_(index) {}

  std::vector<Spot> find() {
    switch (wanted_.kind) {
      case PointKind::entry:
        entry();
        break;
      case PointKind::return_:
        exits();
        break;
      case PointKind::call_before:
      case PointKind::call_after:
        call();
        break;
      case PointKind::block:
        block();
        break;
      case PointKind::loop_enter:
      case PointKind::loop_exit:
      case PointKind::loop_start:
      case PointKind::loop_end:
        loop();
        break;
      case PointKind::every:  // focus::bind has laid its code at points
        break;
    }
    return std::move(out_);
  }

 private:
  Site site(uint64_t address, Where where = Where::before) const {
    return {address, wanted_.kind, ExitKind::return_, where, index_};
  }
  void add(Site site) { out_.push_back({{{site}}, ""}); }
  void refuse(Site site, std::string why) { out_.push_back({{{site}}, std::move(why)}); }

  std::string doubt() const {
    if (!code_.doubt.empty()) return code_.doubt;
    return code_.complete ? "" : "not all of the function could be decoded";
  }

  const Instruction* at(uint64_t address) const {
    auto it = std::lower_bound(code_.instructions.begin(), code_.instructions.end(), address,
                               [](const Instruction& in, uint64_t a) { return in.address < a; });
    return it != code_.instructions.end() && it->address == address ? &*it : nullptr;
  }

  void entry() {
    uint64_t address = function_.address;  // a landing instruction must stay first
    if (const Instruction* first = at(address); first && first->is_landing) address += first->size;
    if (code_.instructions.empty() && !code_.doubt.empty())
      refuse(site(address), code_.doubt);
    else if (function_.is_ifunc)
      refuse(site(address), "it is an indirect function: name the implementation that was chosen");
    else if (code_.is_target(function_.address) || code_.is_target(address))
      refuse(site(address), "the entry is the head of a loop: counting there would count its rounds");
    else
      out_.push_back({{{site(address)}}, ""}), add_first_call(out_.back());
  }

  // The function's first call runs once for each entry, when nothing but pushes and work on registers stands
  // before it, and no branch leads there: code that reads no arguments may as well stand at it.
  void add_first_call(Spot& spot) const {
    const Instruction* in = at(spot.choices[0][0].address);
    if (wanted_.arguments || !in) return;
    uint32_t deeper = 0;
    for (size_t steps = 0; in && steps < kMostSteps; steps++) {
      if (steps && code_.is_target(in->address)) return;
      if (arch::can_turn(*in)) {
        Site late = site(in->address);
        late.deeper = deeper;
        spot.choices.push_back({late});
        return;
      }
      auto pushed = arch::pushed_by(*in);
      if (!pushed) return;
      deeper += *pushed;
      in = at(in->address + in->size);
    }
  }

  void exits() {
    for (const image::Exit& exit : code_.exits) {
      if (!wanted_.at_tail_jumps && exit.kind != ExitKind::return_) continue;
      Site one = site(exit.address);
      one.exit = exit.kind;
      if (exit.kind == ExitKind::tail_branch) one.where = Where::taken;
      if (wanted_.only_result && exit.kind != ExitKind::return_)
        refuse(one, std::string(kTailJump));
      else if (auto why = doubt(); !why.empty())
        refuse(one, why);
      else
        out_.push_back({{{one}}, ""}), add_ways_to(one, out_.back());
    }
    if (code_.exits.empty() && !code_.doubt.empty()) refuse(site(function_.address), code_.doubt);
  }

  // A return that branches reach has no room for a jump when it is short and followed by code. Its code may
  // as well stand on each way there: on the taken sides of the branches, and behind the instruction before.
  void add_ways_to(const Site& exit, Spot& spot) {
    const Instruction* ret = at(exit.address);
    if (exit.exit != ExitKind::return_ || !ret || !code_.is_target(exit.address)) return;
    bool elsewhere =
        code_.unresolved_jump || contains(code_.entered, exit.address) || code_.is_entry(exit.address);
    for (const image::Switch& jump : code_.switches) elsewhere |= contains(jump.targets, exit.address);
    for (const image::LandingPad& pad : code_.pads) elsewhere |= pad.pad == exit.address;
    if (elsewhere) return;
    std::vector<Site> ways;
    const Instruction* previous = ret == code_.instructions.data() ? nullptr : ret - 1;
    if (previous && previous->address + previous->size == ret->address && runs_on(*previous)) {
      ways.push_back(exit);
      ways.back().address = previous->address;
      ways.back().where = Where::behind;
    } else if (!knows_all_switches()) {
      return;  // a table that was not read to its end may lead here
    }
    for (const Instruction& in : jumps_to(exit.address)) {
      ways.push_back(exit);
      ways.back().address = in.address;
      if (in.flow == Flow::branch) ways.back().where = Where::taken;
    }
    for (size_t i = 0; i < ways.size(); i++) ways[i].instead_of = exit.address, ways[i].again = i > 0;
    if (!ways.empty()) spot.choices.push_back(std::move(ways));
  }

  static bool contains(const std::vector<uint64_t>& sorted, uint64_t address) {
    return std::binary_search(sorted.begin(), sorted.end(), address);
  }
  static bool runs_on(const Instruction& in) {
    return in.flow != Flow::return_ && in.flow != Flow::jump && in.flow != Flow::jump_indirect &&
           in.flow != Flow::stop;
  }
  bool knows_all_switches() const {
    return std::all_of(code_.switches.begin(), code_.switches.end(),
                       [](const image::Switch& jump) { return jump.exact; });
  }

  std::vector<Instruction> jumps_to(uint64_t address) const {
    std::vector<Instruction> out;
    for (const Instruction& in : code_.instructions)
      if ((in.flow == Flow::jump || in.flow == Flow::branch) && in.target == address) out.push_back(in);
    return out;
  }

  void call() {
    const Instruction* call = at(wanted_.place);
    if (auto why = doubt(); !why.empty()) return refuse(site(call ? call->address : function_.address), why);
    if (!call) return refuse(site(wanted_.place), "its instruction was not decoded");
    if (wanted_.kind == PointKind::call_before)
      out_.push_back(before(*call));
    else
      after(*call);
  }

  Spot before(const Instruction& call) const {
    if (call.flow == Flow::call) return {{{site(call.address)}}, ""};
    if (code_.is_target(call.address))
      return {{{site(call.address)}}, "a branch leads to the indirect call, past what stands before it"};
    const Instruction* previous = call.address == function_.address ? nullptr : &call - 1;
    bool runs_on = previous && previous->address + previous->size == call.address &&
                   (previous->flow == Flow::next || previous->flow == Flow::branch);
    if (!runs_on)
      return {{{site(call.address)}}, "no instruction that could be moved runs into the indirect call"};
    return {{{site(previous->address, Where::behind)}}, ""};
  }

  void after(const Instruction& call) {
    if (std::binary_search(code_.no_return.begin(), code_.no_return.end(), call.address)) return;  // never
    const Instruction* next = at(call.address + call.size);
    if (!next) return refuse(site(call.address), "what follows the call was not decoded");
    // It is there for exceptions and setjmp, which lead here, too.
    if (next->is_landing && wanted_.repeatable) {
      next = at(next->address + next->size);
      if (!next) return refuse(site(call.address), "what follows the call was not decoded");
    }
    if (next->is_landing) return refuse(site(next->address), "a landing instruction must stay first");
    Spot spot;
    uint64_t returns_to = next->address;
    for (size_t steps = 0; next && steps < kMostSteps; steps++) {
      if (next->is_landing) break;
      if (code_.is_target(next->address) && wanted_.repeatable) {
        spot.choices.push_back({site(next->address)});
        break;
      }
      if (code_.is_target(next->address)) {
        bool again = std::binary_search(code_.returns_twice.begin(), code_.returns_twice.end(), call.address);
        if (again && spot.choices.empty())
          spot = {{{site(next->address)}},
                  "the call comes back more than once, to a place that a branch reaches, too"};
        if (!again) arm(spot, call, next->address, returns_to);
        break;
      }
      spot.choices.push_back({site(next->address)});
      // The next instruction is as good, unless the code wants what this one changes.
      if (next->flow != Flow::next || next->touches & arch::kept_behind_calls(wanted_.result)) break;
      next = at(next->address + next->size);
    }
    out_.push_back(std::move(spot));
  }

  // Where a branch leads to the place, too.
  void arm(Spot& spot, const Instruction& call, uint64_t place, uint64_t returns_to) const {
    Spot armed = before(call);
    if (!armed.refusal.empty()) {
      if (spot.choices.empty()) spot = std::move(armed);
      return;
    }
    Site at_call = armed.choices[0][0], test = site(place);
    at_call.kind = PointKind::call_before;
    at_call.arming = arch::Arming::arm, test.arming = arch::Arming::test;
    at_call.returns_to = test.returns_to = returns_to;
    spot.choices.push_back({test, at_call});
  }

  void block() {
    if (!graph_ || !graph_->doubt.empty())
      return refuse(site(wanted_.place ? wanted_.place : function_.address), graph_ ? graph_->doubt : "");
    const Instruction* first = at(wanted_.place);
    if (first && first->is_landing) {  // it must stay first: behind it, in the same block
      const Instruction* next = at(first->address + first->size);
      if (!next || code_.is_target(next->address))
        return refuse(site(wanted_.place), "a landing instruction must stay first");
      return add(site(next->address));
    }
    Spot spot;
    add_block(wanted_.place, spot);
    out_.push_back(std::move(spot));
  }

  // At the block's first instruction, or at one that runs next, without a call between: as good for code
  // that has neither arguments nor a result.
  void add_block(uint64_t start, Spot& spot) const {
    spot.choices.push_back({site(start)});
    auto block = std::lower_bound(graph_->blocks.begin(), graph_->blocks.end(), start,
                                  [](const Block& one, uint64_t a) { return one.start < a; });
    const Instruction* in = at(start);
    for (size_t steps = 0; block != graph_->blocks.end() && in && steps < kMostSteps; steps++) {
      if (in->flow != Flow::next || in->address + in->size >= block->end) break;
      in = at(in->address + in->size);
      if (in) spot.choices.push_back({site(in->address)});
    }
  }

  void loop() {
    if (!graph_ || !graph_->loop_doubt.empty())
      return refuse(site(wanted_.place ? wanted_.place : function_.address),
                    graph_ ? graph_->loop_doubt : "");
    auto loop = std::find_if(graph_->loops.begin(), graph_->loops.end(),
                             [&](const Loop& one) { return one.head == wanted_.place; });
    if (loop == graph_->loops.end())
      return refuse(site(wanted_.place), "the loop is entered in the middle, too");
    switch (wanted_.kind) {
      case PointKind::loop_start:
        return block();
      case PointKind::loop_enter:
        if (loop->entered_otherwise)
          return refuse(site(wanted_.place),
                        "the head of the loop is entered from outside of the function's code");
        return edges(loop->enters);
      case PointKind::loop_exit:
        return edges(loop->exits);
      default:
        return edges(loop->backs);
    }
  }

  void edges(const std::vector<size_t>& list) {
    for (size_t e : list) {
      const Edge& edge = graph_->edges[e];
      const Instruction& last = code_.instructions[graph_->blocks[edge.from].last];
      if (edge.kind == EdgeKind::exception) {
        // Leaving by an exception is no event, as it is none of a function.
        if (wanted_.kind != PointKind::loop_exit)
          refuse(site(last.address), "an exception leads to the head of the loop");
        continue;
      }
      Spot spot;
      add_sites_of(edge, spot);
      if (spot.choices.empty()) {
        spot.choices.push_back({site(last.address)});
        spot.refusal = "a jump table leads to a place that other code reaches, too";
      }
      out_.push_back(std::move(spot));
    }
  }

  // At the edge's target, at its source; or at the one edge that leads to this one and nowhere else.
  void add_sites_of(const Edge& edge, Spot& spot) const {
    const Block& from = graph_->blocks[edge.from];
    const Instruction& last = code_.instructions[from.last];
    if (edge.to != image::kOutside) {
      const Block& to = graph_->blocks[edge.to];
      const Instruction* first = at(to.start);
      if (to.ins.size() == 1 && !to.is_root && first && !first->is_landing) add_block(to.start, spot);
    }
    if (edge.kind == EdgeKind::falls) spot.choices.push_back({site(last.address, Where::behind)});
    if (edge.kind == EdgeKind::taken) spot.choices.push_back({site(last.address, Where::taken)});
    if (edge.kind == EdgeKind::jump) spot.choices.push_back({site(last.address)});
    if (spot.choices.size() < 3 * kMostSteps && from.ins.size() == 1 && from.outs.size() == 1 &&
        !from.is_root && runs_through(from) && graph_->edges[from.ins[0]].kind != EdgeKind::exception)
      add_sites_of(graph_->edges[from.ins[0]], spot);
  }

  // True when nothing in the block can keep control: what enters it leaves it.
  bool runs_through(const Block& block) const {
    for (size_t i = block.last + 1; i-- > 0 && code_.instructions[i].address >= block.start;) {
      Flow flow = code_.instructions[i].flow;
      if (flow != Flow::next && flow != Flow::jump && flow != Flow::branch) return false;
    }
    return true;
  }

  const image::Function& function_;
  const Code& code_;
  const FlowGraph* graph_;
  const WantedSite& wanted_;
  uint32_t index_;
  std::vector<Spot> out_;
};

}  // namespace

std::vector<Spot> spots_of(const image::Function& function, const Code& code, const FlowGraph* graph,
                           const WantedSite& wanted, uint32_t index) {
  return Finder(function, code, graph, wanted, index).find();
}

}  // namespace mdl::patch
