// What somebody may have meant whose words mean nothing as they stand.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

namespace mdl::inject {

// Of a query whose words are several arguments, because the shell took its quotes, or there were none; "" of others.
std::string without_quotes(std::span<const std::string> words);

// Of words beside a query that are no queries: a plan, or what belongs into its quotes.
std::string beside_query(const std::string& query, std::span<const std::string> words);

// Of a word that is taken for a plan, and no file.
std::string no_such_plan(const std::string& word);

// Of a command that is written as a word, where it is an option here: `list`, `help`; "" of others.
std::string command_as_word(const std::string& word);

// An error of the command line in our words.
std::string wrong_option(const CLI::App& app, const CLI::ParseError& problem);

}  // namespace mdl::inject
