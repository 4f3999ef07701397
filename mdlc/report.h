// Diagnostics for other programs: JSON and SARIF. Text is compiler/support's.
#pragma once

#include <string>

#include "compiler/support/diagnostics.h"

namespace mdl::mdlc {

// {"diagnostics":[{code, severity, message, file, line, column, end_line, end_column,
// notes:[{message, file, line, column}], hints:[...], fixes:[{file, line, column, end_line, end_column,
// replacement}]}], "dropped":N}, columns in bytes from 1; a warning has its `name`, too. The
// fixes of a diagnostic are applied together.
std::string render_json(const Diagnostics& diagnostics, const Sources& sources);

// SARIF 2.1.0 (docs.oasis-open.org/sarif), what code scanners and editors read.
std::string render_sarif(const Diagnostics& diagnostics, const Sources& sources);

}  // namespace mdl::mdlc
