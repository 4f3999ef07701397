// Output for people: aligned columns, a header now and then.
#pragma once

#include "runtime/output/writer.h"

namespace mdl::output {

std::unique_ptr<Writer> make_table(Sink& sink, bool colour);

// For display: control characters and bytes that are not UTF-8 become `?`. Names come from the
// target's files and must not reach a terminal as they are.
std::string printable(std::string_view text);
size_t columns(std::string_view printable_text);  // on the screen, one for each character

}  // namespace mdl::output
