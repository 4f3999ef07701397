// mdlc --lsp: the language server protocol, version 3.17, over standard input and output.
#pragma once

#include "mdlc/options.h"

namespace mdl::lsp {

// Serves until the client ends it; answers the exit status that the protocol asks for. The
// options are those of a compilation, and the files are part of every document's program.
int serve(const mdlc::Options& options);

}  // namespace mdl::lsp
