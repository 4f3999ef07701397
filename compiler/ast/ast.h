// The syntax tree: what the user wrote, nothing resolved.
//
// Each choice of the grammar is a struct in a std::variant, visited with an overloaded set.
// Places are expressions too (`func.entry`, `$constraint[0].funcs`); sema tells code from
// binding-time expressions. Fields of a definition are kept in order and as often as they
// were written, so that sema can say what is missing and what is doubled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/support/source.h"
#include "format/manifest.h"

namespace mdl::ast {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>  // Clang 14 needs to be told
Overloaded(F...)->Overloaded<F...>;

struct Name {
  std::string text;
  Span span;
};

// --- Expressions ---

enum class UnaryOp : uint8_t { negate, not_, complement, address };
enum class BinaryOp : uint8_t {
  add,
  sub,
  mul,
  div,
  rem,
  shl,
  shr,
  lt,
  le,
  gt,
  ge,
  eq,
  ne,
  bit_and,
  bit_xor,
  bit_or,
  and_,
  or_
};
enum class AssignOp : uint8_t { set, add, sub, mul };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Integer {
  int64_t value = 0;
};
struct Float {
  std::string text;
};
struct String {
  std::string text;
};
struct Boolean {
  bool value = false;
};
struct NameUse {
  std::string text;  // "func", "$arg", "$constraint"
};
struct Field {
  ExprPtr object;
  Name field;
};
struct Index {
  ExprPtr object;
  ExprPtr index;
};
struct Call {
  ExprPtr callee;
  std::vector<Expr> args;
};
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};
struct Binary {
  BinaryOp op;
  Span op_span;
  ExprPtr left;
  ExprPtr right;
};
struct Assign {
  AssignOp op;
  Span op_span;
  ExprPtr target;
  ExprPtr value;
};
struct Step {  // c++ c-- ++c --c
  int amount = 1;
  bool prefix = false;
  ExprPtr target;
};

struct Expr {
  Span span;
  std::variant<Integer, Float, String, Boolean, NameUse, Field, Index, Call, Unary, Binary, Assign, Step>
      node;
};

// Calls `visit` with each expression that another one is made of, in the order of the text.
template <typename Visit>
void each_child(const Expr& e, Visit visit) {
  std::visit(Overloaded{
                 [&](const Field& f) { visit(*f.object); },
                 [&](const Index& i) { visit(*i.object), visit(*i.index); },
                 [&](const Call& call) {
                   visit(*call.callee);
                   for (const Expr& arg : call.args) visit(arg);
                 },
                 [&](const Unary& u) { visit(*u.operand); },
                 [&](const Binary& b) { visit(*b.left), visit(*b.right); },
                 [&](const Assign& a) { visit(*a.target), visit(*a.value); },
                 [&](const Step& step) { visit(*step.target); },
                 [](const auto&) {},
             },
             e.node);
}

// --- Code: what runs in the process ---

struct CodeStatement;
using CodeStatementPtr = std::unique_ptr<CodeStatement>;

struct ExprCode {
  Expr expr;
};
struct IfCode {
  Expr condition;
  CodeStatementPtr then;
  CodeStatementPtr otherwise;  // may be null
};
struct BlockCode {
  std::vector<CodeStatement> body;
};
struct CodeStatement {
  Span span;
  std::variant<ExprCode, IfCode, BlockCode> node;
};

// --- Statements: where code goes ---

struct Statement;
using StatementPtr = std::unique_ptr<Statement>;

struct Block {
  std::vector<Statement> body;
};
struct Foreach {
  Name variable;
  Expr list;
  StatementPtr body;
};
struct If {
  Expr condition;
  StatementPtr body;
};
struct Insert {
  format::Order order = format::Order::append;
  std::optional<format::When> when;
  Expr point;
  std::optional<Span> constrained;
  std::vector<CodeStatement> code;
};
struct Statement {
  Span span;
  std::variant<Block, Foreach, If, Insert> node;
};

// --- Definitions ---

struct Literal {
  enum class Kind : uint8_t { string, integer, floating, boolean, name };
  Kind kind = Kind::string;
  std::string text;  // without quotes
  Span span;
};

// `units Calls;`, `items { "a", "b" };`, `command "x";`: a key and its values.
struct Setting {
  Name key;
  std::vector<Literal> values;
};

struct CellType {
  Name kind;                     // counter, processTimer, hwCounter, void, ...
  std::optional<Literal> event;  // hwCounter("EVENT")
};

struct ResourceList {
  Name name;
  Name type;
  std::vector<Setting> settings;  // items, flavor, library
};

struct Path {
  std::vector<Name> parts;  // "*" for any
  Span span;
};

struct Constraint {
  Name name;
  Path path;
  bool is_default = false;
  CellType type;  // unless it is the default
  std::vector<Statement> body;
};

struct Base {
  Span span;
  CellType type;
  std::vector<Expr> keys;  // of `keyed by`
  std::vector<Statement> body;
};

// `constraint ID;` or the in-line form, in the metric's order.
struct MetricConstraint {
  Name name;
  std::optional<Constraint> definition;
};

struct Metric {
  Name name;
  std::vector<Setting> settings;  // name units unitsType aggregateOperator style flavor mode focus
  std::vector<MetricConstraint> constraints;
  std::vector<Name> temporaries;
  std::vector<Name> flags;  // temporaries that count active calls
  std::vector<Base> bases;
};

enum class ToolKind : uint8_t { daemon, process, visi };

struct Tool {
  ToolKind kind = ToolKind::daemon;
  Name name;
  std::vector<Setting> settings;
};

struct Tunables {
  std::vector<Setting> settings;  // the key is the quoted name
};

struct Exclude {
  std::vector<Name> options;  // noCase, regex
  Literal pattern;
};

struct Definition {
  Span span;  // of the whole; its beginning is where missing parts are reported
  std::variant<ResourceList, Constraint, Metric, Tool, Tunables, Exclude, Statement> node;
};

struct File {
  uint32_t ordinal = 0;
  std::vector<Definition> definitions;  // those without errors of their own
  std::vector<Name> broken;             // what the others define
  bool readable = true;                 // else nothing is known of what it defines
};

// Spellings: "+", "+=", "daemon".
std::string_view spelling(UnaryOp);
std::string_view spelling(BinaryOp);
std::string_view spelling(AssignOp);
std::string_view spelling(ToolKind);

}  // namespace mdl::ast
