// Text in columns on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mdl::output {

// For display: control characters and bytes that are not UTF-8 become `?`. Names come from the
// target's files and must not reach a terminal as they are.
std::string printable(std::string_view text);
size_t columns(std::string_view printable_text);  // on the screen, one for each character
// Not more columns than that: the beginning and the end, with `…` between them.
std::string shortened(const std::string& printable_text, size_t most);

}  // namespace mdl::output
