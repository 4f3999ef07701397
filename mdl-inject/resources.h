// --list of resources that are known only while a program runs: locks, files and sockets, which a measurement of a moment
// finds (share/mdl/plans/locks.plan and files.plan), and threads, which /proc has.
#pragma once

#include <memory>
#include <string_view>

#include "mdl-inject/options.h"
#include "mdl-inject/policy.h"
#include "runtime/output/series.h"
#include "runtime/output/sink.h"

namespace mdl::inject {

// Whether what --list asks for is one of these, and not functions.
bool lists_resources(const Options& options);
// Returns the exit status.
int list_resources(const Options& options, const Policy& policy);

// Writes the lines of the last sample: resources, how often each was waited for, and for how long; or how often it was
// read and written, and how many bytes; the most first.
std::unique_ptr<output::Consumer> make_listing(output::Sink& sink, std::string_view format);

}  // namespace mdl::inject
