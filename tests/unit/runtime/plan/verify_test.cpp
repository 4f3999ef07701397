// Each rule of the stencil verifier, with a stencil that keeps it and one that breaks it.
#include "runtime/plan/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/runtime/plan/plan_builder.h"

namespace mdl::plan {
namespace {

using test::filled;
using test::kVariable;
using test::rules;
using test::stencil;
using testing::HasSubstr;

// "" when admitted, else the reason.
std::string judge(const Stencil& s) {
  const auto verified = verify(rules(), s);
  if (verified) return "";
  EXPECT_EQ(verified.error().status, Status::plan_rejected);
  return verified.error().text;
}
std::string judge(const std::string& code) {
  return judge(stencil("s", code));
}
Stencil clobbering(const std::string& code, std::vector<std::string> clobbers) {
  Stencil s = stencil("s", code);
  s.info.clobbers = std::move(clobbers);
  return s;
}

TEST(Verify, KnowsItsTargets) {
  EXPECT_EQ(rules().machine, 62);
  EXPECT_EQ(rules_for("vax"), nullptr);
}

TEST(Verify, AdmitsWhatTheCompilerEmits) {
  for (const Stencil& s : test::small_stencils()) EXPECT_EQ(judge(s), "");
  EXPECT_EQ(judge(""), "");
  EXPECT_EQ(judge("4d 8b 93 [cell0]"), "");              // mov r10, [r11 + cell]
  EXPECT_EQ(judge("4d 89 93 [cell0]"), "");              // mov [r11 + cell], r10
  EXPECT_EQ(judge("49 c7 83 [cell0] 01 00 00 00"), "");  // mov qword ptr [r11 + cell], 1
  EXPECT_EQ(judge("49 c7 83 [cell0] [const1]"), "");     // mov qword ptr [r11 + cell], constant
  EXPECT_EQ(judge("49 81 83 [cell0] [const1]"), "");     // add qword ptr [r11 + cell], constant
  EXPECT_EQ(judge("49 01 bb [cell0]"), "");              // add [r11 + cell], rdi: $arg[0]
  EXPECT_EQ(judge("49 ba [const0:8]"), "");              // mov r10, imm64
  EXPECT_EQ(judge("49 89 fa 4d 8d 52 08"), "");          // mov r10, rdi; lea r10, [r10 + 8]
  EXPECT_EQ(judge("48 81 ff [const0] 0f 95 c0"),
            "stencil `s` is not admissible: at +0x7 (SETCCr): it writes rax, "
            "which the stencil does not declare [registers]");
  EXPECT_EQ(judge(clobbering("48 81 ff [const0] 0f 95 c0 0f b6 c0", {"rax"})), "");  // cmp, setne, movzx
}

TEST(Verify, RefusesInstructionsThatAreNotListed) {
  const char* const refused[] = {
      "0f 05",                          // syscall
      "0f 0b",                          // ud2
      "cc",                             // int3
      "f4",                             // hlt
      "c3",                             // ret
      "ff d0",                          // call rax
      "ff e0",                          // jmp rax
      "41 ff a3 [cell0]",               // jmp [r11 + cell]
      "50",                             // push rax
      "58",                             // pop rax
      "41 8f 83 [cell0]",               // pop [r11 + cell]
      "9d",                             // popfq
      "fd",                             // std
      "0f 30",                          // wrmsr
      "0f 01 d0",                       // xgetbv
      "a4",                             // movsb
      "0f 28 c1",                       // movaps xmm0, xmm1
      "d9 e8",                          // fld1
      "8e d8",                          // mov ds, eax
      "4d 0f b1 93 [cell0]",            // cmpxchg [r11 + cell], r10
      "45 8b 93 [cell0]",               // mov r10d, [r11 + cell]: not a whole cell
      "48 a1 00 00 00 00 00 00 00 00",  // mov rax, [moffs]
      "e2 00",                          // loop
      "e3 00",                          // jrcxz
      "c4 e2 f9 f7 c0",                 // shlx
      "06",                             // no instruction
      "48",                             // half an instruction
      "49 83 83",                       // half an instruction
  };
  for (const char* code : refused) EXPECT_NE(judge(clobbering(code, {"rax", "rcx"})), "") << code;
}

TEST(Verify, RefusesPrefixes) {
  EXPECT_THAT(judge("f0 49 83 83 [cell0] 01"), HasSubstr("LOCK_PREFIX"));  // lock add
  EXPECT_THAT(judge("65 4d 8b 93 [cell0]"), HasSubstr("prefix"));          // mov r10, gs:[...]
  EXPECT_THAT(judge("2e 4d 8b 93 [cell0]"), HasSubstr("prefix"));          // cs prefix, ignored by the CPU
  EXPECT_THAT(judge("67 4d 8b 93 [cell0]"), HasSubstr("prefix"));          // 32-bit address
  EXPECT_NE(judge("f3 4d 8b 93 [cell0]"), "");                             // rep
  EXPECT_NE(judge("48 49 83 83 [cell0] 01"), "");                          // two REX
}

TEST(Verify, MemoryIsTheThreadsBlockOnly) {
  EXPECT_THAT(judge("4d 8b 92 [cell0]"), HasSubstr("not based on the thread block"));     // [r10 + cell]
  EXPECT_THAT(judge("4c 8b 97 [cell0]"), HasSubstr("not based on the thread block"));     // [rdi + cell]
  EXPECT_THAT(judge("4c 8b 94 24 [cell0]"), HasSubstr("not based on the thread block"));  // [rsp + cell]
  EXPECT_THAT(judge("4c 8b 15 [cell0]"), HasSubstr("not based on the thread block"));     // [rip + cell]
  EXPECT_THAT(judge("4c 8b 14 25 [cell0]"), HasSubstr("not based on the thread block"));  // [cell]
  EXPECT_THAT(judge("4d 8b 94 03 [cell0]"), HasSubstr("index register"));       // [r11 + rax + cell]
  EXPECT_THAT(judge("4f 8b 94 d3 [cell0]"), HasSubstr("index register"));       // [r11 + 8*r10 + cell]
  EXPECT_THAT(judge("64 4d 8b 93 [cell0]"), HasSubstr("prefix"));               // fs:[r11 + cell]
  EXPECT_THAT(judge("4d 8b 13"), HasSubstr("fixed displacement"));              // [r11]
  EXPECT_THAT(judge("4d 8b 93 40 00 00 00"), HasSubstr("fixed displacement"));  // [r11 + 64]
  EXPECT_THAT(judge("4d 8b 53 08"), HasSubstr("fixed displacement"));           // [r11 + 8]
  EXPECT_THAT(judge("4d 8b 93 [const0]"), HasSubstr("constant is used as an address"));
}

TEST(Verify, CellsAreUsedAsDeclared) {
  Stencil load = stencil("s", "4d 8b 93 [cell0]"), store = stencil("s", "4d 89 93 [cell0]"),
          add = stencil("s", "49 83 83 [cell0] 01");
  for (Stencil* s : {&load, &store, &add}) s->info.cells[0].reads = false;
  EXPECT_THAT(judge(load), HasSubstr("does not declare to read"));
  EXPECT_EQ(judge(store), "");
  EXPECT_EQ(judge(add), "");
  for (Stencil* s : {&load, &store, &add})
    s->info.cells[0] = {"value", format::CellKind::counter, true, false};
  EXPECT_EQ(judge(load), "");
  EXPECT_THAT(judge(store), HasSubstr("does not declare to write"));
  EXPECT_THAT(judge(add), HasSubstr("does not declare to write"));
  EXPECT_THAT(judge("4d 8b 93 [cell1]"), HasSubstr("not declared"));
  EXPECT_THAT(judge("49 83 83 [guard] 01"), HasSubstr("writes the flag of a guard"));
}

TEST(Verify, OffsetsAreNoNumbers) {
  EXPECT_THAT(judge("49 c7 c2 [cell0]"), HasSubstr("used as a number"));  // mov r10, cell
  EXPECT_THAT(judge("49 c7 83 [cell0] [cell0]"), HasSubstr("used as a number"));
  EXPECT_THAT(judge("4d 8d 92 [cell0]"), HasSubstr("used as a number"));  // lea r10, [r10 + cell]
  EXPECT_THAT(judge("49 c7 c2 [next]"), HasSubstr("not the target of a branch"));
  EXPECT_THAT(judge("0f 84 [cell0]"), HasSubstr("not `mdl_next`"));
}

TEST(Verify, RegistersAreWrittenAsDeclared) {
  EXPECT_THAT(judge("48 89 f8"), HasSubstr("writes rax"));  // mov rax, rdi
  EXPECT_EQ(judge(clobbering("48 89 f8", {"rax"})), "");
  EXPECT_THAT(judge("b0 01"), HasSubstr("not on the list"));  // mov al, 1
  EXPECT_THAT(judge("31 c0"), HasSubstr("writes rax"));       // xor eax, eax
  EXPECT_THAT(judge("0f 94 c4"), HasSubstr("writes rax"));    // sete ah
  EXPECT_THAT(judge("49 89 fb"), HasSubstr("writes r11"));    // mov r11, rdi
  EXPECT_THAT(judge("48 89 fc"), HasSubstr("writes rsp"));    // mov rsp, rdi
  EXPECT_THAT(judge("4c 8d 1f"), HasSubstr("writes r11"));    // lea r11, [rdi]
  EXPECT_THAT(judge("49 87 c2"), HasSubstr("writes rax"));    // xchg r10, rax
  EXPECT_THAT(judge(clobbering("49 89 fb", {"r11"})), HasSubstr("must preserve"));
  EXPECT_THAT(judge(clobbering("48 89 fc", {"rsp"})), HasSubstr("must preserve"));
  EXPECT_THAT(judge(clobbering("", {"xmm0"})), HasSubstr("is no register"));
  EXPECT_THAT(judge(clobbering("48 99", {"rax"})), HasSubstr("writes rdx"));  // cqo
}

TEST(Verify, FlagsAreWrittenAsDeclared) {
  Stencil s = stencil("s", "49 83 83 [cell0] 01");
  s.info.writes_flags = false;
  EXPECT_THAT(judge(s), HasSubstr("changes the flags"));
  s = stencil("s", "4d 8b 93 [cell0] 4d 8d 52 01 4d 89 93 [cell0]");  // mov; lea r10, [r10 + 1]; mov
  s.info.writes_flags = false;
  EXPECT_EQ(judge(s), "");
}

TEST(Verify, BranchesGoForwardOntoInstructions) {
  EXPECT_EQ(judge("4d 85 d2 74 00"), "");                       // je to the end
  EXPECT_EQ(judge("4d 85 d2 74 03 49 ff c2"), "");              // je over inc r10
  EXPECT_EQ(judge("4d 85 d2 0f 84 [next] 49 ff c2"), "");       // je next
  EXPECT_THAT(judge("eb fe"), HasSubstr("backward"));           // jmp to itself
  EXPECT_THAT(judge("4d 85 d2 74 fb"), HasSubstr("backward"));  // je to the start
  EXPECT_THAT(judge("4d 85 d2 74 04 49 ff c2"), HasSubstr("out of the stencil"));
  EXPECT_THAT(judge("4d 85 d2 0f 84 ff ff ff 7f"), HasSubstr("out of the stencil"));
  EXPECT_THAT(judge("4d 85 d2 74 01 49 ff c2"), HasSubstr("middle of an instruction"));
  EXPECT_THAT(judge("eb 03 49 ff c2"), HasSubstr("never reached"));
}

TEST(Verify, HolesAreExactlyFields) {
  Stencil s = stencil("s", "49 83 83 [cell0] 01");
  for (const uint32_t offset : {0u, 1u, 2u, 4u}) {
    s.holes[0].offset = offset;
    EXPECT_NE(judge(s), "") << offset;
  }
  s = stencil("s", "49 ba [const0:8]");  // mov r10, imm64
  s.holes[0].size = 4;
  EXPECT_THAT(judge(s), HasSubstr("not exactly"));
  s.holes[0].offset = 6;
  EXPECT_THAT(judge(s), HasSubstr("not exactly"));
  s = stencil("s", "90 90 [const0]");
  EXPECT_NE(judge(s), "");
  s = stencil("s", "49 ff c2 49 ff c2 49 ff c2");  // a hole over the border of two instructions
  s.holes = {{2, 4, HoleKind::constant, 0, 0}};
  EXPECT_NE(judge(s), "");
  s = stencil("s", "49 83 83 [cell0] 01");
  s.holes[0].addend = 8;
  EXPECT_THAT(judge(s), HasSubstr("adds to the offset"));
}

TEST(Verify, DivisionsCannotTrap) {
  const std::string divide = "48 99 48 f7 f9 48 89 c0 48 89 c0";
  const auto judge_division = [](const std::string& code) {
    return judge(clobbering(code, {"rax", "rdx", "rcx"}));
  };
  // Sizes: 5 + 6 + 11 bytes: both branches go to the end.
  EXPECT_EQ(judge_division("48 85 c9 74 11 48 83 f9 ff 74 0b " + divide), "");
  EXPECT_THAT(judge_division(divide), HasSubstr("may be 0"));
  EXPECT_THAT(judge_division("48 85 c9 74 0b " + divide), HasSubstr("may be -1"));
  EXPECT_THAT(judge_division("48 83 f9 ff 74 0b " + divide), HasSubstr("may be 0"));
  // The wrong way round: divides when the divisor is 0.
  EXPECT_THAT(judge_division("48 85 c9 75 11 48 83 f9 ff 74 0b " + divide), HasSubstr("may be 0"));
  // jne to the division itself: only that path is known.
  EXPECT_THAT(judge_division("48 83 f9 ff 74 10 48 85 c9 75 00 " + divide), HasSubstr("may be 0"));
  // The divisor changes after the test: mov rcx, rdi.
  EXPECT_THAT(judge_division("48 85 c9 74 14 48 83 f9 ff 74 0e 48 89 f9 " + divide), HasSubstr("may be 0"));
  // The flags change between the comparison and the branch: cmp rdi, 0.
  EXPECT_THAT(judge_division("48 85 c9 48 83 ff 00 74 11 48 83 f9 ff 74 0b " + divide),
              HasSubstr("may be 0"));
  // An immediate divisor: mov rcx, 10.
  EXPECT_EQ(judge_division("48 c7 c1 0a 00 00 00 " + divide), "");
  EXPECT_THAT(judge_division("48 c7 c1 00 00 00 00 " + divide), HasSubstr("may be 0"));
  EXPECT_THAT(judge_division("48 c7 c1 ff ff ff ff " + divide), HasSubstr("may be -1"));
  EXPECT_THAT(judge_division("48 c7 c1 [const0] " + divide), HasSubstr("may be 0"));
  // A copy of a tested divisor: mov r10, rcx; cqo; idiv r10.
  EXPECT_EQ(judge_division("48 85 c9 74 0e 48 83 f9 ff 74 08 49 89 ca 48 99 49 f7 fa"), "");
  // rdx is not the sign of rax: mov rdx, rdi; idiv rcx. And rax changes after cqo.
  EXPECT_THAT(judge_division("48 c7 c1 0a 00 00 00 48 89 fa 48 f7 f9"), HasSubstr("cqo"));
  EXPECT_THAT(judge_division("48 c7 c1 0a 00 00 00 48 99 48 89 f8 48 f7 f9"), HasSubstr("cqo"));
  // Other divisions are not on the list: div rcx, idiv ecx, idiv of memory.
  for (const char* code :
       {"48 c7 c1 0a 00 00 00 48 99 48 f7 f1", "48 c7 c1 0a 00 00 00 48 99 f7 f9", "48 99 49 f7 bb [cell0]"})
    EXPECT_THAT(judge_division(code), HasSubstr("not on the list"));
}

// A stencil with an event counter, a variable and a function, and all routines.
Stencil with_world(const std::string& code) {
  Stencil s = clobbering(code, {"rax", "rdx"});
  s.info.cells.push_back({"events", format::CellKind::event_counter, true, true});
  s.info.cells.push_back({"other", format::CellKind::call, true, true});
  s.info.cells.push_back({"flag", format::CellKind::flag, true, true});
  s.info.symbols = {{"level", format::SymbolKind::variable}, {"work", format::SymbolKind::function}};
  s.info.routines = {format::Routine::cpu, format::Routine::event, format::Routine::read,
                     format::Routine::call};
  return s;
}
std::string judge_world(const std::string& code) {
  return judge(with_world(code));
}

TEST(Verify, TheClock) {
  EXPECT_EQ(judge_world("0f 31 48 c1 e2 20 48 09 d0"), "");            // rdtsc; shl rdx, 32; or rax, rdx
  EXPECT_THAT(judge("0f 31"), HasSubstr("does not declare"));          // rax and rdx
  EXPECT_THAT(judge_world("0f 01 f9"), HasSubstr("not on the list"));  // rdtscp
}

TEST(Verify, SecondWordsAreThoseOfCellsThatHaveThem) {
  Stencil s = with_world("4d 8b 93 [cell1]");  // mov r10, [r11 + cell]
  const auto with = [&](uint32_t cell, int64_t addend) {
    s.holes[0].index = cell;
    s.holes[0].addend = addend;
    return judge(s);
  };
  EXPECT_EQ(with(1, 8), "");
  EXPECT_EQ(with(2, 56), "");
  for (auto [cell, addend] : {std::pair(0, 8), {1, 16}, {1, -8}, {1, 4}, {2, 64}, {3, 8}})
    EXPECT_THAT(with(static_cast<uint32_t>(cell), addend), HasSubstr("adds to the offset"))
        << cell << " " << addend;
}

TEST(Verify, TheThreadIsRead) {
  EXPECT_EQ(judge("4d 8b 93 [thread]"), "");
  EXPECT_THAT(judge("4d 89 93 [thread]"), HasSubstr("writes the thread's id"));
  EXPECT_THAT(judge("49 c7 c2 [thread]"), HasSubstr("used as a number"));
}

TEST(Verify, AddressesAreOfCellsReadAndWritten) {
  EXPECT_EQ(judge("4d 8d 93 [cell0]"), "");                                  // lea r10, [r11 + cell]
  EXPECT_THAT(judge("4f 8d 94 13 [cell0]"), HasSubstr("used as a number"));  // lea r10, [r11 + r10 + cell]
  EXPECT_THAT(judge("4d 8d 93 [anomalies]"), HasSubstr("used as a number"));
  EXPECT_THAT(judge("4d 8d 93 [thread]"), HasSubstr("used as a number"));
  for (const bool reads : {false, true}) {
    Stencil s = stencil("s", "4d 8d 93 [cell0]");
    s.info.cells[0].reads = reads;
    s.info.cells[0].writes = !reads;
    EXPECT_THAT(judge(s), HasSubstr("takes the address of cell `value`"));
  }
}

TEST(Verify, VariablesAreReadInOneWayOnly) {
  EXPECT_EQ(judge_world(kVariable), "");
  const char* const refused[] = {
      "48 b8 [symbol0:8]",                                                        // the address alone
      "48 b8 [symbol0:8] 48 8b 00",                                               // without the shifts
      "48 b8 [symbol0:8] 48 8b 40 08 48 c1 e0 [left0:1] 48 c1 f8 [right0:1]",     // [rax + 8]
      "48 b8 [symbol0:8] 48 8b 04 10 48 c1 e0 [left0:1] 48 c1 f8 [right0:1]",     // [rax + rdx]
      "48 b8 [symbol0:8] 48 8b 10 48 c1 e2 [left0:1] 48 c1 fa [right0:1]",        // mov rdx, [rax]
      "48 b8 [symbol0:8] 48 8b 00 48 c1 f8 [right0:1] 48 c1 e0 [left0:1]",        // the wrong order
      "48 b8 [symbol0:8] 48 8b 00 48 c1 e0 [right0:1] 48 c1 f8 [left0:1]",        // exchanged
      "48 b8 [symbol0:8] 48 8b 00 48 c1 e2 [left0:1] 48 c1 f8 [right0:1]",        // shl rdx
      "48 b8 [symbol0:8] 48 8b 00 48 c1 e0 08 48 c1 f8 08",                       // fixed shifts
      "48 b8 [symbol1:8] 48 8b 00 48 c1 e0 [left1:1] 48 c1 f8 [right1:1]",        // a function
      "48 b8 [symbol0:8] 90 48 8b 00 48 c1 e0 [left0:1] 48 c1 f8 [right0:1]",     // not in a row
      "48 b8 [symbol0:8] 48 89 00 48 c1 e0 [left0:1] 48 c1 f8 [right0:1]",        // a store
      "48 b8 [const0:8] 48 8b 00 48 c1 e0 [left0:1] 48 c1 f8 [right0:1]",         // a number's bytes
      "74 0a 48 b8 [symbol0:8] 48 8b 00 48 c1 e0 [left0:1] 48 c1 f8 [right0:1]",  // entered behind movabs
      "48 c1 e0 [left0:1]",                                                       // a shift alone
  };
  for (const char* code : refused) EXPECT_NE(judge_world(code), "") << code;
  Stencil s = with_world(kVariable);
  s.holes[1].index = 1;  // the shifts of another symbol
  EXPECT_THAT(judge(s), HasSubstr("application symbol"));
}

// What notes calls gets the address of a cell for that, and nothing else in its place.
TEST(Verify, CallsAreNotedInTheirCells) {
  using enum format::Routine;
  for (const format::Routine routine : {enter, kept, elapsed, stayed, pause, resume}) {
    const auto with = [&](const std::string& before) {
      Stencil s = with_world(before + fmt::format("e8 [{}]", format::info(routine).name));
      s.info.cells.push_back({"entries", format::CellKind::entries, true, true});
      s.info.routines = {routine};
      return judge(s);
    };
    EXPECT_EQ(with("49 8d 83 [cell4] "), "");  // lea rax, [r11 + cell]
    for (const char* before : {"", "49 8d 83 [cell0] ", "49 8d 83 [cell2] ", "49 8d 93 [cell4] ",
                               "49 8d 83 [cell4] 49 ff c2 ", "74 07 49 8d 83 [cell4] "})
      EXPECT_THAT(with(before), HasSubstr("is not prepared")) << format::info(routine).name << before;
  }
}

TEST(Verify, RoutinesAreCalledAsDeclared) {
  EXPECT_EQ(judge_world("e8 [cpu]"), "");
  EXPECT_EQ(judge_world("49 89 fa e8 [read] 4d 89 93 [cell0]"), "");
  EXPECT_EQ(judge_world("41 ba 00 00 00 00 e8 [event]"), "");  // mov r10d, 0; call
  EXPECT_THAT(judge("e8 [cpu]"), HasSubstr("does not declare"));
  EXPECT_THAT(judge_world("e8 00 00 00 00"), HasSubstr("no resident routine"));
  EXPECT_THAT(judge_world("e8 [next]"), HasSubstr("not the target of a branch"));
  EXPECT_THAT(judge_world("e9 [cpu]"), HasSubstr("not `mdl_next`"));  // jmp
  EXPECT_THAT(judge_world("0f 84 [cpu]"), HasSubstr("not `mdl_next`"));
  EXPECT_THAT(judge_world("49 c7 c2 [cpu]"), HasSubstr("not the destination of a call"));
  // Its number is not one of an event, or not known.
  for (const char* code : {"41 ba 08 00 00 00 e8 [event]", "e8 [event]", "49 c7 c2 [const0] e8 [event]",
                           "74 06 41 ba 00 00 00 00 e8 [event]", "b8 00 00 00 00 e8 [event]"})
    EXPECT_THAT(judge_world(code), HasSubstr("routine `event` is not prepared")) << code;
  Stencil s = with_world("e8 [cpu]");
  s.info.writes_flags = false;
  EXPECT_THAT(judge(s), HasSubstr("changes the flags"));
}

// movabs r10, function; mov [r11 + cell2 + 8], r10; lea r10, [r11 + cell2]; call
Stencil a_call(const std::string& code) {
  Stencil s = with_world(code);
  for (Hole& h : s.holes)
    if (h.kind == HoleKind::cell && h.index == 2) {
      h.addend = 8;
      break;
    }
  return s;
}

TEST(Verify, CallsGoToTheFunctionThatIsDeclared) {
  const std::string good = "49 ba [symbol1:8] 4d 89 93 [cell2] 4d 8d 93 [cell2] e8 [call]";
  EXPECT_EQ(judge(a_call(good)), "");
  Stencil s = a_call("4c 89 d0 49 ba [symbol1:8] 4d 89 93 [cell2] 4d 8d 93 [cell2] e8 [call]");
  EXPECT_THAT(judge(s), testing::IsEmpty());                                    // mov rax, r10 before it
  EXPECT_THAT(judge(a_call("4d 89 93 [cell2]")), HasSubstr("which function"));  // some other number
  EXPECT_THAT(judge(a_call("49 ba [const0:8] 4d 89 93 [cell2] 4d 8d 93 [cell2] e8 [call]")),
              HasSubstr("which function"));
  EXPECT_THAT(judge(a_call("49 83 83 [cell2] 01")), HasSubstr("which function"));  // add
  EXPECT_THAT(judge(a_call("4d 87 93 [cell2]")), HasSubstr("which function"));     // xchg
  EXPECT_NE(judge(a_call("49 ba [symbol0:8] 4d 89 93 [cell2] 4d 8d 93 [cell2] e8 [call]")), "");
  EXPECT_NE(judge(a_call("49 ba [symbol1:8] 4d 89 93 [cell2] 4d 8d 93 [cell1] e8 [call]")), "");
  EXPECT_NE(judge(a_call("49 ba [symbol1:8] 49 89 83 [cell2] 4d 8d 93 [cell2] e8 [call]")), "");  // of rax
  EXPECT_NE(judge(a_call("49 ba [symbol1:8] 4d 89 93 [cell2] 49 8d 83 [cell2] e8 [call]")), "");  // in rax
  EXPECT_NE(judge(a_call("49 ba [symbol1:8] 4d 89 93 [cell2] e8 [call]")), "");
  EXPECT_THAT(judge_world("4d 8d 93 [cell2] e8 [call]"), HasSubstr("routine `call` is not prepared"));
  // A branch into it: je to the lea.
  EXPECT_NE(judge(a_call("74 11 " + good)), "");
  s = a_call(good);
  s.info.cells[2].kind = format::CellKind::event_counter;
  EXPECT_NE(judge(s), "");
}

std::string judge_filled(const Stencil& s, const std::vector<int64_t>& values, uint64_t block = 128) {
  const auto verified = verify_filled(rules(), s, filled(s, values), block);
  return verified ? "" : verified.error().text;
}

TEST(VerifyFilled, CellsLieInTheBlock) {
  const Stencil add = stencil("s", "49 83 83 [cell0] 01");
  for (const int64_t good : {0, 64, 120}) EXPECT_EQ(judge_filled(add, {good}), "") << good;
  for (const int64_t bad : {-8, 1, 60, 121, 127, 128, 1 << 30, INT32_MIN})
    EXPECT_THAT(judge_filled(add, {bad}), HasSubstr("not a cell")) << bad;
  EXPECT_THAT(judge_filled(add, {0}, 0), HasSubstr("not a cell"));
  EXPECT_THAT(judge_filled(add, {0}, 7), HasSubstr("not a cell"));
}

TEST(VerifyFilled, TheContinuationLiesBehind) {
  const Stencil guard = test::guard_stencil();
  EXPECT_EQ(judge_filled(guard, {64, 0}), "");
  EXPECT_EQ(judge_filled(guard, {64, 100}), "");
  EXPECT_THAT(judge_filled(guard, {64, -1}), HasSubstr("continuation"));
  EXPECT_THAT(judge_filled(guard, {64, -14}), HasSubstr("continuation"));
}

TEST(VerifyFilled, VariablesAndRoutines) {
  const Stencil read = with_world(kVariable);
  EXPECT_EQ(judge_filled(read, {0x7000'0008, 56, 60}), "");
  EXPECT_THAT(judge_filled(read, {0x7000'0001, 56, 56}), HasSubstr("aligned"));
  EXPECT_THAT(judge_filled(read, {0x7000'0008, 64, 56}), HasSubstr("shifts"));
  EXPECT_THAT(judge_filled(read, {0x7000'0008, 0, -1}), HasSubstr("shifts"));
  const Stencil call = with_world("e8 [cpu]");
  for (int64_t good : {0, 100, -6, INT32_MIN}) EXPECT_EQ(judge_filled(call, {good}), "") << good;
  for (int64_t bad : {-5, -4, -1}) EXPECT_THAT(judge_filled(call, {bad}), HasSubstr("inside")) << bad;
}

TEST(VerifyFilled, NothingElseHasChanged) {
  const Stencil add = stencil("s", "49 83 83 [cell0] 01");
  for (size_t at : {0, 1, 2, 7}) {
    std::vector<std::byte> code = filled(add, {64});
    code[at] ^= std::byte{1};
    const auto verified = verify_filled(rules(), add, code, 128);
    ASSERT_FALSE(verified) << at;
    EXPECT_THAT(verified.error().text, HasSubstr("differs"));
  }
  std::vector<std::byte> longer = filled(add, {64});
  longer.push_back(std::byte{0xc3});
  EXPECT_FALSE(verify_filled(rules(), add, longer, 128));
}

}  // namespace
}  // namespace mdl::plan
