// The text form: prints, parses back, and names what is wrong with the line.
#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace mdl::ir {
namespace {

// Every operation once.
constexpr const char* kEverything = R"ir(snippet calls_entry.2 at entry temps 12 labels 2 from 1:20:300 {
  cell calls counter
  cell $inside flag
  cell wall wall_timer
  cell faults event_timer MINOR_FAULTS
  cell switches event_counter VOLUNTARY_SWITCHES
  cell out call
  constant {"kind":"selected","number":3,"position":[0,0,0]}
  variable "queue#length, 1"
  function "operator new(unsigned long)"
  %0 = copy -9223372036854775808
  %0 = arg 5
  %1 = constant 0
  %2 = load calls
  store calls, %2
  add_cell calls, 1
  release $inside, %1
  %3 = add %0, %1
  %4 = sub %0, -1
  %5 = mul 2, %1
  %6 = div %0, %1
  %7 = neg %0
  %7 = and %0, 1
  %7 = or %0, %7
  %7 = xor %0, %7
  %7 = shl %0, 64
  %7 = shr %7, %0
  %7 = symbol 0
  %7 = thread
  %7 = address wall
  start_timer wall
  stop_timer faults
  sample_event switches
  %7 = read_address %7
  %8 = enter_call out
  call_arg out, %8, 0
  %8 = call out, 1
  leave_call out
  jump_zero %7, L1
  %8 = eq %0, %1
  %8 = ne %0, %1
  %9 = lt %0, %1
  %9 = le %0, %1
  %10 = gt %0, %1
  %11 = ge %0, 9223372036854775807
  jump L0
L1:
L0:
}
snippet r_return at return temps 1 labels 0 from 0:0:0 {
  %0 = result
}
)ir";

TEST(IrText, RoundTrip) {
  Result<std::vector<Snippet>> parsed = parse(kEverything);
  ASSERT_TRUE(parsed) << parsed.error().text;
  ASSERT_EQ(parsed->size(), 2u);
  const Snippet& first = (*parsed)[0];
  EXPECT_EQ(first.name, "calls_entry.2");
  EXPECT_EQ(first.position, (format::Position{1, 20, 300}));
  EXPECT_EQ(first.cells[1].kind, format::CellKind::flag);
  EXPECT_EQ(first.insts[6], (Inst{Op::release, kNoTemp, Operand::temp(1), Operand::none(), 1}));
  EXPECT_EQ(print(first) + print((*parsed)[1]), kEverything);
}

TEST(IrText, CommentsAndBlankLines) {
  auto parsed =
      parse("\n# a comment\n  snippet a at call temps 0 labels 0 from 0:1:1 { # more\n\n } # end\n");
  ASSERT_TRUE(parsed) << parsed.error().text;
  EXPECT_EQ(parsed->at(0).point, format::PointKind::call_before);
}

TEST(IrText, NamesTheLineAndTheError) {
  const std::string head = "snippet a at entry temps 2 labels 1 from 0:1:1 {\ncell c counter\n";
  const std::pair<std::string, const char*> cases[] = {
      {"snip", "line 1: expected \"snippet\""},
      {"snippet a on entry", "line 1: expected \"at POINT\""},
      {"snippet a at middle", "unknown point \"middle\""},
      {"snippet a at entry temps x", "expected \"temps N\""},
      {"snippet a at entry temps 1 labels -1", "expected \"labels N\""},
      {"snippet a at entry temps 1 labels 1 from 0:1", "expected \"from"},
      {"snippet a at entry temps 1 labels 1 from 0:1:1", "expected \"{\""},
      {"snippet a at entry temps 1 labels 1 from 0:1:1 { x", "unexpected \"x\""},
      {head, "no closing brace"},
      {head + "cell d bag", "line 3: unknown kind of cell \"bag\""},
      {head + "%0 = jump L0", "\"jump\" has no result"},
      {head + "add 1, 2", "\"add\" needs a result"},
      {head + "%0 = frob 1", "unknown operation \"frob\""},
      {head + "%0 = label", "unknown operation \"label\""},
      {head + "%0 add 1, 2", "expected \"%N = OPERATION\""},
      {head + "%x = add 1, 2", "expected \"%N = OPERATION\""},
      {head + "%0 = add 1", "expected a second operand"},
      {head + "%0 = add 1, 99999999999999999999", "expected a second operand"},
      {head + "%0 = add %99999999999, 1", "expected an operand"},
      {head + "%0 = load d", "unknown cell \"d\""},
      {head + "%0 = arg x", "expected a number"},
      {head + "jump 0", "expected a label"},
      {head + "jump L0, 1", "unexpected \"1\""},
      {head + "Lx:", "bad label"},
  };
  for (const auto& [text, message] : cases) {
    Result<std::vector<Snippet>> parsed = parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().text.find(message), std::string::npos) << text << "\n" << parsed.error().text;
  }
}

}  // namespace
}  // namespace mdl::ir
