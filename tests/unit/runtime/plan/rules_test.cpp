// Every rule of the verifier has a stencil here that breaks it and nothing else before it: the message must
// end with the rule's name. A rule without one fails, and so does one that docs/plan-format.md does not list.
#include "runtime/plan/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "runtime/plan/verify.h"
#include "tests/unit/runtime/plan/plan_builder.h"

namespace mdl::plan {
namespace {

using test::filled;
using test::kVariable;
using test::rules;
using Change = std::function<void(Stencil&)>;

// A stencil that declares a bit of everything.
Stencil world(const std::string& code, const Change& change = {}) {
  Stencil s = test::stencil("s", code);
  s.info.clobbers = {"rax", "rdx", "rcx"};
  s.info.cells.push_back({"other", format::CellKind::call, true, true});
  s.info.symbols = {{"level", format::SymbolKind::variable}, {"work", format::SymbolKind::function}};
  s.info.routines = {format::Routine::cpu, format::Routine::event, format::Routine::call};
  if (change) change(s);
  return s;
}

std::string repeated(int times, const std::string& code) {
  std::string out;
  for (int i = 0; i < times; ++i) out += " " + code;
  return out;
}

struct Broken {
  Rule rule;
  std::string code;
  Change change = {};
};

const std::vector<Broken>& broken_stencils() {
  static const Change second_word = [](Stencil& s) { s.holes[0].addend = 8; };
  static const Change with_histogram = [](Stencil& s) {
    s.info.cells.push_back({"sizes", format::CellKind::histogram, true, true});
    s.info.routines.push_back(format::Routine::observe);
  };
  static const std::vector<Broken> all = {
      {Rule::decodes, "06"},
      {Rule::decodes, "49 83 83"},
      {Rule::listed, "0f 05"},                     // syscall
      {Rule::listed, "c3"},                        // ret
      {Rule::listed, "ff e0"},                     // jmp rax
      {Rule::listed, "48 89 c4 0f 0b"},            // ud2 behind what is refused later
      {Rule::listed, "4d 0f c1 93 [cell0]"},       // xadd
      {Rule::listed, "48 0f ae 18"},               // fxrstor's kin
      {Rule::listed, "f3 48 0f ae d0"},            // wrfsbase rax
      {Rule::prefix, "65 4d 8b 93 [cell0]"},       // gs:
      {Rule::prefix, "67 4d 8b 93 [cell0]"},       // 32-bit address
      {Rule::prefix, "d5 09 89 fa"},               // REX2: mov r10, rdi where there is APX, a trap elsewhere
      {Rule::same_instruction, "[const0] 90 90"},  // the opcode is a hole
      {Rule::same_register, "4d 8b [left0:1]"},    // the ModRM byte is a hole
      {Rule::whole_field, "49 ba [const0:8]", [](Stencil& s) { s.holes[0].size = 4; }},
      {Rule::whole_field, "49 83 83 [cell0] 01", [](Stencil& s) { s.holes[0].offset = 4; }},
      {Rule::hole_kind, "49 c7 c2 [cell0]"},   // mov r10, offset
      {Rule::hole_kind, "4d 8b 93 [const0]"},  // mov r10, [r11 + number]
      {Rule::hole_kind, "4d 8d 92 [cell0]"},   // lea r10, [r10 + offset]
      {Rule::clobber, "", [](Stencil& s) { s.info.clobbers = {"xmm0"}; }},
      {Rule::clobber, "", [](Stencil& s) { s.info.clobbers = {"rsp"}; }},
      {Rule::clobber, "", [](Stencil& s) { s.info.clobbers = {"r11"}; }},
      {Rule::block, "4d 89 92 [cell0]"},     // mov [r10 + cell], r10
      {Rule::block, "48 89 bc 24 [cell0]"},  // mov [rsp + cell], rdi
      {Rule::block, "4c 89 15 [cell0]"},     // mov [rip + cell], r10: the code itself
      {Rule::block, "4c 89 14 25 [cell0]"},  // mov [cell], r10
      {Rule::index, "4d 89 94 03 [cell0]"},  // mov [r11 + rax + cell], r10
      {Rule::cell, "4d 89 13"},              // mov [r11], r10
      {Rule::cell, "4d 89 93 40 00 00 00"},  // mov [r11 + 64], r10
      {Rule::cell, "4d 89 93 [cell7]"},      // not declared
      {Rule::word, "4d 89 93 [cell0]", second_word},
      {Rule::word, "4d 89 93 [cell0]", [](Stencil& s) { s.holes[0].addend = -8; }},
      {Rule::word, "4d 89 93 [cell0]", [](Stencil& s) { s.holes[0].addend = INT64_MAX; }},
      {Rule::reads, "4d 8b 93 [cell0]", [](Stencil& s) { s.info.cells[0].reads = false; }},
      {Rule::writes, "4d 89 93 [cell0]", [](Stencil& s) { s.info.cells[0].writes = false; }},
      {Rule::writes, "4d 87 93 [cell0]", [](Stencil& s) { s.info.cells[0].writes = false; }},  // xchg
      {Rule::read_only, "4d 89 93 [thread]"},
      {Rule::read_only, "49 83 83 [guard] 01"},
      {Rule::address, "4d 8d 93 [cell0]", [](Stencil& s) { s.info.cells[0].writes = false; }},
      {Rule::registers, "48 89 fb"},     // mov rbx, rdi
      {Rule::registers, "48 89 fc"},     // mov rsp, rdi
      {Rule::registers, "49 89 fb"},     // mov r11, rdi
      {Rule::registers, "48 83 c4 08"},  // add rsp, 8
      {Rule::registers, "4c 87 dc"},     // xchg rsp, r11
      {Rule::flags, "49 ff c2", [](Stencil& s) { s.info.writes_flags = false; }},
      {Rule::routine, "e8 00 00 00 00"},
      {Rule::routine, "e8 [cpu]", [](Stencil& s) { s.info.routines.clear(); }},
      {Rule::routine, "49 c7 c2 [cpu]"},
      {Rule::prepared, "e8 [event]"},
      {Rule::prepared, "4d 8d 93 [cell1] e8 [call]"},
      {Rule::prepared, "e8 [observe]", with_histogram},
      {Rule::prepared, "49 8d 83 [cell1] e8 [observe]", with_histogram},  // the cell of a call
      {Rule::prepared, "49 8d 93 [cell2] e8 [observe]", with_histogram},  // in rdx
      {Rule::prepared, "49 8d 83 [cell2] 49 ff c2 e8 [observe]", with_histogram},
      {Rule::prepared, "4d 85 d2 74 07 49 8d 83 [cell2] e8 [observe]", with_histogram},
      {Rule::hole_kind, "49 8d 83 [cell2] e8 [observe]",
       [](Stencil& s) { with_histogram(s), s.holes[0].addend = 8; }},
      {Rule::function, "4d 89 93 [cell1]", second_word},
      {Rule::function, "49 83 83 [cell1] 01", second_word},
      {Rule::symbol, "48 b8 [symbol0:8]"},
      {Rule::symbol, "48 b8 [symbol1:8] 48 8b 00 48 c1 e0 [left1:1] 48 c1 f8 [right1:1]"},
      {Rule::next, "49 c7 c2 [next]"},
      {Rule::next, "0f 84 [cell0]"},
      {Rule::next, "e9 [cpu]"},
      {Rule::forward, "eb fe"},
      {Rule::forward, "49 ff c2 4d 85 d2 0f 84 f4 ff ff ff"},
      {Rule::inside, "eb 01"},
      {Rule::inside, "4d 85 d2 0f 84 ff ff ff 7f"},
      {Rule::onto_instruction, "4d 85 d2 74 01 49 ff c2"},
      {Rule::reached, "eb 03 49 ff c2"},
      {Rule::dividend, "48 c7 c1 0a 00 00 00 48 f7 f9"},
      {Rule::divisor, "48 99 48 f7 f9"},
      {Rule::divisor, "48 85 c9 74 05 48 99 48 f7 f9"},  // 0 is excluded, -1 is not
      {Rule::divisor, "48 c7 c1 [const0] 48 99 48 f7 f9"},
      {Rule::dear, repeated(500, "e8 [cpu]")},
      {Rule::dear, repeated(9000, "4d 87 93 [cell0]")},  // xchg: locked
  };
  return all;
}

// The text of an error without "Rule", with the rule's name.
std::string tag(Rule rule) {
  return "[" + std::string(info(rule).name) + "]";
}

struct BrokenFilled {
  Rule rule;
  std::string code;
  std::vector<int64_t> values;
};
const std::vector<BrokenFilled>& broken_fillings() {
  static const std::vector<BrokenFilled> all = {
      {Rule::filled_cell, "49 83 83 [cell0] 01", {128}},  // behind the block of 128 bytes
      {Rule::filled_cell, "49 83 83 [cell0] 01", {-8}},
      {Rule::filled_cell, "49 83 83 [cell0] 01", {124}},  // half outside, and not aligned
      {Rule::filled_cell, "49 83 83 [cell0] 01", {0xffff'fff8}},
      {Rule::filled_next, "4d 85 d2 0f 84 [next]", {-9}},  // to its own beginning
      {Rule::filled_next, "4d 85 d2 0f 84 [next]", {INT32_MIN}},
      {Rule::filled_routine, "e8 [cpu]", {-5}},
      {Rule::filled_symbol, kVariable, {0x1001, 56, 56}},
      {Rule::filled_symbol, kVariable, {0x1000, 64, 56}},
      {Rule::filled_symbol, kVariable, {0x1000, 56, 200}},
  };
  return all;
}

TEST(Rules, EachIsBrokenByAStencil) {
  std::set<Rule> seen;
  for (const Broken& one : broken_stencils()) {
    auto verified = verify(rules(), world(one.code, one.change));
    ASSERT_FALSE(verified) << one.code;
    EXPECT_THAT(verified.error().text, testing::EndsWith(tag(one.rule))) << one.code;
    EXPECT_EQ(verified.error().status, Status::plan_rejected);
    seen.insert(one.rule);
  }
  for (const BrokenFilled& one : broken_fillings()) {
    const Stencil s = world(one.code);
    ASSERT_TRUE(verify(rules(), s)) << one.code;
    auto verified = verify_filled(rules(), s, filled(s, one.values), 128);
    ASSERT_FALSE(verified) << one.code;
    EXPECT_THAT(verified.error().text, testing::EndsWith(tag(one.rule))) << one.code;
    seen.insert(one.rule);
  }
  // What the holes hold is the only difference between a stencil and its filling: looked at twice.
  const Stencil add = world("49 83 83 [cell0] 01");
  for (size_t at : {0, 1, 2, 7}) {
    std::vector<std::byte> code = filled(add, {64});
    code[at] ^= std::byte{0x40};
    auto first = verify_filled(rules(), add, code, 128);
    ASSERT_FALSE(first);
    EXPECT_THAT(first.error().text, testing::EndsWith(tag(Rule::filled_same)));
  }
  std::vector<std::byte> other = filled(add, {64});
  other[1] = std::byte{0x81};  // an immediate of four bytes: longer than the code
  for (size_t size : {other.size(), other.size() - 1, size_t{0}}) {
    auto second = rules().verify_filled(add, std::span(other).first(size), 128);
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().text, testing::EndsWith(tag(Rule::filled_same)));
  }
  seen.insert(Rule::filled_same);

#define X(id, name, what) EXPECT_TRUE(seen.contains(Rule::id)) << "no stencil breaks the rule " << name;
  MDL_STENCIL_RULES(X)
#undef X
}

// The cost is that of the code, whatever the plan says: of the dearest path, and of a chain where it is long.
TEST(Cost, IsThatOfTheCode) {
  const auto cost = [](const std::string& code) {
    Stencil s = world(code);
    EXPECT_TRUE(verify(rules(), s)) << code;
    rules().note(s);
    return s.cost;
  };
  const std::string add = "49 83 83 [cell0] 01";
  EXPECT_EQ(cost("").cycles, 0u);
  EXPECT_LE(cost(add).cycles, 100u);  // what mdlc predicts
  EXPECT_EQ(cost(add).routine_ns, 0u);
  EXPECT_LE(cost(repeated(10, add)).cycles, 1000u);
  // On most processors each waits for the one before, and then it is 5 cycles.
  EXPECT_GT(cost(repeated(1000, add)).cycles, 400'000u);
  const uint64_t one = cost("e8 [cpu]").routine_ns;
  EXPECT_EQ(one, format::info(format::Routine::cpu).nanoseconds);
  EXPECT_EQ(cost(repeated(100, "e8 [cpu]")).routine_ns, 100 * one);
  // A branch over a call: the path with it counts, and so does it when more instructions are on the other.
  EXPECT_EQ(cost("4d 85 d2 74 05 e8 [cpu]").routine_ns, one);
  EXPECT_EQ(cost("4d 85 d2 74 07 e8 [cpu] eb 0c" + repeated(4, "49 ff c2")).routine_ns, one);
}

TEST(Rules, EachIsInTheManual) {
  std::ifstream file(MDL_SOURCE_DIR "/docs/plan-format.md");
  std::stringstream text;
  text << file.rdbuf();
#define X(id, name, what) EXPECT_THAT(text.str(), testing::HasSubstr("| `" name "` | " what)) << name;
  MDL_STENCIL_RULES(X)
#undef X
}

}  // namespace
}  // namespace mdl::plan
