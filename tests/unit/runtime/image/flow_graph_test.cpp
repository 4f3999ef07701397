// Blocks, edges and natural loops, on code written by hand.
#include "runtime/image/flow_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mdl::image {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kAt = 0x1000;

// `targets` are offsets: what direct branches reach, as read_code finds them.
FlowGraph graph_of(std::initializer_list<int> bytes, std::initializer_list<uint64_t> targets,
                   const Code& extra = {}) {
  std::vector<std::byte> raw;
  for (int b : bytes) raw.push_back(static_cast<std::byte>(b));
  Code code = extra;
  code.instructions = decode(raw, kAt);
  code.ranges = {{kAt, kAt + raw.size()}};
  for (uint64_t target : targets) code.targets.push_back(kAt + target);
  Function function;
  function.address = kAt;
  function.size = raw.size();
  return make_flow_graph(function, code);
}

std::vector<uint64_t> starts(const FlowGraph& graph) {
  std::vector<uint64_t> out;
  for (const Block& block : graph.blocks) out.push_back(block.start - kAt);
  return out;
}

TEST(FlowGraph, ADiamondHasFourBlocksAndNoLoop) {
  // 0: test %edi,%edi; 2: je 8; 4: nop; nop; 6: jmp 9; 8: nop; 9: ret
  auto graph = graph_of({0x85, 0xff, 0x74, 0x04, 0x90, 0x90, 0xeb, 0x01, 0x90, 0xc3}, {8, 9});
  EXPECT_EQ(graph.doubt, "");
  EXPECT_THAT(starts(graph), ElementsAre(0, 4, 8, 9));
  EXPECT_EQ(graph.edges.size(), 4u);
  EXPECT_EQ(graph.blocks[3].ins.size(), 2u);
  EXPECT_THAT(graph.loops, IsEmpty());
}

TEST(FlowGraph, ALoopHasItsEdges) {
  // 0: nop; 1: dec %edi; 3: jne 1; 5: ret
  auto graph = graph_of({0x90, 0xff, 0xcf, 0x75, 0xfc, 0xc3}, {1});
  ASSERT_EQ(graph.loops.size(), 1u);
  const Loop& loop = graph.loops[0];
  EXPECT_EQ(loop.head, kAt + 1);
  EXPECT_FALSE(loop.entered_otherwise);
  ASSERT_EQ(loop.enters.size(), 1u);
  EXPECT_EQ(graph.edges[loop.enters[0]].kind, EdgeKind::falls);
  ASSERT_EQ(loop.backs.size(), 1u);
  EXPECT_EQ(graph.edges[loop.backs[0]].kind, EdgeKind::taken);
  ASSERT_EQ(loop.exits.size(), 1u);
  EXPECT_EQ(graph.edges[loop.exits[0]].to, 2u);
}

TEST(FlowGraph, TheInnerLoopComesFirst) {
  // 0: nop; 1: nop; 2: dec %edi; 4: jne 2; 6: dec %esi; 8: jne 1; 10: ret
  auto graph = graph_of({0x90, 0x90, 0xff, 0xcf, 0x75, 0xfc, 0xff, 0xce, 0x75, 0xf7, 0xc3}, {1, 2});
  ASSERT_EQ(graph.loops.size(), 2u);
  EXPECT_EQ(graph.loops[0].head, kAt + 2);
  EXPECT_EQ(graph.loops[1].head, kAt + 1);
  EXPECT_EQ(graph.loops[1].blocks.size(), 3u);
}

TEST(FlowGraph, TwoWaysBackAreOneLoop) {
  // 0: nop; 1: dec %edi; 3: je 1; 5: dec %esi; 7: jne 1; 9: ret
  auto graph = graph_of({0x90, 0xff, 0xcf, 0x74, 0xfc, 0xff, 0xce, 0x75, 0xf8, 0xc3}, {1});
  ASSERT_EQ(graph.loops.size(), 1u);
  EXPECT_EQ(graph.loops[0].backs.size(), 2u);
}

TEST(FlowGraph, ALoopThatIsEnteredInTheMiddleIsNone) {
  // 0: je 3; 2: nop; 3: nop; 4: jne 2; 6: ret
  auto graph = graph_of({0x74, 0x01, 0x90, 0x90, 0x75, 0xfc, 0xc3}, {2, 3});
  EXPECT_THAT(graph.loops, IsEmpty());
  EXPECT_EQ(graph.irreducible.size(), 1u);
}

TEST(FlowGraph, ALoopAtTheEntryIsEnteredFromOutside) {
  auto graph = graph_of({0xff, 0xcf, 0x75, 0xfc, 0xc3}, {0});  // dec %edi; jne .; ret
  ASSERT_EQ(graph.loops.size(), 1u);
  EXPECT_TRUE(graph.loops[0].entered_otherwise);
}

// call; nop; jmp 9 (out); the handler: nop, jmp 0: it belongs to the loop that catches.
TEST(FlowGraph, AHandlerInALoopBelongsToIt) {
  // 0: nop; 1: call; 6: dec %edi; 8: jne 1; 10: ret; 11: nop; 12: jmp 6
  Code extra;
  extra.pads = {{{kAt + 1, kAt + 6}, kAt + 11}};
  auto graph =
      graph_of({0x90, 0xe8, 0, 0, 0, 0, 0xff, 0xcf, 0x75, 0xf7, 0xc3, 0x90, 0xeb, 0xf8}, {1, 6, 11}, extra);
  ASSERT_EQ(graph.loops.size(), 1u);
  EXPECT_EQ(graph.loops[0].blocks.size(), 3u);
  EXPECT_EQ(graph.loops[0].exits.size(), 1u);
}

TEST(FlowGraph, PaddingBehindAJumpIsNoBlock) {
  // 0: jmp 8; 2: nopl (6 bytes); 8: ret
  auto graph = graph_of({0xeb, 0x06, 0x66, 0x0f, 0x1f, 0x44, 0, 0, 0xc3}, {8});
  EXPECT_THAT(starts(graph), ElementsAre(0, 8));
}

TEST(FlowGraph, WhatIsNotUnderstoodHasNoLoops) {
  Code extra;
  extra.unresolved_jump = true;
  auto graph = graph_of({0xff, 0xcf, 0x75, 0xfc, 0xc3}, {0}, extra);
  EXPECT_NE(graph.doubt, "");
  EXPECT_EQ(graph.loop_doubt, graph.doubt);
  EXPECT_THAT(graph.loops, IsEmpty());
}

TEST(FlowGraph, ATableOfUnknownLengthLeavesBlocksOnly) {
  Code extra;  // 0: jmp *%rax; 2: ret
  extra.switches = {{kAt, {kAt + 2}, false}};
  auto graph = graph_of({0xff, 0xe0, 0xc3}, {2}, extra);
  EXPECT_EQ(graph.doubt, "");
  EXPECT_NE(graph.loop_doubt, "");
  EXPECT_THAT(starts(graph), ElementsAre(0, 2));
}

// No window may cover a place that might be a target; but a block there would count a second time.
TEST(FlowGraph, WhatOnlyMightBeATargetBeginsNoBlock) {
  Code extra;  // 0: nop; 1: nop; 2: ret
  extra.entered = {kAt + 1};
  auto graph = graph_of({0x90, 0x90, 0xc3}, {1}, extra);
  EXPECT_EQ(graph.doubt, "");
  EXPECT_THAT(starts(graph), ElementsAre(0));
}

TEST(FlowGraph, WhereOtherCodeJumpsABlockBegins) {
  Code extra;  // 0: nop; 1: nop; 2: ret
  extra.entered = extra.arrivals = {kAt + 1};
  auto graph = graph_of({0x90, 0x90, 0xc3}, {1}, extra);
  EXPECT_EQ(graph.doubt, "");
  EXPECT_THAT(starts(graph), ElementsAre(0, 1));
}

TEST(FlowGraph, BlocksAreDoubtedWhereOtherCodeMayJump) {
  Code extra;  // 0: nop; 1: nop; 2: ret
  extra.entered = extra.may_arrive = {kAt + 1};
  EXPECT_NE(graph_of({0x90, 0x90, 0xc3}, {1}, extra).doubt, "");
  extra.entered = extra.may_arrive = {kAt + 2};  // behind a jump, a block begins anyway; 0: jmp 2; 2: ret
  EXPECT_EQ(graph_of({0xeb, 0x00, 0xc3}, {2}, extra).doubt, "");
}

// Its further entries may be those of the next table.
TEST(FlowGraph, ATableOfUnknownLengthSplitsNoBlock) {
  Code extra;  // 0: jmp *%rax; 2: nop; 3: ret
  extra.switches = {{kAt, {kAt + 2, kAt + 3}, false}};
  EXPECT_NE(graph_of({0xff, 0xe0, 0x90, 0xc3}, {2, 3}, extra).doubt, "");
  extra.switches[0].exact = true;
  auto graph = graph_of({0xff, 0xe0, 0x90, 0xc3}, {2, 3}, extra);
  EXPECT_EQ(graph.doubt, "");
  EXPECT_THAT(starts(graph), ElementsAre(0, 2, 3));
}

TEST(FlowGraph, BlocksAreDoubtedWhereATableIsNotKnown) {
  Code extra;  // 0: jmp *%rax; 2: ret
  extra.switches = {{kAt, {}, false}};
  EXPECT_NE(graph_of({0xff, 0xe0, 0xc3}, {2}, extra).doubt, "");
}

}  // namespace
}  // namespace mdl::image
