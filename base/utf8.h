// UTF-8, as far as names and sources need it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mdl {

// Bytes of the character at the start of `text`; 0 when there is none (RFC 3629, section 4).
size_t utf8_length(std::string_view text);

// Whether a byte is one of a character, and not its first.
inline bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

// With the capital letters of ASCII as small ones.
std::string lower(std::string_view text);

}  // namespace mdl
