// Shared code against the toy machine: reading code, choosing windows, building trampolines, and the audit.
// What is patched is run, and counts.
#include <gtest/gtest.h>

#include <memory>

#include "llvm/BinaryFormat/Dwarf.h"
#include "runtime/arch/decoder.h"
#include "runtime/arch/description.h"
#include "runtime/arch/windows.h"
#include "runtime/audit/audit.h"
#include "runtime/focus/exclusion.h"
#include "runtime/image/code.h"
#include "runtime/image/flow_graph.h"
#include "runtime/image/incoming_jumps.h"
#include "runtime/image/main_function.h"
#include "runtime/image/references.h"
#include "runtime/image/unwind.h"
#include "runtime/patch/liveness.h"
#include "runtime/patch/site.h"
#include "runtime/patch/trampoline.h"
#include "runtime/plan/verify.h"
#include "tests/toy/machine.h"

namespace mdl {
namespace {

using format::PointKind;
using image::register_bit;
using patch::WantedSite;
using toy::kSize;

constexpr uint64_t kText = 0x10000, kData = 0x20000, kNew = 0x30000, kEnd = 0x40000;
constexpr uint64_t kTable = kData, kDirectory = kData + 0x1000, kBlockAt = kData + 0x2000;
constexpr uint64_t kThreadPointer = 0x7e57;

plan::Stencil stencil_of(std::initializer_list<toy::Word> words, std::vector<plan::Hole> holes) {
  plan::Stencil out;
  for (const toy::Word& word : words) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&word);
    out.code.insert(out.code.end(), bytes, bytes + kSize);
  }
  out.holes = std::move(holes);
  arch::kMachine.stencil_rules->note(out);
  return out;
}

// count [block + cell]
const plan::Stencil kCounter = stencil_of({{toy::count, 0, toy::kBlock}}, {{4, 4, plan::HoleKind::cell}});
// load spare, [block + flag]; compare spare, 0; branch equal, next
const plan::Stencil kGuard = stencil_of(
    {{toy::load, toy::kSpare, toy::kBlock}, {toy::compare, toy::kSpare}, {toy::branch, toy::equal}},
    {{4, 4, plan::HoleKind::guard}, {20, 4, plan::HoleKind::next}});

enum Which : size_t { kChoose, kRounds, kTwice };

// One object with three functions:
//   choose(n): 10 or 11 for 0 or 1, rounds(2) for 2, by a switch; for more rounds(n), by a tail jump
//   rounds(n): n, by a loop of n rounds
//   twice(n): rounds(n) + rounds(n), with its return address in memory
class Toy : public testing::Test {
 protected:
  Toy() : store_(kText, kEnd - kText) {
    std::vector<uint8_t> code;
    toy::Assembler a(code, kText);
    write_choose(a);
    const uint64_t rounds = a.here();
    write_rounds(a);
    const uint64_t twice = a.here();
    write_twice(a, rounds);
    store_.write(kText, code);
    for (uint64_t i : {0, 1, 2}) store_.set_word(kTable + 8 * i, cases_[i]);
    store_.set_word(kDirectory + 8, kBlockAt);
    image_.mappings = {{.start = kText, .end = kData, .read = true, .execute = true, .path = "/toy"},
                       {.start = kData, .end = kNew, .read = true, .write = true, .path = "/toy"}};
    image::Object object;
    object.name = "toy", object.path = "/toy", object.is_main = true;
    object.text = {{kText, kText + code.size()}};
    const auto add = [&](const char* name, uint64_t start, uint64_t end) {
      image::Function& added = object.functions.list().emplace_back();
      added.name = name, added.address = start, added.size = end - start;
    };
    add("choose", kText, rounds - kSize);
    add("rounds", rounds, twice - kSize);
    add("twice", twice, kText + code.size());
    object.far_jumps = std::make_shared<image::FarJumps>();
    object.references = std::make_shared<image::References>();
    image_.objects.own().push_back(std::move(object));
  }

  void write_choose(toy::Assembler& a) {
    const uint64_t rounds = kText + 12 * kSize;
    a.put({toy::landing});
    a.put({toy::compare, 1, 0, toy::kNone, 2});
    a.lead(toy::branch, rounds - 2 * kSize, toy::above);
    a.lead(toy::address, kTable, 40);
    a.put({toy::load, 41, 40, 1});
    a.put({toy::jump_register, 41});
    for (int i : {0, 1}) {
      cases_[static_cast<size_t>(i)] = a.here();
      a.put({toy::set, toy::kResult, 0, toy::kNone, 10 + i});
      a.put({toy::ret});
    }
    cases_[2] = a.here();
    a.lead(toy::jump, rounds);
    a.put({toy::nop});
  }
  void write_rounds(toy::Assembler& a) {
    a.put({toy::set, toy::kResult});
    loop_ = a.here();
    a.put({toy::add_immediate, toy::kResult, 0, toy::kNone, 1});
    a.put({toy::compare_both, toy::kResult, 1});
    a.lead(toy::branch, loop_, toy::below);
    a.put({toy::ret});
    a.put({toy::nop});
  }
  static void write_twice(toy::Assembler& a, uint64_t rounds) {
    a.put({toy::add_immediate, toy::kStack, 0, toy::kNone, -16});
    a.put({toy::store, toy::kLink, toy::kStack});
    a.lead(toy::call, rounds);
    a.put({toy::store, toy::kResult, toy::kStack, toy::kNone, 8});
    a.lead(toy::call, rounds);
    a.put({toy::load, 40, toy::kStack, toy::kNone, 8});
    a.put({toy::add, toy::kResult, 40});
    a.put({toy::load, toy::kLink, toy::kStack});
    a.put({toy::add_immediate, toy::kStack, 0, toy::kNone, 16});
    a.put({toy::ret});
  }

  const image::Object& object() const { return image_.objects[0]; }
  const image::Function& function(Which which) const { return object().functions[which]; }
  image::Code code_of(Which which) const {
    auto code = image::read_code(image_, object(), function(which), store_);
    EXPECT_TRUE(code) << (code ? "" : code.error().text);
    return code ? std::move(*code) : image::Code();
  }

  // The registers when the function has returned.
  toy::State run(Which which, uint64_t argument) {
    toy::State state;
    for (size_t i = 0; i < toy::kRegisters; ++i) state.registers[i] = 1000 + i;
    state.registers[toy::kArgument] = argument;
    state.registers[toy::kThread] = kThreadPointer;
    state.registers[toy::kStack] = kEnd - 0x100;
    toy::run(store_, state, function(which).address);
    return state;
  }

  // A counter for each of the points: the first cell for the first, and so on. `guard`: a cell that lets them
  // count.
  void patch_function(Which which, const std::vector<WantedSite>& wanted, std::vector<int64_t> guard = {}) {
    const image::Code code = code_of(which);
    const patch::FunctionSites sites = patch::plan_sites(function(which), code, wanted);
    for (const patch::Refusal& refusal : sites.refusals) ADD_FAILURE() << refusal.reason;
    const patch::Liveness liveness(code);
    patch::PointPieces pieces;
    for (size_t i = 0; i < wanted.size(); ++i) {
      arch::Piece piece;
      piece.stencil = &kCounter;
      piece.cells = {cell(i)};
      piece.guards = guard;
      pieces.push_back({piece});
    }
    patch::TrampolineContext context;
    context.guard = &kGuard;
    context.lookup.directory = kDirectory, context.lookup.slots = 1;
    for (const patch::Window& window : sites.windows) {
      auto built = patch::build_trampoline(window, liveness, pieces, context, next_);
      ASSERT_TRUE(built) << built.error().text;
      const auto size = static_cast<uint32_t>(window.end - window.start);
      const arch::Bytes edit = window.tactic == patch::Tactic::call
                                   ? arch::window_call(window.start, size, built->address)
                                   : arch::window_jump(window.start, built->address);
      std::vector<uint8_t> from(edit.size());
      EXPECT_TRUE(store_.read(window.start, std::as_writable_bytes(std::span(from))));
      edits_.push_back({window.start, from, edit});
      next_ += built->code.size();
      trampolines_.push_back(std::move(*built));
    }
  }
  static int64_t cell(size_t index) { return 128 + 8 * static_cast<int64_t>(index); }
  uint64_t counted(size_t index) const { return store_.word(kBlockAt + static_cast<uint64_t>(cell(index))); }
  void reset() {
    for (size_t i = 0; i < 8; ++i) store_.set_word(kBlockAt + static_cast<uint64_t>(cell(i)), 0);
  }

  std::vector<audit::Objection> objections() const {
    audit::Proposal out;
    for (const Change& one : edits_) out.edits.push_back({one.address, one.from, one.to});
    for (const patch::Trampoline& one : trampolines_) {
      audit::Detour detour{{one.address, one.address + one.code.size()}, {}};
      for (size_t i = 0; i < one.moved.size(); ++i)
        detour.displaced.push_back({one.moved[i].first, one.moved[i].second, one.copies[i]});
      out.detours.push_back(std::move(detour));
      out.code.push_back({one.address, one.code});
    }
    return audit::audit(out, image_, store_);
  }
  void write_changes() {
    for (const patch::Trampoline& one : trampolines_) store_.write(one.address, one.code);
    for (const Change& one : edits_) store_.write(one.address, one.to);
  }

  struct Change {
    uint64_t address = 0;
    std::vector<uint8_t> from, to;
  };
  toy::Store store_;
  image::Image image_;
  uint64_t cases_[3] = {};
  uint64_t loop_ = 0;
  uint64_t next_ = kNew;
  std::vector<Change> edits_;
  std::vector<patch::Trampoline> trampolines_;
};

TEST_F(Toy, TheMachineRuns) {
  EXPECT_EQ(run(kChoose, 0).registers[0], 10u);
  EXPECT_EQ(run(kChoose, 1).registers[0], 11u);
  EXPECT_EQ(run(kChoose, 2).registers[0], 2u);
  EXPECT_EQ(run(kChoose, 9).registers[0], 9u);
  EXPECT_EQ(run(kTwice, 4).registers[0], 8u);
}

TEST_F(Toy, ASwitchAndExitsAreSeen) {
  const image::Code code = code_of(kChoose);
  EXPECT_EQ(code.doubt, "");
  EXPECT_FALSE(code.unresolved_jump);
  ASSERT_EQ(code.switches.size(), 1u);
  EXPECT_TRUE(code.switches[0].exact);
  EXPECT_EQ(code.switches[0].targets, std::vector<uint64_t>(std::begin(cases_), std::end(cases_)));
  ASSERT_EQ(code.exits.size(), 3u);
  EXPECT_EQ(code.exits[0].kind, image::ExitKind::return_);
  EXPECT_EQ(code.exits[2].kind, image::ExitKind::tail_jump);
  EXPECT_EQ(code.exits[2].address, cases_[2]);
  EXPECT_TRUE(code.is_target(cases_[2]));
}

TEST_F(Toy, JumpsFromOtherCodeAreSeen) {
  std::vector<uint8_t> jump;
  const uint64_t nowhere = function(kTwice).address;
  toy::Assembler(jump, nowhere).lead(toy::jump, loop_);
  store_.write(nowhere, jump);
  const image::Code code = code_of(kRounds);
  EXPECT_TRUE(std::ranges::find(code.entered, loop_) != code.entered.end());
}

TEST_F(Toy, ALoopIsSeen) {
  const image::Code code = code_of(kRounds);
  const image::FlowGraph graph = image::make_flow_graph(function(kRounds), code);
  EXPECT_EQ(graph.doubt + graph.loop_doubt, "");
  ASSERT_EQ(graph.loops.size(), 1u);
  EXPECT_EQ(graph.loops[0].head, loop_);
  EXPECT_EQ(graph.blocks.size(), 3u);
}

TEST_F(Toy, RegistersBeyondThirtyTwoDie) {
  const image::Code code = code_of(kTwice);
  const patch::Liveness liveness(code);
  // Behind the second call: register 40 is loaded before it is read.
  const uint64_t behind = function(kTwice).address + 5 * kSize;
  const image::Registers live = liveness.before(behind, false);
  EXPECT_FALSE(live & register_bit(40));
  EXPECT_TRUE(live & register_bit(toy::kResult));
  EXPECT_TRUE(live & register_bit(toy::kStack));
  EXPECT_TRUE(live & image::kFlags);  // nobody replaces them
  EXPECT_FALSE(patch::Liveness(code_of(kChoose)).before(function(kChoose).address, true) & image::kFlags);
}

TEST_F(Toy, ALandingInstructionStaysFirst) {
  const WantedSite entry{PointKind::entry};
  const auto sites = patch::plan_sites(function(kChoose), code_of(kChoose), std::span(&entry, 1));
  ASSERT_EQ(sites.windows.size(), 1u);
  EXPECT_EQ(sites.windows[0].start, kText + kSize);
  EXPECT_EQ(sites.windows[0].end, kText + 2 * kSize);  // a jump is as long as an instruction
}

TEST_F(Toy, PatchedCodeCountsAndDoesWhatItDid) {
  std::vector<toy::State> bare;
  for (uint64_t n = 0; n < 6; ++n) bare.push_back(run(kChoose, n));
  patch_function(kChoose, {{PointKind::entry}, {PointKind::return_}});
  EXPECT_TRUE(objections().empty());
  write_changes();
  for (uint64_t n = 0; n < 6; ++n) {
    const toy::State now = run(kChoose, n);
    EXPECT_EQ(now.registers, bare[n].registers) << n;
    EXPECT_EQ(now.flags, bare[n].flags) << n;
    EXPECT_GT(now.steps, bare[n].steps);
    EXPECT_EQ(counted(0), n + 1);
    EXPECT_EQ(counted(1), n + 1);
  }
  EXPECT_EQ(store_.word(kDirectory), kThreadPointer);  // claimed at the first hit
}

TEST_F(Toy, RoundsAndCallsAreCounted) {
  const uint64_t first = function(kTwice).address + 2 * kSize;
  const toy::State bare = run(kTwice, 5);
  patch_function(kRounds, {{PointKind::entry}, {PointKind::loop_start, loop_}, {PointKind::return_}});
  const size_t edits = edits_.size();
  patch_function(kTwice, {{PointKind::call_before, first}});
  ASSERT_EQ(edits_.size(), edits + 1);
  EXPECT_EQ(edits_.back().address, first);  // the call is turned in its place
  EXPECT_TRUE(objections().empty());
  write_changes();
  const toy::State now = run(kTwice, 5);
  EXPECT_EQ(now.registers, bare.registers);
  EXPECT_EQ(counted(0), 3u);  // rounds twice, and the call, which has the same cell
  EXPECT_EQ(counted(1), 10u);
  EXPECT_EQ(counted(2), 2u);
}

TEST_F(Toy, AGuardLetsCount) {
  patch_function(kRounds, {{PointKind::entry}}, {cell(7)});
  write_changes();
  run(kRounds, 3);
  EXPECT_EQ(counted(0), 0u);
  store_.set_word(kBlockAt + static_cast<uint64_t>(cell(7)), 1);
  run(kRounds, 3);
  EXPECT_EQ(counted(0), 1u);
}

TEST_F(Toy, TheAuditRefusesWhatIsWrong) {
  patch_function(kRounds, {{PointKind::entry}, {PointKind::return_}});
  ASSERT_TRUE(objections().empty());
  auto& copy = trampolines_[0].code[trampolines_[0].copies[0] - trampolines_[0].address + 4];
  copy ^= 1;  // the moved instruction sets another number
  EXPECT_EQ(objections().size(), 1u);
  copy ^= 1;
  edits_[0].to[4] ^= 8;  // the jump leads into the trampoline's middle
  EXPECT_EQ(objections().size(), 1u);
}

// Call frame information of the three functions: the frame of twice is open from its second instruction on,
// and its return address is saved at the third.
image::FrameTable frames_of(const image::Object& object) {
  std::vector<uint8_t> out;
  const auto put = [&](std::initializer_list<uint8_t> bytes) { out.insert(out.end(), bytes); };
  const auto number = [&](uint64_t value, int size) {
    for (int i = 0; i < size; ++i) out.push_back(static_cast<uint8_t>(value >> 8 * i));
  };
  number(16, 4), number(0, 4);                // a CIE
  put({1, 'z', 'R', 0, 1, 0x78, 30, 1, 0});   // data aligned to -8, the return address in 30, whole addresses
  put({llvm::dwarf::DW_CFA_def_cfa, 31, 0});  // the stack pointer
  for (const image::Function& function : object.functions) {
    const bool is_twice = &function == &object.functions.back();
    number(is_twice ? 28 : 21, 4), number(out.size(), 4);
    number(function.address, 8), number(function.size, 8), put({0});
    if (is_twice)
      put({llvm::dwarf::DW_CFA_advance_loc | kSize, llvm::dwarf::DW_CFA_def_cfa_offset, 16,
           llvm::dwarf::DW_CFA_advance_loc | kSize, llvm::dwarf::DW_CFA_offset | 30, 2, 0});
  }
  std::vector<std::byte> bytes(out.size());
  std::ranges::copy(std::as_bytes(std::span(out)), bytes.begin());
  return {std::move(bytes), kEnd, 0};
}

TEST_F(Toy, StacksAreWalkedByTheLinkRegister) {
  image_.objects.own()[0].frame_table = std::shared_ptr<image::FrameTable>(new auto(frames_of(object())));
  ASSERT_EQ(object().frame_table->entries().size(), 3u);
  const uint64_t twice = function(kTwice).address, behind_call = twice + 3 * kSize, stack = kEnd - 0x100;
  EXPECT_TRUE(image::frame_is_closed(*object().frame_table, twice, *object().budget));
  EXPECT_TRUE(image::frame_is_open(*object().frame_table, behind_call, *object().budget));
  store_.set_word(stack, 0);  // nobody has called twice
  image::RegisterFile registers{};
  registers[30] = behind_call, registers[31] = stack, registers[32] = loop_;
  const image::Stack walked = image::Unwinder(image_).walk(registers, store_);
  EXPECT_EQ(walked.doubt, "");
  EXPECT_TRUE(walked.complete);
  ASSERT_EQ(walked.frames.size(), 2u);
  EXPECT_EQ(walked.frames[0].pc, loop_);
  EXPECT_EQ(walked.frames[0].cfa, stack);
  EXPECT_EQ(walked.frames[1].pc, behind_call);
  EXPECT_EQ(walked.frames[1].cfa, stack + 16);
  EXPECT_EQ(image::place_of(walked.frames[1]), stack + 16);  // a call pushes nothing
}

TEST_F(Toy, StencilsAreVerified) {
  const plan::TargetRules* rules = plan::rules_for("toy");
  ASSERT_NE(rules, nullptr);
  EXPECT_EQ(plan::rules_for("x86_64"), nullptr);
  EXPECT_TRUE(plan::verify(*rules, kCounter));
  EXPECT_TRUE(plan::verify(*rules, kGuard));
  EXPECT_FALSE(
      plan::verify(*rules, stencil_of({{toy::count, 0, toy::kStack}}, {{4, 4, plan::HoleKind::cell}})));
  EXPECT_FALSE(plan::verify(*rules, stencil_of({{toy::jump}}, {})));
  toy::Word filled = toy::word_at(kCounter.code.data());
  filled.immediate = 4096;
  EXPECT_FALSE(plan::verify_filled(*rules, kCounter, std::as_bytes(std::span(&filled, 1)), 512));
}

TEST_F(Toy, MainAndThunksAreFound) {
  std::vector<uint8_t> entry;
  toy::Assembler a(entry, kNew);
  a.lead(toy::address, kText, toy::kArgument);
  a.lead(toy::call, function(kTwice).address);
  EXPECT_EQ(image::main_from_entry(std::as_bytes(std::span(entry)), kNew, store_), kText);
  image::Function thunk = function(kRounds);
  EXPECT_EQ(focus::own_abi(object(), thunk), focus::OwnAbi::no);
  thunk.name = "__toy_thunk_r9";
  EXPECT_EQ(focus::own_abi(object(), thunk), focus::OwnAbi::never);
}

}  // namespace
}  // namespace mdl
