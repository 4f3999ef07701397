// Tail calls belong to the caller (docs/events.md, "Tail calls"): a flag or a timer that a function raises
// at its entry and lowers at its returns stays up at its tail jump, until the function that the jump leads to
// returns. There the stack pointer is that of the caller's own return.
//
// So the returns of that function must be seen, and those of all functions that it ends with in the same way;
// each of them must be there, or nothing waits at the jump: the code that lowers runs at the jump, and the
// requests are told that this end comes early. Deciding only: the process is read, and nothing is changed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/focus/exclusion.h"
#include "runtime/image/tail_targets.h"
#include "runtime/patch/coverage.h"

namespace mdl::patch {

// Which pieces of code at a function's returns end what its entry began.
class Endings {
 public:
  Endings(const plan::Plan& plan, const focus::Binding& binding);

  struct Ending {
    focus::CellId cell = 0;  // a flag, a timer, a thread's active keys
    bool can_wait = false;   // the piece lowers this cell and does nothing else
  };
  // The cell that each piece at a return ends, as they stand there; nothing at other points. Nothing, too,
  // for a timer that the same metric stops before calls: a tail call is one.
  std::vector<std::optional<Ending>> of(const FunctionPlan& f, const FunctionPlan::Point& point) const;

 private:
  using Writers = std::map<focus::CellId, size_t>;  // how many pieces of a point write each cell

  std::optional<Ending> of(const focus::BoundSnippet& snippet, const std::set<focus::CellId>& balanced,
                           const Writers& writers) const;
  bool does_nothing_else(const focus::BoundSnippet& snippet, focus::CellId cell,
                         const Writers& writers) const;

  const plan::Plan& plan_;
  const focus::Binding& binding_;
  std::multimap<const image::Function*, focus::CellId> balanced_;
  std::set<std::pair<std::string, std::string>> at_calls_;  // owner and cell
};

class TailCalls {
 public:
  // `only`, `scope`: as of plan_coverage.
  TailCalls(const plan::Plan& plan, const focus::Binding& binding, const image::Image& image,
            const image::Memory& memory, const std::set<const image::Object*>* only, const TailScope& scope);

  // Before windows are chosen: the functions of which the returns must be seen are added, or get the point.
  void add_targets(std::vector<FunctionPlan>& functions, image::Codes& codes);
  // The function is not to be one of them: its returns cannot be had without taking something from others.
  void withdraw(FunctionPlan& f, std::string why);
  // When they are chosen: at which tail jumps code waits, and which requests end early. Points that turned
  // out to be of no use are taken away.
  void decide(Coverage& coverage);

 private:
  struct Way {  // out of a function, by a jump
    uint64_t exit = 0;
    image::TailTarget target;
  };
  struct Node {
    std::vector<Way> ways;
    std::string obstacle;  // why a jump that leads here is not waited for
  };

  bool has_endings(const FunctionPlan& f) const;
  std::string objection(const image::TailTarget& target) const;
  Node make_node(const FunctionPlan& f);
  void find_obstacles(const Coverage& coverage);
  void spread_obstacles();
  // Why nothing waits there; "" when it does.
  std::string obstacle(const Way& way) const;
  std::string obstacle_at(const FunctionPlan& f, uint64_t exit) const;
  void set_deferrals(FunctionPlan& f) const;
  std::set<const image::Function*> needed(const Coverage& coverage) const;
  void record_early_ends(Coverage& coverage, const FunctionPlan& f) const;

  image::TailTargets targets_;
  const std::set<const image::Object*>* only_;
  const TailScope& scope_;
  Endings endings_;
  std::optional<focus::Exclusions> exclusions_;
  std::map<const image::Function*, Node>
      nodes_;  // of functions with tail jumps that matter, and of their targets
};

}  // namespace mdl::patch
