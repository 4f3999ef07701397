// Whether what was asked for can be measured: asked before anything is changed, and, of what was awaited, at
// the end.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/patch/reach.h"
#include "runtime/session/options.h"

namespace mdl::inject {

using patch::Reach;

// An error where blocks whose sites are keys would go unseen.
Result<void> check_sites(const focus::Binding& binding, const patch::Coverage& coverage);

// An error when nothing can be, or with --strict when any point is refused; warns of requests that cannot.
Result<void> check_coverage(const plan::Plan& plan, const focus::Binding& binding,
                            const patch::Coverage& coverage, const SessionOptions& options);

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
