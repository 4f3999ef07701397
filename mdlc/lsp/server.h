// mdlc --lsp: the language server protocol, version 3.17, over standard input and output.
#pragma once

#include "mdlc/options.h"

namespace mdl::lsp {

// Serves until the client ends it, by these files; answers the exit status that the protocol asks for. The
// options are those of a compilation, and the files are part of every document's program.
int serve(const mdlc::Options& options, int in, int out);

}  // namespace mdl::lsp
