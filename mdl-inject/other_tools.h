// What answers here the question that somebody would put to another tool.
#pragma once

#include <string>
#include <string_view>

namespace mdl::inject {

// Of the name of a tool: the command lines, with PID for the process; "" of other words.
std::string instead_of_tool(std::string_view word);
// The same of a word that one of them takes in front of the process: `record`, `stat`.
std::string instead_of_subcommand(std::string_view word);
// The same of a probe, as bpftrace and perf write it: uprobe:libc:malloc { ... }.
std::string instead_of_probe(std::string_view word);

// Whether a word may be the name of a function, with its namespaces.
bool is_identifier(std::string_view word);

}  // namespace mdl::inject
