// The sites of a point: at which instructions the code of an entry, a return, a call, a block or a
// loop must stand so that it runs once for each such event, and not otherwise.
//
//   entry       at the function's first instruction, behind a landing instruction; or at its first call
//   return      at each way out; or at all ways to a return that branches reach
//   call        at the call. A direct one is turned to the trampoline in place; in front of an indirect one,
//               behind the instruction that runs into it
//   call_after  at the next instruction, or at one that it runs on to before anything branches. Where
//               a branch leads to it, too, the call is armed: two sites, both or none; unless its code may run
//               more often
//   block       at its first instruction
//   loop        start_iter at the head; the others on edges. The code of an edge stands at its target
//               where no other edge leads there, or at its source: behind it, in front of its jump, or
//               on the taken side of its branch
//
// An event that could be missed, or counted where there is none, is a refusal. Deciding only: nothing is read
// or changed but the decoded code.
#pragma once

#include <string>
#include <vector>

#include "runtime/image/code.h"
#include "runtime/image/flow_graph.h"
#include "runtime/patch/site.h"

namespace mdl::patch {

// One event: the sites at which it can be seen, the preferred first; all sites of a choice must be taken.
struct Spot {
  std::vector<std::vector<Site>> choices;  // at least one, also with a refusal: what was refused
  std::string refusal;                     // "" = it can be tried
};

// `graph` is of the code; it is needed for blocks and loops only. `index` becomes Site::point.
std::vector<Spot> spots_of(const image::Function& function, const image::Code& code,
                           const image::FlowGraph* graph, const WantedSite& wanted, uint32_t index);

}  // namespace mdl::patch
