// A query: a metric in one line (docs/queries.md). The tree is what was written; compiler/query/ makes MDL of it.
#pragma once

#include "compiler/ast/ast.h"

namespace mdl::ast {

// What a query is about: functions, or all functions of an object.
struct Subject {
  enum class Kind : uint8_t {
    function,       // malloc, "ns::f(int)", /Code/libc.so.6/malloc
    object,         // /Code/libc.so.6: all functions, one value
    each_function,  // /Code/libc.so.6/*, /Code/app/get*: a value for each
    each_object,    // /Code/*: likewise
    each_named,     // get*: those that fit in all objects, a value for each
  };
  Kind kind = Kind::function;
  Span span;
  std::string item;           // as an item of a list has it: `malloc`, `libc.so.6/malloc`, `libc.so.6`
  std::optional<Name> point;  // `entry`, `return`
};

struct Query {
  Span span;
  Name verb;
  std::optional<Expr> value;  // of `sum VALUE at …`
  std::vector<Subject> subjects;
  std::vector<Expr> conditions;  // of each `if`; more than one is an error of the next step, and so below
  std::vector<std::vector<Subject>> within;
  std::vector<std::vector<Expr>> keys;
  std::vector<Name> names;  // of each `as`
};

}  // namespace mdl::ast
