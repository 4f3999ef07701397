// The names that a program defines, and those of them that the code of one definition may use.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/parse/parse.h"
#include "compiler/sema/types.h"
#include "compiler/support/diagnostics.h"
#include "format/manifest.h"

namespace mdl::sema {

// The definitions of all files by name. Lists, constraints and metrics are names of
// different kinds and do not clash; of each kind a name is defined once.
struct Symbols {
  Standard standard = Standard::mdl26;
  struct List {
    Span span;
    std::optional<Kind> element;  // nothing where its type is wrong, which is reported where it is defined
  };
  std::map<std::string, List, std::less<>> lists;
  std::map<std::string, Span, std::less<>> constraints;
  std::map<std::string, Span, std::less<>> metrics;
  std::set<std::string, std::less<>> broken;  // have syntax errors: what uses them may be right
};

// The uses that code makes of a cell, for warnings.
struct CellHistory {
  bool named = false;
  bool changed = false;         // or its address is taken, so that it may be
  std::optional<Span> started;  // a timer: where first
  std::optional<Span> stopped;
};

// A metric or a constraint while its statements are analyzed: its cells and their names.
struct Owner {
  std::string name;                                    // of its snippets
  std::vector<format::Cell> cells;                     // the value or flag first, that for calls last
  std::vector<CellHistory> histories;                  // of the cells that have names in code
  std::map<std::string, uint32_t, std::less<>> names;  // identifiers of code -> index into cells
  std::vector<Kind> selected;      // types of $constraint[n]: the most specific component first
  bool is_constraint = false;      // $constraint has a meaning
  bool has_flag = false;           // cells[0] is the flag of a constraint
  bool counts_calls = false;       // the flag stands for active calls: setting it is worth a warning
  std::string_view unconstrained;  // why `constrained` has no effect here; empty: it has
  std::string void_metric;         // the metric whose base is void
  const std::vector<ast::Expr>* keys = nullptr;  // cells[0] is kept for each value of these,
  uint32_t first_key = 0;                        // which cells from here on hold; then the format::KeyChange
  format::CellKind keyed = format::CellKind::counter;  // of what is kept for each
};

}  // namespace mdl::sema
