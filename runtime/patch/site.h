// Deciding where the jumps go: sites and windows of one function.
//
// A site is a place at an instruction where code is wanted: in front of it, behind it, or on the taken side
// of a branch. Which sites a point has (one at an entry, one for each way out at a return, one for each edge
// of a loop) is spots.h's affair. A window is a run of whole instructions, at least as long as a jump, that
// contains one or more sites; its first bytes become a jump to a trampoline that runs the code of the sites
// and the instructions themselves. Where there is no room for a jump, the window is shorter: a short jump
// leads to a relay (relay.h), or a punned one to a stub (stubs.h). Rules, each of them a reason to refuse:
//   - nothing but the first instruction of a window is the target of a branch, jump table
//     or landing pad, or may be one (image::Code::targets), and no function or part of one begins in it
//     (image::Code::entries);
//   - it holds no call and no system call: a thread may return there;
//   - it does not cross a page, so that its one write is whole;
//   - an entry at which a branch of the function itself lands is a loop head: counting
//     there would count the rounds.
// Deciding is kept apart from patching: this reads decoded code and changes nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/kinds.h"
#include "runtime/arch/point.h"
#include "runtime/image/code.h"
#include "runtime/image/image.h"
#include "runtime/patch/stubs.h"

namespace mdl::patch {

// Where the code of a site runs.
enum class Where : uint8_t {
  before,  // in front of the instruction, however it was reached
  taken,   // when the branch is taken
  behind,  // when control runs on from it to the next instruction
};

struct Site {
  uint64_t address = 0;
  format::PointKind kind = format::PointKind::entry;
  image::ExitKind exit = image::ExitKind::return_;  // kind == return_
  Where where = Where::before;
  uint32_t point = 0;                        // index into what was wanted
  arch::Arming arming = arch::Arming::none;  // of an armed call: this site is the call, or what follows it
  uint64_t returns_to = 0;                   // the address behind that call
  uint64_t instead_of = 0;                   // on a way to a return: that return
  bool again = false;                        // one more way there, another site stands for the event
  std::optional<arch::OwnFrame> frame = {};  // at a call, where that is asked for (own_frame.h)
  uint32_t deeper = 0;                       // an entry at the first call: bytes pushed before it
};

// How control comes to the trampoline (docs/injection.md, "Windows").
enum class Tactic : uint8_t { instructions, padding, call, short_, punned };
std::string_view name(Tactic);

struct Window {
  uint64_t start = 0;
  uint64_t end = 0;  // behind the last instruction, padding included
  Tactic tactic = Tactic::instructions;
  uint64_t relay = 0;         // short_: where the jump to the trampoline lies, in padding or in a host
  bool hosted = false;        // short_: in a host
  uint32_t relays = 0;        // of short_ windows, behind its own jump: it is a host, perhaps without a site
  uint64_t stub = 0;          // punned: where the jump leads, in a StubSpace
  std::vector<uint8_t> kept;  // punned: the bytes behind the window that are a part of the jump
  std::vector<image::Instruction> instructions;  // without trailing padding
  std::vector<Site> sites;                       // in the order in which their code runs
};

struct Refusal {
  Site site;
  std::string reason;
};

struct FunctionSites {
  std::vector<Window> windows;  // by address, disjoint
  std::vector<Refusal> refusals;
  size_t wanted = 0;  // sites
};

// At a tail jump there is no returned value yet: code that reads it is left out there.
inline constexpr std::string_view kTailJump =
    "a tail jump: the value is returned by the function that it goes to";
inline constexpr std::string_view kUnreadResult =
    "no caller that was found reads its result, so the compiler may have left that out";
inline bool is_tail_jump(const Site& site) {
  return site.kind == format::PointKind::return_ && site.exit != image::ExitKind::return_;
}

// A point that is wanted of a function. `place` as in focus::BoundPoint; `result`: some of its code reads
// the returned value, `only_result`: all of it does.
struct WantedSite {
  format::PointKind kind = format::PointKind::entry;
  uint64_t place = 0;
  bool result = false;
  bool only_result = false;
  bool repeatable = false;    // its code may run behind a call whenever its function runs
  bool arguments = false;     // some of its code must see the registers as they are at that instruction
  bool asked = true;          // by a request; else it is not counted as wanted
  bool at_tail_jumps = true;  // at the exits, not only returns are meant
};

// The windows for the sites of all these points. `stubs`: of punned jumps; null: there are none.
FunctionSites plan_sites(const image::Function& function, const image::Code& code,
                         std::span<const WantedSite> wanted, StubSpace* stubs = nullptr);

}  // namespace mdl::patch
