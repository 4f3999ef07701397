// The words of a command line that are no options: PID, queries, sources, a plan, `top`, and the command of --run.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mdl-inject/options.h"

namespace mdl::inject {

bool is_number(std::string_view word);  // of digits alone
bool is_list(const std::string& word);  // of numbers: 12,13
// It has several words, of which the first one begins with a small letter and goes on with these and digits (`p99
// malloc` is none, which mdlc says), or a verb and what it is about in parentheses. A file is not looked for: whoever may
// write to the current folder must not put one in its place.
bool is_query(const std::string& word);

// Takes `top` away, in front or behind the process. Whether it was there.
bool take_top(std::vector<std::string>& words);

// Gives the words their meaning, which depends on the command, or says what is wrong. `behind`: how many stand behind `--`.
std::optional<std::string> assign_words(Options& out, std::span<const std::string> words, size_t behind);

// The process by its id, or what is wrong with that.
std::optional<std::string> set_pid(Options& out, const std::string& text);

}  // namespace mdl::inject
