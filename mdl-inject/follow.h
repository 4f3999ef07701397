// --follow: who joins a session while it goes on. The choice and the judgement are made where the privileges are, and
// the attach where there are none.
#pragma once

#include <optional>

#include "mdl-inject/audit.h"
#include "mdl-inject/find_process.h"
#include "mdl-inject/options.h"
#include "mdl-inject/policy.h"
#include "runtime/kernel/broker.h"
#include "runtime/output/series.h"
#include "runtime/session/newcomers.h"

namespace mdl::inject {

// The broker's part. All of these outlive it; the audit is its own copy.
kernel::Newcomers admission(Choice& choice, const Policy& policy, Audit& audit);

// The worker's part; none without --follow. `choice` is asked itself where there is no broker.
std::optional<Newcomers::Source> source_of_newcomers(const Options& options, const plan::Plan& plan,
                                                     output::Feed& feed, Audit& audit,
                                                     std::optional<Choice>& choice);

}  // namespace mdl::inject
