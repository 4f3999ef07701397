// Binding-time expressions: lists, points and conditions. Their values are known when the
// injector meets a process; here they get types and the manifest's form.
#pragma once

#include <optional>

#include "compiler/sema/symbols.h"
#include "compiler/support/suggest.h"

namespace mdl::sema {

struct Bound {
  format::Expr expr;
  Type type;
};

// Gives $constraint the meaning that it has in a constraint with this path; false if there is no such path.
bool select_path(Owner& owner, const ast::Path& path, bool is_default);

// $procedures and its kind; not $constraint, $arg and what else depends on the place.
std::vector<std::string_view> built_in_names();

class Binder {
 public:
  Binder(const Symbols& symbols, const Owner& owner, const Sources& sources, Diagnostics& diagnostics)
      : symbols_(symbols), owner_(owner), sources_(sources), diagnostics_(diagnostics) {}

  // The value of an expression; nothing when it has none, which has been reported.
  std::optional<Bound> bind(const ast::Expr& expr);

  // Variables of the enclosing foreach statements, innermost last.
  void enter(std::string name, Type type) { variables_.push_back({std::move(name), type}); }
  void leave() { variables_.pop_back(); }
  const Type* variable(std::string_view name) const;
  // Whether bind() has a meaning for the name, or an error of its own.
  bool knows(std::string_view name) const;

  // The constant index of `$constraint[n]`, `$arg[n]`: in [0, limit), else reported.
  std::optional<uint32_t> constant_index(const ast::Index& index, std::string_view what, size_t limit);
  // Whether `$constraint` has a meaning here; reported if not.
  bool check_selection(Span span);

  // Reports an extension under --std=classic. Returns whether it did.
  bool refuse_extension(Span span, std::string_view what);

  bool has_extensions() const { return symbols_.standard != Standard::classic; }

  // A hint for a name that was not found: near ones among variables, lists and `more`.
  Suggestion suggestion(std::string_view name, std::vector<std::string_view> more) const;

 private:
  struct Variable {
    std::string name;
    Type type;
  };

  std::optional<Bound> bind_kind(const ast::Expr& expr);
  std::optional<Bound> chain(const ast::Expr& expr, const ast::Binary& last);
  format::Expr balanced(std::vector<format::Expr>& operands, size_t begin, size_t end,
                        const std::string& op) const;
  std::optional<Bound> name_use(const ast::Expr& expr, const std::string& name);
  std::optional<Bound> field(const ast::Expr& expr, const ast::Field& field);
  std::optional<Bound> index(const ast::Expr& expr, const ast::Index& index);
  std::optional<Bound> unary(const ast::Expr& expr, const ast::Unary& unary);
  std::optional<Bound> binary(const ast::Expr& expr, const ast::Binary& binary);
  std::optional<Bound> selected(Span span, uint32_t n);
  std::optional<Bound> floating(Span span, std::string_view text);
  std::optional<Bound> undecidable(Span span, std::string_view what);
  format::Expr make(format::ExprKind kind, Span span) const;

  const Symbols& symbols_;
  const Owner& owner_;
  const Sources& sources_;
  Diagnostics& diagnostics_;
  std::vector<Variable> variables_;
  uint32_t depth_ = 0;     // of nested bind()
  bool too_deep_ = false;  // reported: once is enough
};

}  // namespace mdl::sema
