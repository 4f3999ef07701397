// Guests: other mdl-inject that measure the same process. Two sets of patches cannot stand beside each other in it, so
// the one that was there first, the host, takes the requests of the others into its session, each in a transaction
// (attached_process.h), and gives them their values. Each has its own consents, plan, times of samples and end.
//
// They are of the host's user; the kernel says so. Still nothing that one says, or does not say, holds up the host or
// the process: nothing here waits, and what they may ask for in a time is bounded.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/session/attached_process.h"
#include "runtime/session/guest_wire.h"

namespace mdl::inject {

// What a guest has agreed to, and may do by its plan.
struct GuestConsents {
  bool allow_calls = false, allow_reads = false;
  std::optional<double> budget;
};

class Guests {
 public:
  // Whether the plan may be measured here, and with what.
  using Admit = std::function<Result<void>(const plan::Plan&, const std::string& name, GuestConsents&)>;
  // As of ChangeSources.
  using Log = std::function<Result<void>(const std::string& change, const std::string& outcome)>;

  // `listener` calls for them; `own`: who may be one. The host's own plan and options outlive it.
  Guests(int listener, uid_t own, Admit admit);
  ~Guests();
  Guests(const Guests&) = delete;
  Guests& operator=(const Guests&) = delete;

  void log_to(Log log) { log_ = std::move(log); }
  // Whether there is nothing to do for them.
  bool is_quiet() const;
  // One turn: those that call, that ask, and that have gone. `options`: the host's.
  void serve(AttachedProcess& process, const SessionOptions& options);
  // The session has ended, and has given them their last values.
  void end(const guest_wire::Farewell& farewell);

 private:
  using Clock = std::chrono::steady_clock;
  class Guest;

  void take_calls();
  void serve(Guest& guest, AttachedProcess& process, const SessionOptions& options);
  void greet(Guest& guest, const guest_wire::Message& message, AttachedProcess& process,
             const SessionOptions& options);
  Result<GuestRequests> read(Guest& guest, const guest_wire::Message& message,
                             const SessionOptions& options) const;
  void sample(Guest& guest, AttachedProcess& process);
  void leave(Guest& guest, AttachedProcess& process);

  int listener_;
  uid_t own_;
  Admit admit_;
  Log log_ = [](const std::string&, const std::string&) { return Result<void>(); };
  std::list<std::unique_ptr<Guest>> guests_;
};

}  // namespace mdl::inject
