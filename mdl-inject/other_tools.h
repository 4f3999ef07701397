// What answers here the question that somebody would put to another tool.
#pragma once

#include <string>
#include <string_view>

namespace mdl::inject {

// Of the name of a tool: the command lines, with PID for the process; "" of other words.
std::string instead_of_tool(std::string_view word);

}  // namespace mdl::inject
