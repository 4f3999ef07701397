// What answers here the question that somebody would put to another tool.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace mdl::inject {

// Of the name of a tool: the command lines, for the process; "" of other words.
std::string instead_of_tool(std::string_view word, std::string_view process = "PID");
// The same of all words behind `mdl-inject`, where the first one is a tool, or what one of them takes in front of its
// options (`record`, `stat`). The process is theirs, where they name it.
std::string instead_of_command(std::span<const char* const> words);
// The same of a probe, as bpftrace and perf write it: uprobe:libc:malloc { ... }.
std::string instead_of_probe(std::string_view word);

// Whether a word may be the name of a function, with its namespaces.
bool is_identifier(std::string_view word);

}  // namespace mdl::inject
