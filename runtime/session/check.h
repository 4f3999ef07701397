// Whether what was asked for can be measured: asked before anything is changed, and, of what was awaited, at
// the end.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/patch/coverage.h"
#include "runtime/session/options.h"

namespace mdl::inject {

// An error where blocks whose sites are keys would go unseen.
Result<void> check_sites(const focus::Binding& binding, const patch::Coverage& coverage);

// An error when nothing can be, or with --strict when any point is refused; warns of requests that cannot.
Result<void> check_coverage(const plan::Plan& plan, const focus::Binding& binding,
                            const patch::Coverage& coverage, const SessionOptions& options);

// Which cells are written by code that was inserted, and which flags requests wait for.
class Reach {
 public:
  explicit Reach(const focus::Binding& binding)
      : inserted_(binding),
        there_(binding),
        refused_(binding.requests.size()),
        parts_(binding.requests.size()) {}
  // The coverage is of a binding that has the cells and requests of the first one.
  void add(const plan::Plan& plan, const patch::Coverage& coverage);
  // A request is hollow when its value, or a flag that it waits for, is written nowhere, though it should be.
  std::vector<bool> hollow(const focus::Binding& binding) const { return inserted_.hollow(binding); }
  // Those for which functions are missing: not even one that has no such points is there.
  std::vector<bool> without_functions(const focus::Binding& binding) const;
  // Why a hollow one is: points were refused; its function is a part of another one; or it has no such points.
  enum class Why : uint8_t { refused, part, without };
  Why why(size_t request) const {
    return refused_[request] ? Why::refused : parts_[request] ? Why::part : Why::without;
  }

 private:
  struct Code {
    explicit Code(const focus::Binding& binding)
        : written(binding.cells.size()), guards(binding.requests.size()) {}
    void add(const plan::Plan& plan, const focus::BoundSnippet& snippet);
    std::vector<bool> hollow(const focus::Binding& binding) const;
    std::vector<bool> written;                       // by cell
    std::vector<std::vector<focus::CellId>> guards;  // by request
  };
  Code inserted_;
  Code there_;  // of all functions that are there, whether they have such points or not
  std::vector<bool> refused_, parts_;  // by request
};

// The findings about the requests, in all programs of a session.
class Found {
 public:
  void add(const focus::Binding& binding, const Reach& reach);
  // At the end, where something may have come later: says which requests were for something that never came, or
  // for what cannot be measured. True when there are some of the first kind, or nothing was measured.
  bool say_unreached(bool verbose) const;

 private:
  std::vector<std::string> order_;              // requests that were bound anywhere, METRIC@FOCUS
  std::map<std::string, std::string> missing_;  // of these: what they look for
  std::set<std::string> reached_;               // these have something that counts
  std::map<std::string, Reach::Why> met_;       // of these a function was there: why it counts nothing
  std::map<size_t, std::string> absent_;        // by Binding::absent, where no program had it: why
  std::set<size_t> present_;
};

}  // namespace mdl::inject
