// Places as the protocol has them: lines from 0, columns in UTF-16 code units unless the client
// can do with bytes; files as file:// URIs.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "compiler/support/source.h"

namespace mdl::lsp {

using Json = nlohmann::json;

enum class Encoding : uint8_t { utf16, utf8 };

Json position(const Source& source, uint32_t offset, Encoding encoding);
Json range(const Source& source, Span span, Encoding encoding);

// The offset of {"line", "character"}; what is beyond a line or the text is its end. Throws
// what nlohmann throws if it is no position.
uint32_t offset(const Source& source, const Json& position, Encoding encoding);

std::string uri_of(std::string_view path);
std::string path_of(std::string_view uri);  // the URI itself, if it is not of a file

}  // namespace mdl::lsp
