// Prometheus' text format, version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).
//
// The format describes one moment: a metric's HELP and TYPE may be there once, and a series once. So a file
// always holds the latest sample alone, and is replaced whole; a pipe or a terminal gets the last sample
// only, when the measurement ends. Series of a process that has ended keep their last value. There are no
// time stamps: the one who reads the file knows when, and its rules for series that vanish work only without.
#pragma once

#include "runtime/output/writer.h"

namespace mdl::output {

// Metrics are mdl_ID, and mdl_ID_total where they only grow; pid and focus are labels.
std::unique_ptr<Writer> make_prometheus(Sink& sink);

}  // namespace mdl::output
