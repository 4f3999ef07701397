// The state that the three ways to bind a request share (bind_alone.h, bind_children.h, bind_keys.h): the
// plan, the process, the draft, and which requests and constraints it holds already.
//
// Constraint code is shared: a constraint at a resource has one flag, and its code stands once at a
// point however many requests select it. That keeps every request's own order, because a
// request's base always comes after its constraints' code.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/focus/draft.h"
#include "runtime/focus/select.h"
#include "runtime/focus/wanted.h"

namespace mdl::focus {

class Requests {
 public:
  Requests(const plan::Plan& plan, const Names& names, const BindOptions& options, image::Codes* codes);

  const Constraints& constraints() const { return constraints_; }
  Draft& draft() { return draft_; }

  // How the owner's code is evaluated.
  Scope scope(const Resource* selected, std::string owner);
  // Looks up what code refers to in the application, once for each stencil.
  // An error where the code may not do what it does.
  Result<void> admit(const std::vector<Insertion>& code, const std::string& owner);
  // The same of what the resident code reads for a request.
  Result<void> admit_reads(const std::string& owner) const;
  Result<void> admit_links(const std::string& owner) const;  // of descriptors
  // Lays code that is admitted. `guards` are for code that is `constrained`. An error, too, when it is too
  // much, or uses cells that its owner does not have. Code of no request is there for all.
  Result<void> lay(const std::vector<Insertion>& code, const std::string& owner, const Cells& cells,
                   const std::vector<CellId>& guards, size_t instance, std::optional<uint32_t> request);

  // False when the request is bound already.
  bool is_new(const format::Metric& metric, const ResolvedFocus& focus);
  // The instance of a selection, laid now unless an earlier request has. `constrained` in a
  // constraint's own code means the constraints before it; only then do they tell instances apart.
  Result<size_t> instance(const Selection& selection, const std::vector<CellId>& guards, uint32_t request);
  // Lays the selected constraint, whose flag guards the base, and the code of constraints behind it.
  Result<void> constrain(const Selection& selection, BoundRequest& bound, uint32_t request,
                         std::vector<CellId>& guards);

  // A vector's own cells, of which the first is its value; and what keeps the flags among them right where
  // frames are active at the attach, or vanish.
  Cells cells_of(const format::Metric& metric, const std::string& focus);
  void balance_flags(const format::Metric& metric, const Cells& cells, const std::vector<Insertion>& code,
                     uint32_t request);

  // True when what it counts may be in a library that is not loaded yet.
  bool may_come(const WantedMetric& wanted) const { return await_ && wanted.named; }
  // A request that cannot be: an error if it was asked for by name.
  Result<void> leave_out(const WantedMetric& wanted, const Error& why);
  // Why a request was left out, if one was.
  const std::optional<Error>& left_out() const { return left_out_; }
  // The process has none of the procedures that the metric looks for.
  Error nothing(const WantedMetric& wanted, const std::vector<std::string>& missing) const;
  // It has not all of those that a metric names, of which each must be there.
  Error lacks(const format::Metric& metric, const std::vector<std::string>& missing) const;

  // The first request with this code, whatever its thread.
  std::unordered_map<std::string, uint32_t>& laid() { return laid_; }
  size_t& children() { return children_; }

 private:
  Result<void> admit(format::Routine routine, const std::string& owner) const;

  const plan::Plan& plan_;
  const Names& names_;
  image::Codes* codes_;
  std::span<const uint64_t> starts_;
  std::string flavor_;
  bool allow_calls_, allow_reads_;
  bool await_;
  bool nothing_is_right_;  // what cannot be is no error
  std::map<format::Routine, std::string> denied_;
  std::string denied_links_;
  Constraints constraints_;
  Draft draft_;
  std::map<std::string, size_t> instance_of_;  // by constraint, resource and guards
  std::unordered_set<std::string> bound_;      // metric and focus
  std::unordered_map<std::string, uint32_t> laid_;
  size_t children_ = 0;
  size_t steps_ = 0;  // of all evaluations
  std::optional<Error> left_out_;
};

}  // namespace mdl::focus
