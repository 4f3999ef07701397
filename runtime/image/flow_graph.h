// The control flow of one function: basic blocks, the edges between them, and natural loops.
//
// A block begins where control may arrive other than from the instruction before, and behind each
// jump; a call does not end one. A loop is natural: its head dominates the sources of the edges back
// to it; edges back to one head are one loop. A cycle that a goto enters in the middle is no natural loop and
// is listed apart. Exceptions count as edges from a call to its landing pad, so that a handler inside a loop
// belongs to the loop; nothing can be inserted on them.
//
// A block too many counts 0 where nothing runs into it, but counts twice what it splits; one too few counts too
// little. So `doubt` says when it is not known whether one begins in the midst of another, and `loop_doubt` when
// an edge may be missing or may not exist.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/image/code.h"

namespace mdl::image {

enum class EdgeKind : uint8_t {
  falls,      // into the next instruction, also of a conditional jump that is not taken
  taken,      // of a conditional jump
  jump,       // unconditional
  table,      // of a switch
  exception,  // to a landing pad
};

inline constexpr size_t kOutside = SIZE_MAX;  // Edge::to of a jump out of the function

struct Edge {
  size_t from = 0, to = 0;  // indices into FlowGraph::blocks
  EdgeKind kind = EdgeKind::falls;
};

struct Block {
  uint64_t start = 0, end = 0;
  size_t last = 0;                // index of its last instruction in Code::instructions
  bool is_root = false;           // entered also from outside: the entry, unknown jumps
  std::vector<size_t> ins, outs;  // indices into FlowGraph::edges
};

struct Loop {
  uint64_t head = 0;
  std::vector<size_t> blocks;                // sorted
  std::vector<size_t> enters, backs, exits;  // edges
  bool entered_otherwise = false;            // the head is entered also from outside of the function's code
};

struct FlowGraph {
  std::vector<Block> blocks;  // by address
  std::vector<Edge> edges;
  std::vector<Loop> loops;            // inner ones before those around them
  std::vector<uint64_t> irreducible;  // where such a loop is entered, as far as known; by address
  std::string doubt;                  // why blocks cannot be trusted, "" = they can
  std::string loop_doubt;             // the same for loops; holds whenever `doubt` does
};

FlowGraph make_flow_graph(const Function& function, const Code& code);

}  // namespace mdl::image
