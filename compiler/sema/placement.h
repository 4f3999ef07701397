// Statements: where code goes. Their trees go into the manifest, their code to lower().
#pragma once

#include <map>

#include "compiler/program.h"
#include "compiler/sema/symbols.h"

namespace mdl::sema {

// Adds snippets to a program under names of their own: <owner>_<point>, then
// <owner>_<point>.2 and so on; no identifier has a '.', so the suffix clashes with none.
class Snippets {
 public:
  explicit Snippets(std::vector<ir::Snippet>& snippets) : snippets_(snippets) {}
  uint32_t add(const std::string& owner, ir::Snippet snippet);  // its index

 private:
  std::vector<ir::Snippet>& snippets_;
  std::map<std::string, uint32_t, std::less<>> used_;
};

// Checks a statement of one owner; each insertion becomes a snippet.
format::Placement place(const ast::Statement& statement, Owner& owner, const Symbols& symbols,
                        const Sources& sources, Snippets& snippets, Diagnostics& diagnostics);
std::vector<format::Placement> place(const std::vector<ast::Statement>& statements, Owner& owner,
                                     const Symbols& symbols, const Sources& sources, Snippets& snippets,
                                     Diagnostics& diagnostics);

}  // namespace mdl::sema
