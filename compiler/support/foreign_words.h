// Words of other tools and languages, and what is asked for here in their place. Who types one has never read our
// pages, so the hint says what to type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mdl {

// Each is "" for a word that is not known.
std::string foreign_verb(std::string_view word);    // where a query begins: `trace`, `histogram`
std::string foreign_clause(std::string_view word);  // behind what is measured: `where`, `group`
std::string foreign_value(
    std::string_view word);  // in a value, a condition or a key: `arg0`, `retval`, `tid`

std::string foreign_key(std::string_view word);  // called with what a key is: `sym($arg[0])`

// What says `every 5s` or `for 5s` of a measurement.
std::string option_of_time(std::string_view word, std::string_view time);

// Of "1ms", "64k" and the like, and of "1e6": the number without its unit, in nanoseconds where it is a time.
struct PlainNumber {
  uint64_t value = 0;
  bool has_unit = false, is_time = false;
};
std::optional<PlainNumber> plain_number(std::string_view number);
std::string without_unit(std::string_view number);
bool is_unit_of_time(std::string_view word);  // `ms`

}  // namespace mdl
