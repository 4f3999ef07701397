// Which windows are taken and which are refused, on code written by hand.
#include <gtest/gtest.h>

#include "runtime/arch/bytes.h"
#include "runtime/arch/description.h"
#include "runtime/arch/point.h"
#include "runtime/arch/windows.h"
#include "runtime/patch/liveness.h"
#include "runtime/patch/relay.h"
#include "runtime/patch/site.h"

namespace mdl::patch {
namespace {

using format::PointKind;

constexpr uint64_t kAt = 0x1000;

image::Code code_of(std::initializer_list<int> bytes, std::vector<uint64_t> targets = {},
                    std::vector<image::Exit> exits = {}) {
  std::vector<std::byte> raw;
  for (int b : bytes) raw.push_back(static_cast<std::byte>(b));
  image::Code out;
  out.instructions = image::decode(raw, kAt);
  out.targets = std::move(targets);
  out.exits = std::move(exits);
  return out;
}

image::Function function_of(const image::Code& code) {
  image::Function out;
  out.name = "f";
  out.address = kAt;
  out.size = code.instructions.back().address + code.instructions.back().size - kAt;
  return out;
}

FunctionSites plan(const image::Code& code, bool entry = true, bool exits = true) {
  std::vector<WantedSite> wanted;
  if (entry) wanted.push_back({PointKind::entry});
  if (exits) wanted.push_back({PointKind::return_});
  return plan_sites(function_of(code), code, wanted);
}

TEST(Sites, WholeInstructionsAtTheEntry) {
  // push %rbp; mov %rsp,%rbp; mov %edi,%eax; pop %rbp; ret
  auto code =
      code_of({0x55, 0x48, 0x89, 0xe5, 0x89, 0xf8, 0x5d, 0xc3}, {}, {{kAt + 7, image::ExitKind::return_}});
  auto sites = plan(code, true, false);
  ASSERT_EQ(sites.windows.size(), 1u);
  EXPECT_EQ(sites.windows[0].start, kAt);
  EXPECT_EQ(sites.windows[0].end, kAt + 6);
  EXPECT_TRUE(sites.refusals.empty());
}

TEST(Sites, EntryAndExitShareAWindowWhenTheyOverlap) {
  // xor %eax,%eax; ret; nopl 0(%rax,%rax,1) [5 bytes of padding]
  auto code =
      code_of({0x31, 0xc0, 0xc3, 0x0f, 0x1f, 0x44, 0x00, 0x00}, {}, {{kAt + 2, image::ExitKind::return_}});
  auto sites = plan(code);
  ASSERT_EQ(sites.windows.size(), 1u);
  EXPECT_EQ(sites.windows[0].sites.size(), 2u);
  EXPECT_EQ(sites.windows[0].tactic, Tactic::padding);
  EXPECT_EQ(sites.windows[0].instructions.size(), 2u);  // without the padding
}

TEST(Sites, OneByteFunctionIsEntryAndExitAtOnce) {
  auto code = code_of({0xc3, 0x66, 0x90, 0x66, 0x90}, {},
                      {{kAt, image::ExitKind::return_}});  // ret; xchg %ax,%ax twice
  auto sites = plan(code);
  ASSERT_EQ(sites.windows.size(), 1u);
  ASSERT_EQ(sites.windows[0].sites.size(), 2u);
  EXPECT_EQ(sites.windows[0].sites[0].kind, format::PointKind::entry);
  EXPECT_EQ(sites.windows[0].sites[1].kind, format::PointKind::return_);
}

TEST(Sites, NoRoomIsRefused) {
  auto code = code_of({0x31, 0xc0, 0xc3}, {}, {{kAt + 2, image::ExitKind::return_}});  // xor %eax,%eax; ret
  auto sites = plan(code);
  EXPECT_TRUE(sites.windows.empty());
  EXPECT_EQ(sites.refusals.size(), 2u);
}

TEST(Sites, ABranchIntoTheWindowIsRefused) {
  // push %rbp; mov %rsp,%rbp; mov %edi,%eax; pop %rbp; ret, with a branch to the second instruction
  auto code = code_of({0x55, 0x48, 0x89, 0xe5, 0x89, 0xf8, 0x5d, 0xc3}, {kAt + 1});
  auto sites = plan(code, true, false);
  ASSERT_EQ(sites.refusals.size(), 1u);
  EXPECT_EQ(sites.refusals[0].reason, "a branch leads into it");
}

// GCC's layout of main: nop [the end of main.cold's padding]; sub $8,%rsp; call; add $8,%rsp; ret.
TEST(Sites, NoWindowBeginsInFrontOfTheEntry) {
  auto code = code_of({0x90, 0x48, 0x83, 0xec, 0x08, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 0x08, 0xc3});
  auto function = function_of(code);
  function.address = kAt + 1;
  code.entries = {kAt + 1};
  const WantedSite entry{PointKind::entry};
  auto sites = plan_sites(function, code, std::span(&entry, 1));
  ASSERT_EQ(sites.windows.size(), 1u);
  EXPECT_EQ(sites.windows[0].tactic, Tactic::call);
  EXPECT_EQ(sites.windows[0].start, kAt + 5);
  code.instructions.erase(code.instructions.begin() + 2, code.instructions.end());  // without the call
  EXPECT_EQ(plan_sites(function, code, std::span(&entry, 1)).windows.size(), 0u);
}

// A function may begin with nops (-fpatchable-function-entry): they are no padding of what stands before
// them.
TEST(Sites, PaddingEndsWhereAFunctionBegins) {
  auto code = code_of({0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90});
  EXPECT_EQ(unreachable_padding(code).size(), 1u);
  code.entries = {kAt + 3};
  EXPECT_TRUE(unreachable_padding(code).empty());
}

TEST(Sites, ALoopHeadIsNoEntry) {
  auto code = code_of({0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3, 0x90, 0x90}, {kAt});  // dec %rdi; jne .; ret
  auto sites = plan(code, true, false);
  ASSERT_EQ(sites.refusals.size(), 1u);
  EXPECT_NE(sites.refusals[0].reason.find("loop"), std::string::npos);
}

TEST(Sites, ACallIsNotMoved) {
  // mov (%rdi),%eax twice; call .+5; add $8,%rsp; ret
  auto code = code_of({0x8b, 0x07, 0x8b, 0x07, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 0x08, 0xc3}, {},
                      {{kAt + 13, image::ExitKind::return_}});
  auto sites = plan(code);
  ASSERT_EQ(sites.refusals.size(), 1u);
  EXPECT_NE(sites.refusals[0].reason.find("call"), std::string::npos);
  ASSERT_EQ(sites.windows.size(), 1u);  // the exit: add and ret
  EXPECT_EQ(sites.windows[0].start, kAt + 9);
}

TEST(Sites, WhatMayFaultIsNotMovedWhereFaultsAreCaught) {
  // mov (%rdi),%eax; add $1,%eax; ret
  auto code = code_of({0x8b, 0x07, 0x83, 0xc0, 0x01, 0xc3}, {}, {{kAt + 5, image::ExitKind::return_}});
  EXPECT_EQ(plan(code, true, false).windows.size(), 1u);
  code.catches_faults = true;
  auto sites = plan(code, true, false);
  EXPECT_TRUE(sites.windows.empty());
  ASSERT_EQ(sites.refusals.size(), 1u);
  EXPECT_NE(sites.refusals[0].reason.find("may fault"), std::string::npos);
  // call *0x10(%rdi), six bytes: a call in its place would read that elsewhere
  auto call = code_of({0xff, 0x97, 0x10, 0x00, 0x00, 0x00, 0xc3});
  EXPECT_EQ(plan(call, true, false).windows.size(), 1u);
  call.catches_faults = true;
  EXPECT_TRUE(plan(call, true, false).windows.empty());
}

TEST(Sites, ACallAtTheEntryIsTurnedInPlace) {
  auto code = code_of({0xe8, 0, 0, 0, 0, 0xc3});  // call .+5; ret
  auto sites = plan(code, true, false);
  ASSERT_EQ(sites.windows.size(), 1u);
  EXPECT_EQ(sites.windows[0].tactic, Tactic::call);
}

TEST(Sites, TheLandingInstructionStaysFirst) {
  // endbr64; push %rbp; mov %rsp,%rbp; mov %edi,%eax; ret
  auto code = code_of({0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x89, 0xf8, 0xc3});
  auto sites = plan(code, true, false);
  ASSERT_EQ(sites.windows.size(), 1u);
  EXPECT_EQ(sites.windows[0].start, kAt + 4);
}

TEST(Sites, AJumpDoesNotCrossAPage) {
  std::vector<std::byte> raw(5, std::byte{0x90});
  image::Code code;
  code.instructions = image::decode(raw, 0x1ffe);
  image::Function f;
  f.address = 0x1ffe, f.size = 5;
  WantedSite wanted{PointKind::entry};
  auto sites = plan_sites(f, code, {&wanted, 1});
  ASSERT_EQ(sites.refusals.size(), 1u);
  EXPECT_NE(sites.refusals[0].reason.find("page"), std::string::npos);
}

TEST(Sites, DoubtAboutExitsRefusesThem) {
  auto code =
      code_of({0x55, 0x48, 0x89, 0xe5, 0x89, 0xf8, 0x5d, 0xc3}, {}, {{kAt + 7, image::ExitKind::return_}});
  code.doubt = "an indirect jump";
  auto sites = plan(code);
  EXPECT_EQ(sites.windows.size(), 1u);
  ASSERT_EQ(sites.refusals.size(), 1u);
  EXPECT_EQ(sites.refusals[0].reason, "an indirect jump");
}

TEST(Sites, ATailJumpHasNoResult) {
  auto code = code_of({0xe9, 0, 0x10, 0, 0}, {}, {{kAt, image::ExitKind::tail_jump}});  // jmp elsewhere
  EXPECT_EQ(plan(code, false, true).windows.size(), 1u);
  WantedSite wanted{PointKind::return_, 0, true, true};
  auto sites = plan_sites(function_of(code), code, {&wanted, 1});
  EXPECT_TRUE(sites.windows.empty());
  ASSERT_EQ(sites.refusals.size(), 1u);
  wanted.only_result = false;  // code that does not read it runs there
  EXPECT_EQ(plan_sites(function_of(code), code, {&wanted, 1}).windows.size(), 1u);
}

// sub $8,%rsp; call .+5; add $8,%rsp; ret
TEST(Sites, AnEntryStandsAtTheFirstCall) {
  auto code = code_of({0x48, 0x83, 0xec, 0x08, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 0x08, 0xc3});
  auto sites = plan(code, true, false);
  ASSERT_EQ(sites.windows.size(), 1u);
  EXPECT_EQ(sites.windows[0].tactic, Tactic::call);
  EXPECT_EQ(sites.windows[0].sites[0].address, kAt + 4);
  EXPECT_EQ(sites.windows[0].sites[0].deeper, 8u);
  WantedSite reader{PointKind::entry};
  reader.arguments = true;
  EXPECT_EQ(plan_sites(function_of(code), code, {&reader, 1}).refusals.size(), 1u);
  code.targets = {kAt + 4};  // a branch leads to the call, past the entry
  EXPECT_EQ(plan(code, true, false).refusals.size(), 1u);
}

// push %rbx; mov (%rdi),%ebx; call .+5: the load may fault
TEST(Sites, AnEntryDoesNotPassALoad) {
  auto code = code_of({0x53, 0x8b, 0x1f, 0xe8, 0, 0, 0, 0, 0x5b, 0xc3});
  auto sites = plan(code, true, false);
  EXPECT_TRUE(sites.windows.empty());
  EXPECT_EQ(sites.refusals.size(), 1u);
}

// push %rbx; call *0x10(%rip) [6 bytes]; or call *8(%rsp), whose operand would be another one
TEST(Sites, AnIndirectCallOfSixBytesIsTurned) {
  auto code = code_of({0x53, 0xff, 0x15, 0x10, 0, 0, 0, 0x5b, 0xc3});
  auto sites = plan(code, true, false);
  ASSERT_EQ(sites.windows.size(), 1u);
  EXPECT_EQ(sites.windows[0].tactic, Tactic::call);
  EXPECT_EQ(sites.windows[0].end - sites.windows[0].start, 6u);
  auto stack = code_of({0x53, 0xff, 0x94, 0x24, 0x08, 0, 0, 0, 0x5b, 0xc3});
  EXPECT_EQ(plan(stack, true, false).refusals.size(), 1u);
}

// 0: test %edi,%edi; 2: je 7; 4: mov %edx,%eax; 6: ret; 7: mov %ecx,%eax; 9: jmp 4; 11: nop (5); 16: nop (5)
image::Code joined() {
  return code_of({0x85, 0xff, 0x74, 0x03, 0x89, 0xd0, 0xc3, 0x89, 0xc8, 0xeb, 0xf9,
                  0x0f, 0x1f, 0x44, 0,    0,    0x0f, 0x1f, 0x44, 0,    0},
                 {kAt + 4, kAt + 7}, {{kAt + 6, image::ExitKind::return_}});
}

TEST(Sites, AShortJumpLeadsToPadding) {
  auto sites = plan(joined(), false, true);
  ASSERT_EQ(sites.windows.size(), 1u) << (sites.refusals.empty() ? "" : sites.refusals[0].reason);
  EXPECT_EQ(sites.windows[0].tactic, Tactic::short_);
  EXPECT_EQ(sites.windows[0].start, kAt + 4);
  EXPECT_EQ(sites.windows[0].end, kAt + 7);
  EXPECT_EQ(sites.windows[0].relay, kAt + 11);
  EXPECT_EQ(arch::window_short_jump(kAt + 4, kAt + 11), (arch::Bytes{0xeb, 0x05}));
}

TEST(Sites, ARelayIsNotPlacedWhereABranchLeads) {
  auto code = joined();
  code.targets.push_back(kAt + 11), code.targets.push_back(kAt + 16);
  EXPECT_TRUE(plan(code, false, true).windows.empty());
  code = joined();
  code.unresolved_jump = true;
  code.ranges = {{kAt, kAt + 21}};
  EXPECT_TRUE(plan(code, false, true).windows.empty());
}

// Two returns that need a relay each: there is room for two, and they do not share it.
TEST(Sites, RelaysDoNotOverlap) {
  auto code = code_of({0x89, 0xd0, 0xc3, 0x89, 0xc8, 0xc3, 0x89, 0xc8, 0xeb, 0xf3,
                       0x0f, 0x1f, 0x44, 0,    0,    0x0f, 0x1f, 0x44, 0,    0},
                      {kAt, kAt + 3, kAt + 6},
                      {{kAt + 2, image::ExitKind::return_}, {kAt + 5, image::ExitKind::return_}});
  auto sites = plan(code, false, true);
  ASSERT_EQ(sites.windows.size(), 2u);
  EXPECT_EQ(sites.windows[0].relay, kAt + 10);
  EXPECT_EQ(sites.windows[1].relay, kAt + 15);
}

// As without optimization, 25 bytes: push %rbp; mov %rsp,%rbp; sub $16,%rsp; mov %rdi,-8(%rbp); mov
// %rsi,-16(%rbp); 16: call; 21: leave; 22: ret; and 23: the next function.
const std::initializer_list<int> kPlain = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10,
                                           0x48, 0x89, 0x7d, 0xf8, 0x48, 0x89, 0x75, 0xf0,
                                           0xe8, 0,    0,    0,    0,    0xc9, 0xc3};
image::Code plain() {
  return code_of(kPlain, {}, {{kAt + 22, image::ExitKind::return_}});
}

const Window* window_at(const FunctionSites& sites, uint64_t start) {
  for (const Window& window : sites.windows)
    if (window.start == start) return &window;
  return nullptr;
}

TEST(Sites, TheEntryHostsARelay) {
  auto sites = plan(plain());
  ASSERT_EQ(sites.windows.size(), 2u) << (sites.refusals.empty() ? "" : sites.refusals[0].reason);
  const Window *host = window_at(sites, kAt), *window = window_at(sites, kAt + 21);
  ASSERT_TRUE(host && window);
  EXPECT_EQ(host->end, kAt + 12) << "long enough for two jumps";
  EXPECT_EQ(host->instructions.size(), 4u);
  EXPECT_EQ(host->relays, 1u);
  EXPECT_EQ(window->tactic, Tactic::short_);
  EXPECT_TRUE(window->hosted);
  EXPECT_EQ(window->relay, kAt + 5);
  EXPECT_EQ(window->end, kAt + 23);
}

TEST(Sites, WithoutAnotherPointAHostIsMade) {
  auto sites = plan(plain(), false, true);
  ASSERT_EQ(sites.windows.size(), 2u);
  const Window* window = window_at(sites, kAt + 21);
  ASSERT_TRUE(window);
  const Window* host = window_at(sites, window->relay - arch::kMachine.jump_size);
  ASSERT_TRUE(host);
  EXPECT_TRUE(host->sites.empty());
  EXPECT_GE(host->end, host->start + 10);
  EXPECT_LE(host->end, kAt + 16) << "the call stays";
}

// What a window may not hold, a host may not either.
TEST(Sites, AHostIsAWindowLikeOthers) {
  auto code = plain();
  code.targets = {kAt + 8};
  EXPECT_EQ(plan(code).refusals.size(), 1u) << "a branch leads into it";
  code = plain();
  code.unresolved_jump = true;
  EXPECT_EQ(plan(code).refusals.size(), 2u);
  code = plain();
  for (image::Instruction& in : code.instructions) in.address += 0xff8;  // 8 bytes before a page's end
  code.exits[0].address += 0xff8;
  image::Function function;
  function.address = kAt + 0xff8, function.size = 23;
  const WantedSite wanted[] = {{PointKind::entry}, {PointKind::return_}};
  EXPECT_EQ(plan_sites(function, code, wanted).refusals.size(), 1u) << "its write would cross a page";
}

// Two short returns: leave; ret; 23: mov $16,%eax (a branch leads there); call; leave; ret
TEST(Sites, AHostHasRoomForTwoRelays) {
  std::vector<int> bytes(kPlain);
  bytes.insert(bytes.end(), {0xb8, 16, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0xc9, 0xc3});
  std::vector<std::byte> raw;
  for (int b : bytes) raw.push_back(static_cast<std::byte>(b));
  image::Code code;
  code.instructions = image::decode(raw, kAt);
  code.targets = {kAt + 23};
  code.exits = {{kAt + 22, image::ExitKind::return_}, {kAt + 34, image::ExitKind::return_}};
  auto sites = plan(code);
  ASSERT_EQ(sites.windows.size(), 3u) << (sites.refusals.empty() ? "" : sites.refusals[0].reason);
  EXPECT_EQ(sites.windows[0].relays, 2u);
  EXPECT_EQ(sites.windows[0].end, kAt + 16);
  EXPECT_EQ(sites.windows[1].relay + sites.windows[2].relay, 2 * kAt + 5 + 10);
}

// A host takes no room from other points, also from those that come later.
TEST(Sites, AHostKeepsItsRelaysWhenItGrows) {
  const WantedSite wanted[] = {{PointKind::return_}, {PointKind::entry}, {PointKind::call_before, kAt + 16}};
  auto code = plain();
  auto sites = plan_sites(function_of(code), code, wanted);
  EXPECT_TRUE(sites.refusals.empty());
  ASSERT_EQ(sites.windows.size(), 3u);
  EXPECT_EQ(sites.windows[0].relays, 1u);
  EXPECT_EQ(sites.windows[1].tactic, Tactic::call);
}

TEST(Sites, AHostStaysWhileItsRelaysAreNeeded) {
  auto windows = plan(plain()).windows;
  drop_windows(windows, [](const Window& window) { return window.start == kAt; });
  EXPECT_EQ(windows.size(), 2u);
  drop_windows(windows, [](const Window&) { return true; });
  EXPECT_TRUE(windows.empty());
}

std::vector<image::Mapping> mappings_at(std::initializer_list<std::pair<uint64_t, uint64_t>> ranges) {
  std::vector<image::Mapping> out;
  for (auto [start, end] : ranges) {
    out.emplace_back();
    out.back().start = start, out.back().end = end;
  }
  return out;
}

TEST(Sites, APunnedJumpEndsWithWhatFollows) {
  // 0: pop %rbx (target); 1: ret; 2: lea 0x1000(%rdi,%rdi,2),%rax: 48 8d 84 7f ...; ret
  auto code = code_of({0x5b, 0xc3, 0x48, 0x8d, 0x84, 0x7f, 0, 0x10, 0, 0, 0xc3}, {kAt, kAt + 2},
                      {{kAt + 1, image::ExitKind::return_}});
  constexpr uint64_t kFar = uint64_t{1} << 40;
  for (image::Instruction& in : code.instructions) in.address += kFar;
  for (uint64_t& target : code.targets) target += kFar;
  code.exits[0].address += kFar;
  image::Function function;
  function.address = kFar + kAt, function.size = 11;
  WantedSite wanted{PointKind::return_};
  StubSpace space(mappings_at({{kFar, kFar + 0x10000}}));
  auto sites = plan_sites(function, code, {&wanted, 1}, &space);
  ASSERT_EQ(sites.windows.size(), 1u);
  const Window& window = sites.windows[0];
  EXPECT_EQ(window.tactic, Tactic::punned);
  EXPECT_EQ(window.kept, (std::vector<uint8_t>{0x48, 0x8d, 0x84}));
  auto jump = arch::window_jump(window.start, window.stub);
  EXPECT_EQ((std::vector<uint8_t>(jump.begin() + 2, jump.end())), window.kept);
  EXPECT_EQ(space.regions().size(), 1u);
  // Without a space there are none, nor where all of it is taken.
  EXPECT_EQ(plan_sites(function, code, {&wanted, 1}).refusals.size(), 1u);
  StubSpace full(mappings_at({{0x10000, uint64_t{1} << 46}}));
  EXPECT_EQ(plan_sites(function, code, {&wanted, 1}, &full).refusals.size(), 1u);
}

// 0: lea 3(%rdi),%rax; 4: test $1,%edi; 10: jne 13; 12: ret; 13: mov $16,%eax; 18: test $2,%edi; 24: jne 12;
// 26: add $7,%rax; 30: ret
const std::initializer_list<int> kWays = {0x48, 0x8d, 0x47, 0x03, 0xf7, 0xc7, 1,    0,    0,    0, 0x75,
                                          0x01, 0xc3, 0xb8, 16,   0,    0,    0,    0xf7, 0xc7, 2, 0,
                                          0,    0,    0x75, 0xf2, 0x48, 0x83, 0xc0, 0x07, 0xc3};

TEST(Sites, AReturnIsSeenOnAllWaysToIt) {
  auto code = code_of(kWays, {kAt + 12, kAt + 13}, {{kAt + 12, image::ExitKind::return_}});
  auto sites = plan(code, false, true);
  ASSERT_EQ(sites.windows.size(), 2u);
  EXPECT_TRUE(sites.refusals.empty());
  size_t events = 0;
  for (const Window& window : sites.windows)
    for (const Site& site : window.sites) {
      EXPECT_EQ(site.instead_of, kAt + 12);
      events += site.again ? 0 : 1;
    }
  EXPECT_EQ(events, 1u);
  // Code elsewhere may jump there, too: then not all ways are known.
  code.entered = {kAt + 12};
  EXPECT_EQ(plan(code, false, true).refusals.size(), 1u);
}

TEST(Stubs, AreApartAndShareAPage) {
  StubSpace space(mappings_at({{0x40000000, 0x50000000}}));
  auto first = space.take({0x10000000, 0x11000000}), second = space.take({0x10000000, 0x11000000});
  ASSERT_TRUE(first && second);
  EXPECT_GE(*second, *first + arch::kMachine.far_jump_size);
  EXPECT_EQ(space.regions().size(), 1u);
  EXPECT_FALSE(space.take({*first + 1, *first + 2}));           // inside of the first one
  EXPECT_FALSE(space.take({0x40000000, 0x40001000}));           // mapped
  EXPECT_FALSE(space.take({0x50000100, 0x50000200}));           // too near behind what is mapped
  EXPECT_TRUE(space.take({*first + 0x1ff8, *first + 0x1ff9}));  // over the end of a page
  EXPECT_EQ(space.regions()[0].start % 4096, 0u);
  space.release(*first), space.release(*second);
  EXPECT_TRUE(space.take({*first + 1, *first + 2}));
}

TEST(Stubs, AreInThePagesThatTheSessionHas) {
  const image::Range page{0x20000000, 0x20001000};
  const auto mappings =
      mappings_at({{0x1fff0000, page.start}, {page.start, page.end}, {page.end, 0x20010000}});
  const std::vector<image::Range> kept = {page};
  EXPECT_FALSE(StubSpace(mappings).take({page.start + 0x11, page.start + 0x12}));
  StubSpace space(mappings, kept);
  EXPECT_TRUE(space.take({page.start + 0x11, page.start + 0x12}));
  EXPECT_FALSE(space.take({page.start + 0x11, page.start + 0x12}));
  EXPECT_FALSE(space.take({page.end - 8, page.end - 7}));  // over its end
  // Where any place will do, before a new page.
  const auto anywhere = StubSpace(mappings, kept).take({0x10000000, 0x30000000});
  ASSERT_TRUE(anywhere);
  EXPECT_TRUE(page.contains(*anywhere));
  EXPECT_TRUE(space.regions().empty());
  ASSERT_EQ(space.kept_regions().size(), 1u);
  EXPECT_EQ(space.kept_regions()[0].start, page.start);
  EXPECT_TRUE(space.take({0x10000000, 0x10000001}));
  EXPECT_EQ(space.regions().size(), 1u);
}

// A stub may begin in a page that is there and end in a new one.
TEST(Stubs, MayEndBehindAPageThatIsKept) {
  const std::vector<image::Range> kept = {{0x20000000, 0x20001000}};
  StubSpace space(mappings_at({{0x20000000, 0x20001000}}), kept);
  EXPECT_TRUE(space.take({0x20000ff8, 0x20000ff9}));
  ASSERT_EQ(space.regions().size(), 1u);
  EXPECT_EQ(space.regions()[0].start, 0x20001000u);
  EXPECT_EQ(space.kept_regions().size(), 1u);
}

// The last mapping is above what a process may map.
TEST(Stubs, AreInUserSpace) {
  StubSpace space(mappings_at({{0x40000000, 0x50000000}, {0xffffffffff600000, 0xffffffffff601000}}));
  EXPECT_FALSE(space.take({0x7ffffffff000, 0x7ffffffff100}));
  EXPECT_FALSE(space.take({0xffffffffe8000000, 0xffffffffe9000000}));
  EXPECT_TRUE(space.take({0x7fffffff0000, 0x7fffffff0100}));
}

TEST(Stubs, AreBounded) {
  StubSpace space(mappings_at({{0x40000000, 0x50000000}}));
  size_t taken = 0;
  for (uint64_t at = 0x10000000; at < 0x20000000; at += 0x10000) taken += space.take({at, at + 1}) ? 1 : 0;
  EXPECT_EQ(taken, kMostStubPages);
}

FunctionSites plan_one(const image::Code& code, PointKind kind, uint64_t place, bool result = false) {
  WantedSite wanted{kind, place, result};
  return plan_sites(function_of(code), code, {&wanted, 1});
}

// 0: sub $8,%rsp; 4: call; 9: add $1,%rax; 13: add $8,%rsp; 17: ret
const std::initializer_list<int> kCall = {0x48, 0x83, 0xec, 0x08, 0xe8, 0,    0,    0,    0,
                                          0x48, 0x83, 0xc0, 0x01, 0x48, 0x83, 0xc4, 0x08, 0xc3};

TEST(Sites, ACallIsTurnedInPlaceAndFollowed) {
  auto code = code_of(kCall);
  auto before = plan_one(code, PointKind::call_before, kAt + 4);
  ASSERT_EQ(before.windows.size(), 1u);
  EXPECT_EQ(before.windows[0].tactic, Tactic::call);
  auto after = plan_one(code, PointKind::call_after, kAt + 4);
  ASSERT_EQ(after.windows.size(), 1u);
  EXPECT_EQ(after.windows[0].start, kAt + 9);
  EXPECT_EQ(after.windows[0].sites[0].arming, arch::Arming::none);
}

TEST(Sites, AJoinBehindACallArmsIt) {
  auto code = code_of(kCall, {kAt + 9});
  auto sites = plan_one(code, PointKind::call_after, kAt + 4);
  ASSERT_EQ(sites.windows.size(), 2u);
  EXPECT_EQ(sites.windows[0].sites[0].arming, arch::Arming::arm);
  EXPECT_EQ(sites.windows[1].sites[0].arming, arch::Arming::test);
  EXPECT_EQ(sites.windows[1].sites[0].returns_to, kAt + 9);
}

// Code that may run whenever the function runs needs to know of no call that it has come back.
TEST(Sites, CodeThatMayRunMoreOftenArmsNothing) {
  auto code = code_of(kCall, {kAt + 9});
  code.returns_twice = {kAt + 4};
  const WantedSite wanted{.kind = PointKind::call_after, .place = kAt + 4, .repeatable = true};
  const FunctionSites sites = plan_sites(function_of(code), code, std::span(&wanted, 1));
  ASSERT_EQ(sites.windows.size(), 1u);
  EXPECT_EQ(sites.windows[0].start, kAt + 9);
  EXPECT_EQ(sites.windows[0].sites[0].arming, arch::Arming::none);
}

TEST(Sites, CodeThatMayRunMoreOftenStandsBehindALandingInstruction) {
  auto code = code_of({0x48, 0x83, 0xec, 0x08, 0xe8, 0,    0,    0,    0,    0xf3, 0x0f,
                       0x1e, 0xfa, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x83, 0xc4, 0x08, 0xc3});
  WantedSite wanted{.kind = PointKind::call_after, .place = kAt + 4};
  EXPECT_EQ(plan_sites(function_of(code), code, std::span(&wanted, 1)).refusals.size(), 1u);
  wanted.repeatable = true;
  const FunctionSites sites = plan_sites(function_of(code), code, std::span(&wanted, 1));
  ASSERT_EQ(sites.windows.size(), 1u);
  EXPECT_EQ(sites.windows[0].start, kAt + 13);
}

// A join 4 bytes behind the call: the code stands there, unless it wants the value that is changed on the
// way.
TEST(Sites, AJoinSoonBehindACallArmsItUnlessTheResultIsLost) {
  auto code = code_of(kCall, {kAt + 13});
  auto sites = plan_one(code, PointKind::call_after, kAt + 4);
  ASSERT_EQ(sites.windows.size(), 2u);
  EXPECT_EQ(sites.windows[1].start, kAt + 13);
  EXPECT_EQ(sites.windows[1].sites[0].returns_to, kAt + 9);
  auto result = plan_one(code, PointKind::call_after, kAt + 4, true);
  EXPECT_TRUE(result.windows.empty());
  EXPECT_EQ(result.refusals.size(), 1u);
}

TEST(Sites, SetjmpIsNotArmed) {
  auto code = code_of(kCall, {kAt + 9});
  code.returns_twice = {kAt + 4};
  EXPECT_EQ(plan_one(code, PointKind::call_after, kAt + 4).refusals.size(), 1u);
}

TEST(Sites, ACallThatDoesNotComeBackHasNothingBehindIt) {
  auto code = code_of(kCall);
  code.no_return = {kAt + 4};
  auto sites = plan_one(code, PointKind::call_after, kAt + 4);
  EXPECT_TRUE(sites.windows.empty());
  EXPECT_TRUE(sites.refusals.empty());
}

TEST(Sites, AnIndirectCallIsSeenBehindWhatRunsIntoIt) {
  // 0: mov %rdi,%rax; 3: mov %rsi,%rdi; 6: call *%rax; 8: ret
  auto code = code_of({0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0xc3});
  auto sites = plan_one(code, PointKind::call_before, kAt + 6);
  ASSERT_EQ(sites.windows.size(), 1u);
  EXPECT_EQ(sites.windows[0].start, kAt);
  EXPECT_EQ(sites.windows[0].end, kAt + 6);
  EXPECT_EQ(sites.windows[0].sites[0].where, Where::behind);
  code.targets = {kAt + 6};
  EXPECT_EQ(plan_one(code, PointKind::call_before, kAt + 6).refusals.size(), 1u);
}

TEST(Sites, DoubtRefusesCallsBlocksAndLoops) {
  auto code = code_of(kCall);
  code.doubt = "an indirect jump";
  for (PointKind kind :
       {PointKind::call_before, PointKind::call_after, PointKind::block, PointKind::loop_exit})
    EXPECT_EQ(plan_one(code, kind, kAt + 4).refusals.size(), 1u);
}

TEST(Liveness, ReplacedBeforeReadIsDead) {
  // mov %rdi,%rax; cmp %rsi,%rdi; mov $1,%r11d; ret
  auto code = code_of({0x48, 0x89, 0xf8, 0x48, 0x39, 0xf7, 0x41, 0xbb, 1, 0, 0, 0, 0xc3});
  image::Registers live = Liveness(code).before(kAt, true);
  EXPECT_FALSE(live & 1u << 0);  // rax
  EXPECT_FALSE(live & image::kFlags);
  EXPECT_FALSE(live & 1u << 11);  // r11
  EXPECT_TRUE(live & 1u << 7);    // rdi
  EXPECT_TRUE(live & 1u << 10);   // r10: a caller may rely on it (-fipa-ra)
}

TEST(Liveness, FlagsLiveIntoABranch) {
  auto code = code_of({0x74, 0x01, 0x90, 0xc3});  // je .+1; nop; ret
  EXPECT_TRUE(Liveness(code).before(kAt, true) & image::kFlags);
}

TEST(Liveness, AnIndirectCallFreesScratchRegistersOfTheEntry) {
  // test %edi,%edi; je .+2; call *%rax; ret
  auto code = code_of({0x85, 0xff, 0x74, 0x02, 0xff, 0xd0, 0xc3});
  Liveness liveness(code);
  EXPECT_TRUE(liveness.before(kAt, true) & arch::kMachine.static_chain);  // the call may take it
  EXPECT_FALSE(liveness.before(kAt + 6, true) & arch::kMachine.scratch);  // nobody else can want it
  EXPECT_EQ(liveness.before(kAt + 6, false) & arch::kMachine.scratch, arch::kMachine.scratch);
}

}  // namespace
}  // namespace mdl::patch
