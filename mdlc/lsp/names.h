// The names in a document: what each means and where that is defined.
//
// Types are those that the compiler itself gives (sema::Binder), with mistakes left out: this
// goes through definitions that may be wrong.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mdlc/lsp/analysis.h"

namespace mdl::lsp {

struct Occurrence {
  Span span;                       // of the name
  std::optional<Span> definition;  // of the name where it is defined; built-in names have none
  std::string about;               // "counter m", as in MDL
  std::string more;                // a sentence, or ""
};

struct Index {
  std::vector<Occurrence> names;  // of the document, in any order
  std::vector<Span> inserts;      // its append and prepend statements

  const Occurrence* name_at(uint32_t offset) const;
  const Span* insert_at(uint32_t offset) const;
};

Index index_of(const Analysis& analysis);

// "a list of procedures" and the like.
std::string about(const sema::Type& type);

// A definition in one line.
std::string headline(const ast::Constraint& constraint);
std::string headline(const ast::ResourceList& list);

}  // namespace mdl::lsp
