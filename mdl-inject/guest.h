// A measurement of a process that another mdl-inject measures already: that one takes the requests into its session and
// sends their values (runtime/session/guests.h). All else is as in a session of one's own: the plan is read and admitted
// here, too, and the output is written here.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.h"
#include "mdl-inject/audit.h"
#include "mdl-inject/options.h"
#include "mdl-inject/plan_file.h"
#include "runtime/output/series.h"
#include "runtime/session/guest_wire.h"

namespace mdl::inject {

struct Host {
  guest_wire::Line line;
  pid_t pid = 0;
};

// Whoever serves guests for the process, and is of our own user. While sockets can be opened, and a single process is
// to be measured: before anything is known of it but its id.
std::optional<Host> find_host(const Options& options);
// The socket at which this one may be called by guests; none where it cannot have any.
std::optional<int> listen_for_guests(const Options& options);

// The option that keeps this from being a guest's; "" where there is none.
std::string needs_own_session(const Options& options);

// To the exit status; nothing where the host has ended before it answered: then the process is free, or soon will be.
// Errors say why the host does not take the requests.
Result<std::optional<int>> measure_as_guest(Host host, const Options& options, const PlanFile& file,
                                            const plan::Plan& plan, output::Feed& feed, Audit& audit);

}  // namespace mdl::inject
