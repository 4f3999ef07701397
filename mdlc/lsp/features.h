// The answers to what an editor asks about a document, as the protocol's JSON.
#pragma once

#include "mdlc/lsp/documents.h"
#include "mdlc/lsp/places.h"

namespace mdl::lsp {

Json diagnostics_of(const Document& document, Encoding encoding);  // of publishDiagnostics
Json hover(const Document& document, uint32_t offset, Encoding encoding, std::string_view target);
Json definition(const Document& document, uint32_t offset, Encoding encoding);
Json completion(const Document& document, uint32_t offset);
Json formatting(const Document& document, Encoding encoding, Standard standard);
// The edits of diagnostics that touch the range.
Json code_actions(const Document& document, Span range, Encoding encoding);

}  // namespace mdl::lsp
