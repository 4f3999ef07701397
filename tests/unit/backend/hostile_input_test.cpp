// Damaged text: whatever stands in it, readers answer, and what they accept the rest of
// the compiler can work with. Deterministic; the sanitizer builds run it too.
#include <gtest/gtest.h>

#include <random>

#include "backend/stencil.h"
#include "compiler/ir/interpret.h"
#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/passes.h"
#include "format/manifest.h"

namespace mdl {
namespace {

using Random = std::mt19937_64;

// A few bytes replaced, taken away, doubled, or exchanged for a number or another part of the text.
std::string damaged(std::string text, Random& random) {
  for (uint64_t times = 1 + random() % 4; times-- > 0 && !text.empty();) {
    size_t at = random() % text.size();
    size_t length = std::min<size_t>(1 + random() % 12, text.size() - at);
    switch (random() % 5) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text.replace(at, length, std::to_string(static_cast<int64_t>(random() >> random() % 64)));
        break;
      case 4:
        text.insert(at, text.substr(random() % text.size(), length));
        break;
    }
  }
  return text;
}

constexpr const char* kIr = R"(snippet calls_entry at entry temps 6 labels 3 from 1:20:300 {
  cell calls counter
  cell inside flag
  constant {"kind":"selected","number":3,"position":[0,0,0]}
  %0 = arg 5
  %1 = constant 0
  %2 = load calls
  store calls, %2
  add_cell calls, 1
  release inside, %1
  %3 = div %0, %1
  %4 = mul 4294967297, %1
  jump_zero %4, L1
  %5 = lt %0, %1
  jump_zero %5, L2
  %5 = ge %0, 9223372036854775807
  jump L0
L1:
L0:
  %3 = sub %3, %3
  store calls, %3
L2:
}
)";

TEST(HostileInput, IrText) {
  Random random(7);
  const backend::Target& target = *backend::find_target("x86_64");
  int accepted = 0;
  for (int i = 0; i < 20000; i++) {
    auto parsed = ir::parse(damaged(kIr, random));
    if (!parsed) continue;
    for (ir::Snippet& snippet : *parsed) {
      if (!ir::verify(snippet)) continue;
      accepted++;
      ir::Machine machine;
      machine.cells.resize(snippet.cells.size());
      ir::interpret(snippet, machine);
      ASSERT_TRUE(passes::run_passes(snippet, {})) << ir::print(snippet);
      ASSERT_TRUE(ir::verify(snippet)) << ir::print(snippet);
      if (auto stencil = backend::make_stencil(snippet, target)) backend::assembly(*stencil, 0);
      auto again = ir::parse(ir::print(snippet));
      ASSERT_TRUE(again) << ir::print(snippet);
      EXPECT_EQ(again->at(0), snippet);
    }
  }
  EXPECT_GT(accepted, 200);  // else the damage is too great to test more than the parser
}

// `foreach f in l { if (f == 5) {} }`, a list and a stencil.
format::Manifest small_manifest() {
  format::Expr five;
  five.number = 5;
  format::Placement condition;
  condition.kind = format::PlacementKind::if_;
  condition.expr = {
      format::ExprKind::binary, "==", 0, {{format::ExprKind::variable, "f", 0, {}, {}}, five}, {}};
  format::Placement loop;
  loop.kind = format::PlacementKind::foreach_;
  loop.variable = "f";
  loop.expr = {format::ExprKind::list, "l", 0, {}, {0, 3, 9}};
  loop.body = {condition};
  format::Manifest manifest;
  manifest.target = "x86_64";
  manifest.lists = {{"l", "string", {"a"}, {"unix"}, false, {0, 1, 1}}};
  manifest.statements = {loop};
  manifest.stencils.resize(1);
  manifest.stencils[0].name = "s_entry";
  manifest.stencils[0].clobbers = {"rax"};
  return manifest;
}

TEST(HostileInput, Manifest) {
  const std::string text = format::write_manifest(small_manifest());
  ASSERT_TRUE(format::read_manifest(text));
  Random random(11);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 20000; i++) {
    auto read = format::read_manifest(damaged(text, random));
    if (!read) {
      EXPECT_EQ(read.error().status, Status::plan_rejected);
      refused++;
      continue;
    }
    // What was accepted can be written, and read back equal.
    accepted++;
    auto again = format::read_manifest(format::write_manifest(*read));
    ASSERT_TRUE(again) << again.error().text;
    EXPECT_TRUE(*again == *read) << format::write_manifest(*read) << "\n" << format::write_manifest(*again);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace mdl
