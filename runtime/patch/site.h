// Deciding where the jumps go: sites and windows of one function.
//
// A site is an instruction at which code is wanted: the entry, or an exit. A window is a run of
// whole instructions, at least as long as a jump, that contains one or more sites; its
// first bytes become a jump to a trampoline that runs the code of the sites and the
// instructions themselves. Rules, each of them a reason to refuse:
//   - nothing but the first instruction of a window is the target of a branch, jump table
//     or landing pad, or may be one (image::Code::targets);
//   - it holds no call and no system call: a thread may return there;
//   - it does not cross a page, so that its one write is whole;
//   - an entry at which a branch of the function itself lands is a loop head: counting
//     there would count the rounds.
// Deciding is kept apart from patching: this reads decoded code and changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/kinds.h"
#include "runtime/image/code.h"
#include "runtime/image/image.h"

namespace mdl::patch {

struct Site {
  uint64_t address = 0;
  format::PointKind kind = format::PointKind::entry;
  image::ExitKind exit = image::ExitKind::return_;  // kind == return_
};

enum class Tactic : uint8_t { instructions, padding, call };
std::string_view name(Tactic);

struct Window {
  uint64_t start = 0;
  uint64_t end = 0;  // behind the last instruction, padding included
  Tactic tactic = Tactic::instructions;
  std::vector<image::Instruction> instructions;  // without trailing padding
  std::vector<Site> sites;                       // by address; an entry before an exit at the same one
};

struct Refusal {
  Site site;
  std::string reason;
};

struct FunctionSites {
  std::vector<Window> windows;  // by address, disjoint
  std::vector<Refusal> refusals;
  size_t entries = 0, exits = 0;  // wanted
};

// What is wanted of a function. `result`: something at the exits reads the returned value, which
// a tail jump does not have yet.
struct Wanted {
  bool entry = false;
  bool exits = false;
  bool result = false;
};

// The windows for the entry and/or every exit of a function.
FunctionSites plan_sites(const image::Function& function, const image::Code& code, const Wanted& wanted);

}  // namespace mdl::patch
