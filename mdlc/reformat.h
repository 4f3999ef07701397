// mdlc --reformat: prints, rewrites or checks the files of the command line.
#pragma once

#include "mdlc/options.h"

namespace mdl::mdlc {

// Answers mdlc's exit status. A file with syntax errors stays as it is.
int reformat_files(const Options& options, Diagnostics& diagnostics, const Sources& sources);

}  // namespace mdl::mdlc
