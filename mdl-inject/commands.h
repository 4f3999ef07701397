// The commands that do not measure. Each returns the exit status.
#pragma once

#include "base/result.h"
#include "mdl-inject/options.h"
#include "mdl-inject/policy.h"
#include "runtime/kernel/broker.h"

namespace mdl::inject {

int list(const Options& options);
int verify(const Options& options, const Policy& policy);
int status(const Options& options);
int check(const Options& options);  // --check PID
int remove(const Options& options, const Policy& policy);

class Audit;

// For a broker: the processes that it knows by their names, and those by their descent; its part of --break-lock, and of
// the audit (null: none), which must stay where it is.
kernel::Trust trust_in(const Options& options, Audit* audit);

// With --separate, what is read of the process from here on is read without privileges.
Result<void> separate_reading(const Options& options, Audit* audit = nullptr);

// With --break-lock, ends the mdl-inject that holds the process's lock, and says so.
Result<void> break_lock(const Options& options);

// Prints an error to standard error and returns its status.
int fail(const Error& error);

}  // namespace mdl::inject
