// Text to tree.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ast/ast.h"
#include "compiler/ast/query.h"
#include "compiler/support/diagnostics.h"

namespace mdl {

// The most tokens of a file; 5,000 metrics are about 700,000.
constexpr size_t kMaxTokens = 2'000'000;

enum class Standard : uint8_t {
  mdl26,    // the classic language and our extensions
  classic,  // what Paradyn 5 spoke; an extension is an error
};

// Parses one file. Any bytes are safe: what is not MDL is reported, several errors a file.
// After an error the tree holds the definitions that have none, and the names of the others.
ast::File parse(const Source& source, Standard standard, Diagnostics& diagnostics);
inline ast::File parse(const Source& source, Diagnostics& diagnostics) {
  return parse(source, Standard::mdl26, diagnostics);
}

// Parses a query, which is the whole text. Nothing when there are errors.
std::optional<ast::Query> parse_query(const Source& source, Diagnostics& diagnostics);

}  // namespace mdl
