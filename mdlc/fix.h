// The edits that diagnostics carry, made in the files (mdlc --apply-fixes).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/support/diagnostics.h"

namespace mdl::mdlc {

struct FixedFile {
  std::string path;
  std::string text;  // after the edits
  size_t fixes = 0;  // diagnostics whose edits were made
};

// The files that change. The edits of one diagnostic are made together or, when they touch an
// edit made before, not at all: another run makes them.
std::vector<FixedFile> fixed_files(const Diagnostics& diagnostics, const Sources& sources);

// Makes them. Says on standard error what was done.
Result<void> apply_fixes(const Diagnostics& diagnostics, const Sources& sources);

}  // namespace mdl::mdlc
