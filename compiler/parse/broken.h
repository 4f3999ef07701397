// Definitions with syntax errors. The rest of their file is checked all the same, and must not
// be told that it uses names which those would have defined.
#pragma once

#include "compiler/parse/antlr.h"

namespace mdl::parser {

// Whether the parser had to mend something in the tree, or a token in it is wrong by itself.
bool is_broken(const Source& source, antlr4::ParserRuleContext* tree, const std::vector<Span>& wrong_tokens);

// The names that the text outside of the given definitions defines, or may be meant to define.
std::vector<ast::Name> broken_names(const Source& source, antlr4::CommonTokenStream& tokens,
                                    const std::vector<ast::Definition>& whole);

}  // namespace mdl::parser
