// The way out for text: what a program says to a person, whose terminal obeys some of the characters in it.
//
// Names of symbols, processes, files, metrics and journals come from others, and stand in nearly all that is said.
// So nothing is printed but by say(), which makes all of it harmless, whatever it is. Formats for programs (JSON,
// CSV) have rules of their own and another way out (runtime/output/).
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace mdl {

// The text with `?` in the place of each character that a terminal obeys, or shows where it does not stand: control
// characters (C0, DEL, C1) without those of `kept`, marks of direction (U+200E, U+200F, U+202A to U+202E, U+2066 to
// U+2069), separators of lines (U+2028, U+2029), and bytes that are not UTF-8.
std::string harmless(std::string_view text, std::string_view kept = "");
// The same with \n, \t, \r, and \xNN for each byte, in the place of these characters.
std::string escaped(std::string_view text);

// The bytes of a format for programs, of several lines, as they may be written to an open file: a terminal does not get
// what it obeys.
std::string for_file(int file, std::string bytes);

// Formats and prints. A text among the arguments stays in its line; line ends are those of `format`. Throws
// where standard output cannot be written; messages for standard error are lost then.
void say_text(std::FILE* to, std::string_view text);  // of several lines

// While there is such a place, what is said on standard error is kept there: it would stand in what is drawn on the
// terminal.
void keep_errors(std::string* place);

template <typename T>
decltype(auto) harmless_argument(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return harmless(value);
  else
    return (value);
}

template <typename... Args>
std::string harmless_text(fmt::format_string<Args...> format, const Args&... args) {
  const std::tuple<decltype(harmless_argument(args))...> all(harmless_argument(args)...);
  return std::apply(
      [&](const auto&... one) {
        return fmt::vformat(fmt::string_view(format), fmt::make_format_args(one...));
      },
      all);
}

template <typename... Args>
void say(std::FILE* to, fmt::format_string<Args...> format, const Args&... args) {
  say_text(to, harmless_text(format, args...));
}

template <typename... Args>
void say(fmt::format_string<Args...> format, const Args&... args) {
  say(stdout, format, args...);
}

// A warning, a line on standard error, unless the same one has been said: several processes of one program have the
// same ones.
void warn_text_once(std::string text);
template <typename... Args>
void warn_once(fmt::format_string<Args...> format, const Args&... args) {
  warn_text_once(harmless_text(format, args...));
}

}  // namespace mdl
