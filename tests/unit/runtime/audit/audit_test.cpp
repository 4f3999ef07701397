// Mutations: errors of a planner, each planted in a proposal that is right without it, and caught by the
// auditor.
//
// Windows are forced where the planner would not take them; what it makes of good ones is damaged.
#include "runtime/audit/audit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>

#include "runtime/arch/displacement.h"
#include "runtime/arch/windows.h"
#include "runtime/patch/liveness.h"
#include "runtime/patch/trampoline.h"
#include "tests/unit/runtime/image/program.h"

namespace mdl::audit {
namespace {

using image::testing::Folder;
using image::testing::Program;
using Bytes = std::vector<uint8_t>;

// One window of a proposal, with what it owns.
struct Made {
  uint64_t start = 0;
  Bytes from, to;
  uint64_t code_at = 0;
  Bytes code;
  std::vector<Displaced> displaced;
};

// A process whose memory cannot be read for some time, counted in reads.
class Absent final : public image::Memory {
 public:
  Absent(const image::Memory& memory, uint64_t first, uint64_t last)
      : memory_(memory), first_(first), last_(last) {}
  bool read(uint64_t address, std::span<std::byte> into) const override {
    const uint64_t now = reads_++;
    return (now < first_ || now > last_) && memory_.read(address, into);
  }
  uint64_t reads() const { return reads_; }

 private:
  const image::Memory& memory_;
  uint64_t first_, last_;
  mutable uint64_t reads_ = 0;
};

class Audit : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    program_ =
        new Program({image::testing::build(*folder_, "g++", "audited.S", "-nostartfiles -Wl,-e,main")});
    ASSERT_TRUE(program_->continue_to(SIGSTOP));
    auto image = image::read_image(program_->pid());
    ASSERT_TRUE(image) << image.error().text;
    image_ = new image::Image(std::move(*image));
    memory_ = new image::LiveMemory(program_->pid());
  }
  static void TearDownTestSuite() {
    delete memory_;
    delete image_;
    delete program_;
    delete folder_;
  }

  static const image::Object& object() { return image_->objects.front(); }
  static uint64_t at(const std::string& name) {
    for (const image::Function& function : object().functions)
      if (function.name == name) return function.address;
    ADD_FAILURE() << "no function " << name;
    return 0;
  }
  static Bytes bytes_at(uint64_t address, size_t size) {
    Bytes out(size);
    EXPECT_TRUE(memory_->read(address, std::as_writable_bytes(std::span(out))));
    return out;
  }
  static uint64_t island(size_t index) { return object().text.front().end + 0x100000 + index * 0x100; }

  // A jump over the first `bytes` bytes at an address, whole instructions, to a trampoline of `displaced` of
  // them.
  Made window(uint64_t start, size_t displaced, size_t index = 0) {
    Made out;
    std::vector<std::byte> raw(32);
    EXPECT_TRUE(memory_->read(start, raw));
    image::Code code;
    code.instructions = image::decode(raw, start);
    code.instructions.resize(displaced);
    patch::Window window;
    window.instructions = code.instructions;
    window.start = start;
    window.end = code.instructions.back().address + code.instructions.back().size;
    const patch::Liveness liveness(code);
    auto made = patch::build_trampoline(window, liveness, {}, {}, island(index));
    EXPECT_TRUE(made) << made.error().text;
    take(out, start, *made, arch::window_jump(start, island(index)));
    return out;
  }
  void take(Made& out, uint64_t start, const patch::Trampoline& made, Bytes to) {
    out.start = start;
    out.to = std::move(to);
    out.from = bytes_at(start, out.to.size());
    out.code_at = made.address;
    out.code = made.code;
    for (size_t i = 0; i < made.moved.size(); ++i)
      out.displaced.push_back({made.moved[i].first, made.moved[i].second, made.copies[i]});
  }
  // A call in the place of the call at an address.
  Made turned(uint64_t start) {
    Made out;
    std::vector<std::byte> raw(16);
    EXPECT_TRUE(memory_->read(start, raw));
    patch::Window window;
    window.tactic = patch::Tactic::call;
    image::Code code;
    code.instructions = image::decode(raw, start);
    code.instructions.resize(1);
    window.instructions = code.instructions;
    window.start = start, window.end = start + 5;
    const patch::Liveness liveness(code);
    auto made = patch::build_trampoline(window, liveness, {}, {}, island(0));
    EXPECT_TRUE(made);
    take(out, start, *made, arch::window_call(start, 5, island(0)));
    return out;
  }

  static Proposal proposal_of(const std::vector<Made>& all) {
    Proposal proposal;
    for (const Made& made : all) {
      proposal.edits.push_back({made.start, made.from, made.to});
      if (made.displaced.empty()) continue;
      proposal.detours.push_back({{made.code_at, made.code_at + made.code.size()}, made.displaced});
      proposal.code.push_back({made.code_at, made.code});
    }
    std::ranges::sort(proposal.edits, {}, &Edit::address);
    return proposal;
  }
  // What the auditor says of the first of these windows; "" when it admits it.
  static std::string verdict(const std::vector<Made>& all) {
    const Proposal proposal = proposal_of(all);
    for (const Objection& one : audit(proposal, *image_, *memory_))
      if (proposal.edits[one.edit].address == all[0].start) return one.reason;
    return "";
  }
  static std::string verdict(const Made& made) { return verdict(std::vector<Made>{made}); }

  // Expects that the auditor refuses a proposal, for a reason that contains `why`.
  static void expect_refused(const std::vector<Made>& all, const std::string& why) {
    const std::string said = verdict(all);
    EXPECT_NE(said.find(why), std::string::npos) << "it says: \"" << said << "\"";
  }
  static void expect_refused(const Made& made, const std::string& why) {
    expect_refused(std::vector<Made>{made}, why);
  }
  // Replaces bytes in the code of a trampoline, at the copy of an instruction.
  static void poke(Made& made, size_t copy, size_t offset, Bytes bytes) {
    std::copy(
        bytes.begin(), bytes.end(),
        made.code.begin() + static_cast<std::ptrdiff_t>(made.displaced[copy].copy - made.code_at + offset));
  }
  // More is added before the second of the two instructions that stand at a_plain.
  Made with_added(const Bytes& bytes) {
    Made made = window(at("a_plain"), 2);
    const auto where = made.code.begin() + static_cast<std::ptrdiff_t>(made.displaced[1].copy - made.code_at);
    made.code.insert(where, bytes.begin(), bytes.end());
    made.displaced[1].copy += bytes.size();
    made.code.resize(made.code.size() - 5);
    arch::emit_jump(made.code, made.code_at + made.code.size(), at("a_plain") + 7);
    return made;
  }

  static Folder* folder_;
  static Program* program_;
  static image::Image* image_;
  static image::LiveMemory* memory_;
};
Folder* Audit::folder_;
Program* Audit::program_;
image::Image* Audit::image_;
image::LiveMemory* Audit::memory_;

TEST_F(Audit, WhatIsRightIsAdmitted) {
  EXPECT_EQ(verdict(window(at("a_plain"), 2)), "");
  EXPECT_EQ(verdict(window(at("a_plain") + 14, 2)), "");  // pop; ret, and the padding behind
  EXPECT_EQ(verdict(window(at("a_loop") + 4, 3)), "");
  EXPECT_EQ(verdict(window(at("a_branch"), 3)), "");
  EXPECT_EQ(verdict(turned(at("a_calls") + 3)), "");
  EXPECT_EQ(verdict(turned(at("a_behind_cold") + 4)), "");
}

TEST_F(Audit, WindowsInWrongPlaces) {
  // 1: the window of an entry begins in the padding behind the cold part before it
  expect_refused(window(at("a_behind_cold") - 1, 2), "a function begins there");
  // 2: a branch of the function itself leads into it
  expect_refused(window(at("a_loop"), 3), "a short jump leads there");
  // 3, 4: a jump, a call of another function
  expect_refused(window(at("a_entered"), 2), "leads there");
  expect_refused(window(at("a_entered") + 6, 3), "leads there");
  // 5: a label of a jump table
  expect_refused(window(at("a_switch") + 16, 3), "a table of offsets");
  // 6: a word of data points into it
  expect_refused(window(at("a_pointed"), 2), "a word of the object's data");
  // 7: it runs on into the next function
  expect_refused(window(at("a_short"), 3), "begins there");
  // 8: it changes code behind the end of its function that nothing names
  expect_refused(window(at("a_last"), 3), "no padding");
  // 9: a frame begins in what looks like padding
  expect_refused(window(at("a_before_frame"), 2), "begins there");
  // 10: it begins in the middle of an instruction
  expect_refused(window(at("a_plain") + 1, 2), "no instruction begins");
  // 11: a landing instruction is overwritten
  expect_refused(window(at("a_landing"), 2), "landing");
  // 12: its write is not whole
  expect_refused(window(at("a_crossing"), 2), "crosses a page");
}

TEST_F(Audit, WhatMustNotBeDisplaced) {
  // 13: a call would return elsewhere
  expect_refused(window(at("a_calls") + 3, 1), "does something else");
  // 14: a system call goes back to its own address
  expect_refused(window(at("a_calls") + 8, 2), "does something else");
}

TEST_F(Audit, RelaysInWrongPlaces) {
  // A relay is an edit that no detour begins at.
  const auto relay = [](uint64_t start, const Made& of) {
    Made out;
    out.to = arch::window_jump(start, of.code_at);
    out.start = start;
    out.from = bytes_at(start, out.to.size());
    return out;
  };
  const Made good = window(at("a_plain"), 2);
  EXPECT_EQ(verdict({relay(at("a_plain") + 16, good), good}), "");
  // 15: a branch reaches the padding
  expect_refused({relay(at("a_padded") + 8, good), good}, "leads there");
  // 16: the padding is run into
  expect_refused({relay(at("a_padded") + 15, good), good}, "run on into");
  // 17: it is no padding
  expect_refused({relay(at("a_next"), good), good}, "displaces other instructions");
}

TEST_F(Audit, EditsThatAreWrong) {
  const Made good = window(at("a_plain"), 2);
  {  // 18: it leads into the trampoline's middle
    Made bad = good;
    bad.to = arch::window_jump(bad.start, bad.code_at + 3);
    expect_refused(bad, "does not lead to a detour");
  }
  {  // 19: other bytes are there than it replaces
    Made bad = good;
    bad.from[1] ^= 1;
    expect_refused(bad, "are not there");
  }
  // 20: two change the same bytes
  expect_refused({good, window(at("a_plain") + 3, 2, 1)}, "another edit");
  {  // 21: it changes nothing
    Made bad = good;
    bad.to = bad.from;
    expect_refused(bad, "changes nothing");
  }
  {  // 22: it leads to the trampoline of another window
    const Made other = window(at("a_branch"), 3, 1);
    Made bad = good;
    bad.to = arch::window_jump(bad.start, other.code_at);
    expect_refused({bad, other}, "displaces other");
  }
  {  // 23: it is no jump
    Made bad = good;
    bad.to[0] = 0x90;
    expect_refused(bad, "does not lead to a detour");
  }
  {  // 24: the call has another size, so that it returns elsewhere
    Made bad = turned(at("a_calls") + 3);
    bad.to = arch::window_call(bad.start, 6, bad.code_at);
    bad.from = bytes_at(bad.start, bad.to.size());
    EXPECT_NE(verdict(bad), "");
  }
}

TEST_F(Audit, TrampolinesThatAreWrong) {
  const Made good = window(at("a_plain"), 3);  // mov; lea; mov a_word(%rip); jump back
  const auto without = [](Made made, size_t index) {
    const size_t from = made.displaced[index].copy - made.code_at;
    const size_t to = index + 1 < made.displaced.size() ? made.displaced[index + 1].copy - made.code_at
                                                        : made.code.size() - 5;
    made.code.erase(made.code.begin() + static_cast<std::ptrdiff_t>(from),
                    made.code.begin() + static_cast<std::ptrdiff_t>(to));
    for (size_t i = index + 1; i < made.displaced.size(); ++i)
      made.displaced[i].copy -= to - from, made.displaced[i].moved -= to - from;
    made.displaced.erase(made.displaced.begin() + static_cast<std::ptrdiff_t>(index));
    return made;
  };
  EXPECT_EQ(verdict(good), "");
  // 25, 26: an instruction is left out, the first or a later one
  EXPECT_NE(verdict(without(good, 0)), "");
  EXPECT_NE(verdict(without(good, 1)), "");
  {  // 27: two are exchanged
    Made bad = good;
    std::swap(bad.displaced[0], bad.displaced[1]);
    expect_refused(bad, "other instructions");
  }
  {  // 28: an operand that is relative to the pc is as it was
    Made bad = good;
    poke(bad, 2, 0, bytes_at(at("a_plain") + 7, 7));
    expect_refused(bad, "does something else");
  }
  {  // 29: an immediate or displacement is another one
    Made bad = good;
    poke(bad, 1, 3, {2});
    expect_refused(bad, "does something else");
  }
  {  // 30: another register
    Made bad = good;
    poke(bad, 0, 2, {0xf9});
    expect_refused(bad, "does something else");
  }
  for (const int off : {-1, 1, -7, 2}) {  // 31: it comes back somewhere else
    Made bad = good;
    bad.code.resize(bad.code.size() - 5);
    arch::emit_jump(bad.code, bad.code_at + bad.code.size(), at("a_plain") + 14 + static_cast<uint64_t>(off));
    expect_refused(bad, "does not come back");
  }
  {  // 32: it does not come back at all
    Made bad = good;
    bad.code.resize(bad.code.size() - 5);
    EXPECT_NE(verdict(bad), "");
  }
  {  // 33: a thread is moved behind the instruction that it was about to execute
    Made bad = good;
    bad.displaced[0].moved = bad.displaced[1].copy;
    expect_refused(bad, "out of order");
  }
  EXPECT_EQ(verdict(with_added({0x90, 0xeb, 0x01, 0x90})), "");
  // 34: what was added jumps over the displaced instruction
  expect_refused(with_added({0xeb, 0x04}), "passes a displaced instruction by");
  // 35: it executes the one before a second time
  expect_refused(with_added({0xeb, 0xfb}), "passes a displaced instruction by");
  // 36: it returns
  expect_refused(with_added({0xc3}), "does not come back");
  // 37: it makes a system call
  expect_refused(with_added({0x0f, 0x05}), "does not come back");
  // 38: it is no code
  expect_refused(with_added({0x06}), "no sequence of instructions");
}

TEST_F(Audit, BranchesThatAreWrong) {
  const Made good = window(at("a_branch"), 3);  // test; je; mov
  EXPECT_EQ(verdict(good), "");
  {  // 39: the condition is the opposite one
    Made bad = good;
    poke(bad, 1, 1, {static_cast<uint8_t>(bad.code[bad.displaced[1].copy - bad.code_at + 1] ^ 1)});
    expect_refused(bad, "does something else");
  }
  {  // 40: it leads elsewhere
    Made bad = good;
    bad.code[bad.displaced[1].copy - bad.code_at + 2]++;
    expect_refused(bad, "does something else");
  }
  {  // 41: a turned call goes on to another function
    Made bad = turned(at("a_calls") + 3);
    bad.code[1]++;
    expect_refused(bad, "does something else");
  }
}

// A library may go and come back while it is looked at: whatever could not be read then is no error of ours.
TEST_F(Audit, WhatIsAwayForAWhileIsStale) {
  const std::vector<Made> all{window(at("a_plain"), 2)};
  const Proposal proposal = proposal_of(all);
  const Absent always(*memory_, UINT64_MAX, UINT64_MAX);
  ASSERT_TRUE(audit(proposal, *image_, always).empty());
  ASSERT_GT(always.reads(), 2U);
  for (uint64_t first = 0; first < always.reads(); ++first)
    for (uint64_t last = first; last < always.reads(); ++last)
      for (const Objection& one : audit(proposal, *image_, Absent(*memory_, first, last)))
        EXPECT_TRUE(one.is_stale) << first << " to " << last << ": " << one.reason;
  EXPECT_EQ(audit(proposal, *image_, Absent(*memory_, 0, 0)).size(), 1U);
}

}  // namespace
}  // namespace mdl::audit
