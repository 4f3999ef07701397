// read_code against the machine: a program is single-stepped through functions of every shape,
// and each step is held against what read_code said. A way out that is no exit, a jump that
// arrives at no target, an exit inside of a function fail.
#include "runtime/image/code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "tests/unit/runtime/image/program.h"

namespace mdl::image {
namespace {

using testing::Folder;
using testing::Program;

struct Watched {
  const Function* function;
  Code code;
  std::set<uint64_t> targets, exits, after_calls;
  std::map<uint64_t, const Instruction*> instructions;
  size_t exits_taken = 0;
  bool contains(uint64_t pc) const {
    return std::any_of(code.ranges.begin(), code.ranges.end(),
                       [&](const Range& range) { return range.contains(pc); });
  }
};

struct Activation {
  Watched* watched;
  uint64_t stack_pointer;  // at the entry: where the return address is
};

class Stepper {
 public:
  Stepper(Program& program, std::map<uint64_t, Watched>& watched) : program_(program), watched_(watched) {}

  // Steps until the program stops itself again.
  void run() {
    RegisterFile before = program_.registers();
    while (program_.step() == 0 && !::testing::Test::HasFailure()) {
      RegisterFile after = program_.registers();
      look_at(before, after);
      before = after;
    }
  }
  size_t steps() const { return steps_; }

 private:
  static constexpr size_t kSp = 7, kPc = 16;

  void look_at(const RegisterFile& before, const RegisterFile& after) {
    ++steps_;
    uint64_t from = before[kPc], to = after[kPc], sp = after[kSp];
    bool was_inside = !stack_.empty() && stack_.back().watched->contains(from);
    bool left_by_jump = false, is_call = true;
    if (was_inside) {
      Watched& watched = *stack_.back().watched;
      auto found = watched.instructions.find(from);
      if (found == watched.instructions.end()) {  // inside of one: behind a lock prefix that was jumped over
        ASSERT_TRUE(watched.targets.count(from)) << watched.function->name << " runs at " << std::hex << from;
        return;
      }
      const Instruction& one = *found->second;
      is_call = one.flow == Flow::call || one.flow == Flow::call_indirect;
      if (one.flow == Flow::return_) {
        EXPECT_TRUE(watched.exits.count(from))
            << watched.function->name << " returns at " << std::hex << from;
        ++watched.exits_taken;
        stack_.pop_back();
      } else if (!is_call && !watched.contains(to)) {
        // system calls and the like go on behind themselves
        EXPECT_TRUE(watched.exits.count(from)) << watched.function->name << " leaves at " << std::hex << from;
        EXPECT_EQ(sp, stack_.back().stack_pointer);
        ++watched.exits_taken;
        stack_.pop_back();
        left_by_jump = true;
      } else if (!is_call) {
        EXPECT_TRUE(to == from + one.size || watched.targets.count(to))
            << watched.function->name << " jumps to " << std::hex << to;
        bool may_stay = one.flow == Flow::branch;  // a conditional tail call not taken
        EXPECT_TRUE(may_stay || !watched.exits.count(from))
            << watched.function->name << " does not leave at " << std::hex << from;
        return;
      }
    }
    while (!stack_.empty() && stack_.back().stack_pointer < sp && !stack_.back().watched->contains(to))
      stack_.pop_back();
    auto entered = watched_.find(to);
    if (entered != watched_.end() && (left_by_jump || is_call)) {
      stack_.push_back({&entered->second, sp});
      return;
    }
    // Back from a call, or resumed by the exception runtime or longjmp.
    while (!stack_.empty() && !stack_.back().watched->contains(to) && stack_.back().stack_pointer < sp)
      stack_.pop_back();
    if (!was_inside && !stack_.empty() && stack_.back().watched->contains(to) &&
        !stack_.back().watched->contains(from)) {
      Watched& watched = *stack_.back().watched;
      EXPECT_TRUE(watched.targets.count(to) || watched.after_calls.count(to))
          << watched.function->name << " is resumed at " << std::hex << to;
    }
  }

  Program& program_;
  std::map<uint64_t, Watched>& watched_;
  std::vector<Activation> stack_;
  size_t steps_ = 0;
};

struct Build {
  std::string compiler;
  std::string options;
  bool strip;
  std::string unknown = "";  // the function of which nobody knows where its jump leads
};
void PrintTo(const Build& build, std::ostream* out) {
  *out << build.compiler << ' ' << build.options << (build.strip ? ", stripped" : "");
}

class CodeOfBuild : public ::testing::TestWithParam<Build> {};

std::map<uint64_t, Watched> read_watched(const Image& image, const Memory& memory,
                                         const std::string& unknown) {
  std::map<uint64_t, Watched> watched;
  const Object& main = image.objects.front();
  for (const Function& function : main.functions) {
    if (!function.name.starts_with("s_") || function.name.starts_with("s_asm_")) continue;
    if (function.name == unknown) continue;
    Result<Code> code = read_code(image, main, function, memory);
    EXPECT_TRUE(code) << function.name;
    if (!code) continue;
    EXPECT_EQ(code->doubt, "") << function.name;
    EXPECT_TRUE(code->complete) << function.name;
    EXPECT_FALSE(code->unresolved_jump) << function.name;
    Watched one{&function, std::move(*code), {}, {}, {}, {}, 0};
    one.targets.insert(one.code.targets.begin(), one.code.targets.end());
    for (const Exit& exit : one.code.exits) one.exits.insert(exit.address);
    watched.emplace(function.address, std::move(one));
  }
  for (auto& [address, one] : watched) {
    for (const Instruction& instruction : one.code.instructions) {
      one.instructions[instruction.address] = &instruction;
      if (instruction.flow == Flow::call || instruction.flow == Flow::call_indirect)
        one.after_calls.insert(instruction.address + instruction.size);
    }
  }
  return watched;
}

TEST_P(CodeOfBuild, AgreesWithTheMachine) {
  const Build& how = GetParam();
  ASSERT_TRUE(testing::have(how.compiler));
  Folder folder;
  std::string path = testing::build(folder, how.compiler, "functions.cc", how.options);
  ASSERT_FALSE(HasFatalFailure());
  if (how.strip) testing::run("strip " + path);
  Program program({path});
  ASSERT_TRUE(program.continue_to(SIGSTOP));
  Result<Image> image = read_image(program.pid());
  ASSERT_TRUE(image) << image.error().text;
  LiveMemory memory(program.pid());
  std::map<uint64_t, Watched> watched = read_watched(*image, memory, how.unknown);
  ASSERT_GE(watched.size(), 24u);
  Stepper stepper(program, watched);
  stepper.run();
  EXPECT_GT(stepper.steps(), 1000u);
  for (const auto& [address, one] : watched) {
    // Two functions never end: by longjmp always, and the thrower's exits are taken by its other way.
    if (one.function->name == "s_jumper") continue;
    EXPECT_GE(one.exits_taken, 1u) << one.function->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Compilers, CodeOfBuild,
                         ::testing::Values(Build{"g++", "-O2", false}, Build{"g++", "-O0", false},
                                           Build{"g++", "-O3 -rdynamic", true},
                                           Build{"g++", "-O2 -no-pie -fcf-protection=full", false},
                                           Build{"g++", "-O2 -static", false},
                                           Build{"g++", "-O2 -fno-plt -rdynamic -fcf-protection=full", true},
                                           Build{"clang++", "-O2", false},
                                           Build{"clang++", "-O0", false, "s_computed_goto"},
                                           Build{"clang++", "-O2 -no-pie -rdynamic", true}),
                         [](const auto& info) { return "build" + std::to_string(info.index); });

class CodeOfSample : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    path_ = new std::string(testing::build(*folder_, "g++", "functions.cc", "-O2"));
    program_ = new Program({*path_});
    ASSERT_TRUE(program_->continue_to(SIGSTOP));
    Result<Image> image = read_image(program_->pid());
    ASSERT_TRUE(image) << image.error().text;
    image_ = new Image(std::move(*image));
  }
  static void TearDownTestSuite() {
    delete image_;
    delete program_;
    delete path_;
    delete folder_;
  }

  static const Function& find(const std::string& name) {
    for (const Function& function : image_->objects.front().functions)
      if (function.name == name) return function;
    ADD_FAILURE() << name << " is not in the program";
    return image_->objects.front().functions.front();
  }
  static Code code_of(const std::string& name) {
    Result<Code> code = read_code(*image_, image_->objects.front(), find(name), LiveMemory(program_->pid()));
    EXPECT_TRUE(code);
    return code ? std::move(*code) : Code();
  }
  static std::vector<ExitKind> exit_kinds(const Code& code) {
    std::vector<ExitKind> kinds;
    for (const Exit& exit : code.exits) kinds.push_back(exit.kind);
    return kinds;
  }

  inline static Folder* folder_ = nullptr;
  inline static std::string* path_ = nullptr;
  inline static Program* program_ = nullptr;
  inline static Image* image_ = nullptr;
};

TEST_F(CodeOfSample, KindsOfExits) {
  EXPECT_EQ(exit_kinds(code_of("s_leaf")), std::vector{ExitKind::return_});
  EXPECT_EQ(exit_kinds(code_of("s_tail")), std::vector{ExitKind::tail_jump});
  EXPECT_EQ(exit_kinds(code_of("s_through_pointer")), std::vector{ExitKind::tail_jump_indirect});
  EXPECT_EQ(exit_kinds(code_of("s_through_table")), std::vector{ExitKind::tail_jump_indirect});
  EXPECT_EQ(exit_kinds(code_of("s_rep_ret")), std::vector{ExitKind::return_});
  EXPECT_EQ(exit_kinds(code_of("s_asm_ret_immediate")), std::vector{ExitKind::return_});
  EXPECT_EQ(exit_kinds(code_of("s_conditional_tail")),
            (std::vector{ExitKind::tail_branch, ExitKind::return_}));
  EXPECT_TRUE(code_of("s_jumper").exits.empty());
}

TEST_F(CodeOfSample, ATableGoesOnBehindACaseThatCannotHappen) {
  Code code = code_of("s_asm_unreachable_case");
  EXPECT_EQ(code.doubt, "");
  ASSERT_EQ(code.switches.size(), 1u);
  EXPECT_EQ(code.switches[0].targets.size(), 3u);
  ASSERT_EQ(code.instructions.size(), 8u);  // no window takes the padding behind
  for (size_t i = 4; i < 7; ++i) EXPECT_TRUE(code.is_target(code.instructions[i].address)) << i;
}

TEST_F(CodeOfSample, AVirtualCallBesideASwitchLeaves) {
  EXPECT_EQ(exit_kinds(code_of("s_virtual_beside_switch")),
            (std::vector{ExitKind::return_, ExitKind::return_, ExitKind::tail_jump_indirect}));
  Code either = code_of("s_asm_label_or_method");
  EXPECT_TRUE(either.unresolved_jump);
  EXPECT_NE(either.doubt.find("leads is not known"), std::string::npos) << either.doubt;
}

TEST_F(CodeOfSample, CodeThatMayStopAndOneFunctionAloneJumpsToIsItsOwn) {
  Code own = code_of("s_parts_of_its_own");
  EXPECT_EQ(own.doubt, "");
  EXPECT_EQ(own.ranges.size(), 4u);
  EXPECT_EQ(exit_kinds(own), (std::vector{ExitKind::tail_branch, ExitKind::return_, ExitKind::return_,
                                          ExitKind::return_, ExitKind::return_}));
  // Called, named by a pointer, its address taken: ways out. What does not come back is none.
  Code shared = code_of("s_asm_shares_called");
  EXPECT_EQ(shared.doubt, "");
  EXPECT_EQ(shared.ranges.size(), 1u);
  EXPECT_EQ(exit_kinds(shared), (std::vector{ExitKind::tail_branch, ExitKind::tail_branch,
                                             ExitKind::tail_branch, ExitKind::return_}));
}

// The part of such a function that throws is no return of it, named or not.
TEST(CodeOfStripped, APartThatThrowsIsNoExit) {
  for (const std::string options : {"-O2 -rdynamic", "-O3 -rdynamic -no-pie", "-O3 -rdynamic -static"}) {
    Folder folder;
    std::string path = testing::build(folder, "g++", "functions.cc", options);
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
    Result<Code> named = Code(), stripped = Code();
    for (Result<Code>* code : {&named, &stripped}) {
      if (code == &stripped) testing::run("strip -N s_throws_from_afar.cold " + path);
      Program program({path});
      ASSERT_TRUE(program.continue_to(SIGSTOP));
      Result<Image> image = read_image(program.pid());
      ASSERT_TRUE(image) << image.error().text;
      const Object& main = image->objects.front();
      auto function = std::ranges::find(main.functions, "s_throws_from_afar", &Function::name);
      ASSERT_NE(function, main.functions.end());
      *code = read_code(*image, main, *function, LiveMemory(program.pid()));
      ASSERT_TRUE(*code);
    }
    ASSERT_EQ(named->exits.size(), 1u) << options;
    EXPECT_EQ(named->exits.front().kind, ExitKind::tail_jump);
    ASSERT_EQ(stripped->exits.size(), 1u) << options;
    EXPECT_EQ(stripped->exits.front().address - stripped->ranges.front().start,
              named->exits.front().address - named->ranges.front().start);
  }
}

TEST_F(CodeOfSample, EntryJumpedToFromInside) {
  const Function& function = find("s_entry_is_loop");
  std::vector<uint64_t> targets = code_of("s_entry_is_loop").targets;
  EXPECT_TRUE(std::binary_search(targets.begin(), targets.end(), function.address));
  // A recursive call is none.
  targets = code_of("s_recursive").targets;
  EXPECT_FALSE(std::binary_search(targets.begin(), targets.end(), find("s_recursive").address));
}

TEST_F(CodeOfSample, ColdPartsBelongToTheirFunction) {
  EXPECT_EQ(find("s_cold_and_back").parts.size(), 1u);
  EXPECT_EQ(find("s_catcher").parts.size(), 1u);
  for (const Function& function : image_->objects.front().functions)
    EXPECT_EQ(function.name.find(".cold"), std::string::npos) << function.name;
  // The handler's return is among the exits, in the cold part.
  Code code = code_of("s_catcher");
  EXPECT_EQ(code.ranges.size(), 2u);
  const Range& part = find("s_catcher").parts.front();
  EXPECT_TRUE(std::any_of(code.exits.begin(), code.exits.end(),
                          [&](const Exit& exit) { return part.contains(exit.address); }) ||
              std::any_of(code.targets.begin(), code.targets.end(),
                          [&](uint64_t target) { return part.contains(target); }));
}

TEST_F(CodeOfSample, PaddingIsRead) {
  const Function& function = find("s_rep_ret");  // 6 bytes, the next starts at a multiple of 16
  Code code = code_of("s_rep_ret");
  uint64_t end = code.instructions.back().address + code.instructions.back().size;
  EXPECT_EQ(end, (function.address + function.size + 15) & ~uint64_t{15});
  EXPECT_TRUE(code.instructions.back().is_padding);
  // Nothing leads to it: what follows a return is a target only where it is code.
  EXPECT_TRUE(code.targets.empty());
}

TEST_F(CodeOfSample, JumpsToTheEndRunOnIntoWhatIsBehind) {
  Code runs = code_of("s_asm_to_end"), never = code_of("s_asm_never_to_end");
  EXPECT_EQ(exit_kinds(runs), (std::vector{ExitKind::tail_jump, ExitKind::return_}));
  EXPECT_EQ(exit_kinds(never), std::vector{ExitKind::return_});
  // Both ways the padding is not for windows.
  for (const Code& code : {runs, never}) {
    EXPECT_EQ(code.doubt, "");
    EXPECT_TRUE(code.is_target(code.ranges.back().end));
    EXPECT_EQ(code.instructions.back().address + code.instructions.back().size, code.ranges.back().end);
  }
  EXPECT_NE(code_of("s_asm_to_nothing").doubt.find("in no function that is known"), std::string::npos);
}

TEST_F(CodeOfSample, DoubtIsSaid) {
  EXPECT_NE(code_of("s_asm_pc_trick").doubt.find("leads into itself"), std::string::npos);
  for (const char* name : {"s_asm_falls_through", "s_asm_falls_through_padding"})
    EXPECT_NE(code_of(name).doubt.find("runs on behind its end"), std::string::npos) << name;
  Code data = code_of("s_asm_data_inside");
  EXPECT_FALSE(data.complete);
  EXPECT_NE(data.doubt.find("not an instruction"), std::string::npos);
  Code unknown = code_of("s_asm_unknown_jump");
  EXPECT_TRUE(unknown.unresolved_jump);
  EXPECT_NE(unknown.doubt, "");
  Code hidden = code_of("s_asm_through_thunk");  // it may lead back into the function
  EXPECT_TRUE(hidden.unresolved_jump);
  EXPECT_NE(hidden.doubt.find("retpoline"), std::string::npos) << hidden.doubt;
  for (const char* name : {"s_asm_push_return", "s_asm_store_return"}) {
    Code pushed = code_of(name);
    EXPECT_TRUE(pushed.unresolved_jump) << name;
    EXPECT_NE(pushed.doubt.find("put on the stack itself"), std::string::npos) << pushed.doubt;
  }
  EXPECT_EQ(code_of("s_asm_push_pop_return").doubt, "");
  Code table = code_of("s_asm_hidden_table");
  EXPECT_TRUE(table.unresolved_jump);
  EXPECT_NE(table.doubt.find("to which nothing else does"), std::string::npos) << table.doubt;
  Code slot = code_of("s_asm_through_slot");
  EXPECT_EQ(slot.doubt, "");
  EXPECT_EQ(exit_kinds(slot), (std::vector{ExitKind::tail_jump_indirect, ExitKind::return_}));
  Code functions = code_of("s_asm_array_of_functions");
  EXPECT_EQ(functions.doubt, "");
  EXPECT_EQ(exit_kinds(functions), (std::vector{ExitKind::tail_jump_indirect, ExitKind::return_}));
}

TEST_F(CodeOfSample, JumpsFromOtherFunctionsIntoTheMiddle) {
  const Function& victim = find("s_asm_victim");
  // mov %rdi, %rax is 3 bytes, add $2, %rax is 4.
  EXPECT_EQ(code_of("s_asm_victim").targets, (std::vector{victim.address + 3, victim.address + 7}));
  EXPECT_EQ(exit_kinds(code_of("s_asm_near_intruder")), std::vector{ExitKind::tail_jump});
}

TEST_F(CodeOfSample, CallsFromOtherFunctionsIntoTheMiddle) {
  const Function& called = find("s_asm_called_in_middle");
  std::vector<uint64_t> targets = code_of("s_asm_called_in_middle").targets;
  EXPECT_TRUE(std::binary_search(targets.begin(), targets.end(), called.address + 3));
  EXPECT_FALSE(std::binary_search(targets.begin(), targets.end(), called.address));
  const std::string doubt = code_of("s_asm_called_in_middle").doubt;
  EXPECT_NE(doubt.find("the call at"), std::string::npos) << doubt;
  EXPECT_EQ(code_of("s_asm_caller_of_middle").doubt, "");
}

// What is executed there, and how often it returns, is not one function's alone.
TEST_F(CodeOfSample, EndsSharedWhileAFrameIsOpenAreInDoubt) {
  for (const char* borrower : {"s_asm_borrows_end", "s_asm_borrows_near", "s_asm_borrows_bare"}) {
    Code code = code_of(borrower);
    EXPECT_EQ(code.ranges.size(), 1u) << borrower;
    EXPECT_NE(code.doubt.find("into the middle of another function"), std::string::npos) << code.doubt;
  }
  for (const char* name : {"s_asm_lends_end", "s_asm_lends_bare"}) {
    Code lender = code_of(name);
    EXPECT_NE(lender.doubt.find("of other code leads into it"), std::string::npos) << name << lender.doubt;
  }

  const Function& borrower = find("s_asm_borrows_end");
  const Object& object = image_->objects.front();
  const Function* unnamed = function_at(object, borrower.address + borrower.size);
  ASSERT_TRUE(unnamed && unnamed->unnamed);
  Result<Code> code = read_code(*image_, object, *unnamed, LiveMemory(program_->pid()));
  ASSERT_TRUE(code);
  EXPECT_NE(code->doubt.find("of other code leads into it"), std::string::npos) << code->doubt;
}

TEST_F(CodeOfSample, EndsWithANameOfTheirOwnAreInDoubt) {
  for (const auto& [name, why] :
       {std::pair("s_asm_to_named_end", "where its frame is there still"),
        std::pair("s_asm_named_end", "others jump to it while their frames are there"),
        std::pair("s_asm_to_plain_end", "leaves it while its frame is there")}) {
    const Code code = code_of(name);
    EXPECT_NE(code.doubt.find(why), std::string::npos) << name << ": " << code.doubt;
  }
  const Code unsaid = code_of("s_asm_end_unsaid");
  EXPECT_EQ(unsaid.doubt, "");
  EXPECT_EQ(exit_kinds(unsaid), std::vector{ExitKind::tail_jump});
}

TEST_F(CodeOfSample, AJumpToTheLinkageTableMakesNoPart) {
  const Function& before = find("s_asm_borrows_near");
  const Function* unnamed = function_at(image_->objects.front(), before.address + before.size);
  EXPECT_TRUE(unnamed && unnamed->unnamed && unnamed->address == before.address + before.size);
}

// GCC 12 writes pads of cold code at wrong places with -fno-reorder-functions.
TEST_F(CodeOfSample, APadInWhatIsAFunctionForItselfMakesNoPart) {
  Code code = code_of("s_asm_pad_elsewhere");
  EXPECT_EQ(code.ranges.size(), 1u);
  EXPECT_NE(code.doubt.find("is not in a part of it"), std::string::npos) << code.doubt;
  EXPECT_EQ(exit_kinds(code), std::vector{ExitKind::return_});
}

TEST_F(CodeOfSample, AStoreToTheFirstPageDoesNotRunOn) {
  Code code = code_of("s_asm_ends_by_a_store");
  EXPECT_EQ(code.doubt, "");
  EXPECT_EQ(exit_kinds(code), std::vector{ExitKind::return_});
}

TEST_F(CodeOfSample, SwitchTargetsAreFound) {
  Code code = code_of("s_switch_framed");
  EXPECT_FALSE(code.unresolved_jump);
  EXPECT_TRUE(std::any_of(code.instructions.begin(), code.instructions.end(),
                          [](const Instruction& one) { return one.flow == Flow::jump_indirect; }));
  EXPECT_GE(code.targets.size(), 8u);
}

TEST_F(CodeOfSample, UnreadableMemoryIsAnError) {
  BufferMemory nothing({});
  EXPECT_FALSE(read_code(*image_, image_->objects.front(), find("s_leaf"), nothing));
}

}  // namespace
}  // namespace mdl::image
