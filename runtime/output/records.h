// Output for programs: one record a row.
#pragma once

#include "runtime/output/writer.h"

namespace mdl::output {

std::unique_ptr<Writer> make_ndjson(Sink& sink);
// One document: an array of the same objects, written as they come and closed at the end.
std::unique_ptr<Writer> make_json(Sink& sink);
// RFC 4180, with a header line; booleans are true and false, `complete` and `anomalies` always there.
std::unique_ptr<Writer> make_csv(Sink& sink);

}  // namespace mdl::output
