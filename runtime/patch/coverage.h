// Which points of a binding can be patched: every function is decoded and its sites
// decided, refusals are charged to the requests that wanted them, and what belongs together
// is taken together (architecture, decision 6). Reads the running process, changes nothing.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/arch/point.h"
#include "runtime/arch/resident.h"
#include "runtime/focus/request.h"
#include "runtime/patch/site.h"

namespace mdl::patch {

// One function with its code, its windows and what runs there.
struct FunctionPlan {
  const image::Object* object = nullptr;
  const image::Function* function = nullptr;
  std::shared_ptr<const image::Code> code;  // null once it is in place (Coverage::forget_code)
  FunctionSites sites;
  // Its points; empty ones are of what runs there for no request: a hook, ends_deferred.
  struct Point {
    WantedSite wanted;
    std::vector<focus::BoundSnippet> snippets;  // what is left after refusals
  };
  std::vector<Point> points;           // by Site::point
  arch::Hook hook = arch::Hook::none;  // what of ours runs at its entry, or its returns
  // Tail calls (tail_calls.h): its returns end what functions that jump here have left up; at which of its
  // own tail jumps code waits for such returns, by their addresses; and the functions whose returns these
  // are.
  bool ends_deferred = false;
  std::map<uint64_t, arch::Deferral> deferrals;
  std::vector<const image::Function*> tail_targets;

  // Whether the hook is for points of this kind.
  bool is_hooked(format::PointKind kind) const;
  // Sites of a window at which something of a request runs.
  uint64_t sites_of(const Window& window) const;
};

struct RefusedSite {
  const image::Object* object = nullptr;
  const image::Function* function = nullptr;
  Site site;
  std::string reason;
  std::vector<uint8_t> bytes;  // at the site
};

// A tail jump at which a function's flags fall and its timers stop, though it goes on behind it.
struct EarlyEnd {
  const image::Object* object = nullptr;
  const image::Function* function = nullptr;
  Site site;
  std::string reason;
};

// The part that tail calls have in an extension of a session.
struct TailScope {
  bool may_wait = true;     // there is room for what waits
  std::set<uint64_t> ends;  // functions of the session whose returns end it
};

struct Coverage {
  std::vector<FunctionPlan> functions;
  std::vector<RefusedSite> refused;
  std::vector<uint64_t> refused_of;  // per request: sites it wanted and does not get
  // By request: functions in which it has refused points, and those that are parts of others, and none.
  using Functions = std::map<uint32_t, std::set<const image::Function*>>;
  Functions functions_refused, of_parts;
  std::vector<EarlyEnd> early;
  std::vector<uint64_t> early_of;             // per request: pieces of code that run too early there
  uint64_t sites = 0;                         // wanted in all
  std::map<std::string, uint64_t> by_tactic;  // sites taken
  std::vector<std::string> unhooked;          // hooks that could not be taken, with the reason

  // Most of its memory, which nobody asks for any more once the code is in place.
  void forget_code() {
    for (FunctionPlan& f : functions) f.code.reset();
  }
};

// The process beyond its binding.
struct CoverageScope {
  const std::set<const image::Object*>* only = nullptr;  // hooks are taken in these objects; null: in all
  bool follow = false;  // forks are followed: what executes programs is hooked
  TailScope tails = {};
  std::vector<image::Range> stubs = {};  // pages of the session that stubs may have (stubs.h)
};

// Hooks are taken too: of the exit, and where flags are kept, of what makes frames vanish.
Coverage plan_coverage(const plan::Plan& plan, const focus::Binding& binding, const image::Image& image,
                       const image::Memory& memory, image::Codes& codes, const CoverageScope& scope = {});

// The requests with points in functions of such objects, whether or not these points are covered.
std::set<uint32_t> requests_in(const Coverage& coverage,
                               llvm::function_ref<bool(const image::Object&)> is_meant);

// Where keys are sites of blocks: a function that releases blocks unseen, so that a site could be another block's.
const RefusedSite* unseen_release(const focus::Binding& binding, const Coverage& coverage);

// All windows of a function are given up; their sites are refused. So are those of functions that end with a
// jump to it, and rely on its returns.
void give_up(Coverage& coverage, FunctionPlan& function, const std::string& reason);

// Pairs that must stay even (a flag raised at an entry and lowered at the returns, a timer started before a
// call and stopped after it) are dropped for a function in which one side is refused.

// True when something waits at a tail jump.
bool defers(const Coverage& coverage);
// True when a function waits for returns of another.
bool relies_on(const FunctionPlan& f, const FunctionPlan& other);
// Why it is refused when the other one is.
std::string refused_with(const image::Function& other, const std::string& reason);
// True when a call is armed: its code stands at a place that a branch reaches, too.
bool arms_calls(const Coverage& coverage);
// The places of the code behind calls, by the calls' addresses.
struct BehindCall {
  uint64_t at = 0;  // the instruction in front of which it runs
  bool armed = false;
  bool operator==(const BehindCall&) const = default;
};
std::map<uint64_t, BehindCall> code_behind_calls(const Coverage& coverage);

// How this snippet writes a cell; null when it does not.
const format::CellUse* write_of(const plan::Plan& plan, const focus::BoundSnippet& snippet,
                                focus::CellId cell);
inline bool writes_flag(const plan::Plan& plan, const focus::BoundSnippet& snippet, focus::CellId flag) {
  return write_of(plan, snippet, flag) != nullptr;
}
// At a point that `raises` (an entry, a call) or lowers (an exit, behind a call): that is what the snippet
// does with the flag or timer.
bool raises_or_lowers(const plan::Plan& plan, const focus::BoundSnippet& snippet, focus::CellId cell,
                      bool raises);

}  // namespace mdl::patch
