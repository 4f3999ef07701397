// One layout for all sources (mdlc --reformat, docs/language.md).
//
// Only white space changes: the tokens and comments of the result are those of the source, in
// their order, which is checked before the result is handed out. Formatting the result again
// changes nothing, because the layout is a function of the tokens, of where comments stand
// (on a line of their own or behind something), and of where there are empty lines.
#pragma once

#include <optional>
#include <string>

#include "compiler/parse/parse.h"
#include "compiler/support/diagnostics.h"

namespace mdl {

constexpr size_t kReformatColumns = 100;

// The source in that layout; nothing if it has syntax errors, which are reported.
std::optional<std::string> reformat(const Source& source, Standard standard, Diagnostics& diagnostics);

}  // namespace mdl
