// A change of what is measured, prepared and judged before anything is done: requests of the session come and go, and
// those of a guest.
#pragma once

#include <functional>

#include "base/result.h"
#include "runtime/focus/continuation.h"
#include "runtime/session/commands.h"
#include "runtime/session/libraries.h"
#include "runtime/session/measured.h"
#include "runtime/session/measurement.h"
#include "runtime/session/options.h"

namespace mdl::inject {

struct Move {
  RequestChange change = {};
  const GuestRequests* comes = nullptr;
  const output::Feed* goes = nullptr;  // a guest's
};

// The session in which that is to be.
struct Ongoing {
  const Measured& now;
  const Measurement& measurement;
  const Libraries& libraries;
  const SessionOptions& options;
  bool tells_threads_apart;
  // Asked between steps that take long: an error, and nothing is changed.
  std::function<Result<void>()> goes_on;
};

struct NextRequests {
  Measured measured;
  focus::Kept kept;
  const GuestRequests* comes;
};

// What is measured afterwards; an error says why that cannot be.
Result<NextRequests> prepare(const Move& move, const Ongoing& session);
// Of the lines that come, how many cannot be measured; an error where that is all of them.
struct NewLines {
  size_t unmeasured = 0, all = 0;
};
// Again, where the coverage has become less.
Result<NewLines> check(const NextRequests& next, const Ongoing& session);

}  // namespace mdl::inject
