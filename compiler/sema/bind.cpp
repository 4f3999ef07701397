#include "compiler/sema/bind.h"

#include <algorithm>

#include "compiler/sema/hierarchy.h"
#include "compiler/support/foreign_words.h"
#include "compiler/support/suggest.h"
#include "format/manifest_tables.h"

namespace mdl::sema {
namespace {

using format::ExprKind;

struct BuiltIn {
  std::string_view name;
  ExprKind kind;
  Type type;
  bool extension = false;
};
constexpr BuiltIn kBuiltIns[] = {
    {"$procedures", ExprKind::procedures, {Kind::list, Kind::procedure}},
    {"$modules", ExprKind::modules, {Kind::list, Kind::module}},
    {"$start", ExprKind::start, {Kind::list, Kind::procedure}},
    {"$exit", ExprKind::exit, {Kind::procedure}},
    {"$machine", ExprKind::machine, {Kind::string}},
    {"$globalId", ExprKind::global_id, {Kind::integer}},
    {"$points", ExprKind::points, {Kind::point, Kind::integer, format::PointKind::every}, true},
};

bool is_equality(ast::BinaryOp op) {
  return op == ast::BinaryOp::eq || op == ast::BinaryOp::ne;
}
bool is_order(ast::BinaryOp op) {
  using enum ast::BinaryOp;
  return op == lt || op == le || op == gt || op == ge;
}

bool is_number(Kind kind) {
  return kind == Kind::integer || kind == Kind::floating;
}

std::string member_hint(Kind owner, std::string_view name, bool with_extensions) {
  std::vector<std::string_view> members = member_names(owner, with_extensions);
  if (members.empty()) return "";
  std::string near = did_you_mean(name, members);
  return near.empty() ? fmt::format("{} has {}", noun(owner), one_of(members)) : near;
}

}  // namespace

bool select_path(Owner& owner, const ast::Path& path, bool is_default) {
  std::optional<std::vector<Kind>> types = path_types(path, is_default);
  if (!types) return false;
  owner.is_constraint = true;
  owner.selected.assign(types->rbegin(), types->rend());
  return true;
}

std::vector<std::string_view> built_in_names() {
  std::vector<std::string_view> names;
  for (const BuiltIn& b : kBuiltIns) names.push_back(b.name);
  return names;
}

format::Expr Binder::make(ExprKind kind, Span span) const {
  format::Expr expr;
  expr.kind = kind;
  expr.position = sources_.position(span);
  return expr;
}

std::optional<Bound> Binder::undecidable(Span span, std::string_view what) {
  diagnostics_.report(DiagnosticCode::not_decidable, span, what)
      .hint(what == "$args"
                ? "`$args.NAME` is a parameter as a whole: what is in it, or what it points to, is read with "
                  "readAddress($args.NAME + OFFSET)"
                : "");
  return std::nullopt;
}

std::optional<Bound> Binder::bind(const ast::Expr& e) {
  if (depth_ == format::kMaxDepth) {
    if (!too_deep_)
      diagnostics_.report(DiagnosticCode::too_deep, e.span, format::kMaxDepth,
                          "operators in a binding-time expression");
    too_deep_ = true;
    return std::nullopt;
  }
  depth_++;
  std::optional<Bound> bound = bind_kind(e);
  depth_--;
  return bound;
}

std::optional<Bound> Binder::bind_kind(const ast::Expr& e) {
  return std::visit(
      ast::Overloaded{
          [&](const ast::Integer& i) -> std::optional<Bound> {
            Bound bound{make(ExprKind::integer, e.span), {Kind::integer}};
            bound.expr.number = i.value;
            return bound;
          },
          [&](const ast::Boolean& b) -> std::optional<Bound> {
            Bound bound{make(ExprKind::integer, e.span), {Kind::integer}};
            bound.expr.number = b.value;
            return bound;
          },
          [&](const ast::String& s) -> std::optional<Bound> {
            Bound bound{make(ExprKind::string, e.span), {Kind::string}};
            bound.expr.text = s.text;
            return bound;
          },
          [&](const ast::Float& f) { return floating(e.span, f.text); },
          [&](const ast::NameUse& n) { return name_use(e, n.text); },
          [&](const ast::Field& f) { return field(e, f); },
          [&](const ast::Index& i) { return index(e, i); },
          [&](const ast::Unary& u) { return unary(e, u); },
          [&](const ast::Binary& b) { return binary(e, b); },
          [&](const ast::Call&) { return undecidable(e.span, "the result of a call"); },
          [&](const ast::Assign&) {
            diagnostics_.report(DiagnosticCode::not_decidable, e.span, "an assignment").hint("'==' compares");
            return std::optional<Bound>();
          },
          [&](const ast::Step&) { return undecidable(e.span, "a counter"); },
      },
      e.node);
}

std::optional<Bound> Binder::floating(Span span, std::string_view text) {
  std::optional<std::string> value = shortest_float(text);
  if (!value) {
    diagnostics_.report(DiagnosticCode::big_number, span, printable(text));
    return std::nullopt;
  }
  Bound bound{make(ExprKind::string, span), {Kind::floating}};
  bound.expr.text = std::move(*value);
  return bound;
}

const Type* Binder::variable(std::string_view name) const {
  for (auto v = variables_.rbegin(); v != variables_.rend(); ++v)
    if (v->name == name) return &v->type;
  return nullptr;
}

bool Binder::knows(std::string_view name) const {
  if (variable(name) != nullptr || symbols_.lists.contains(name) || symbols_.broken.contains(name))
    return true;
  return std::any_of(std::begin(kBuiltIns), std::end(kBuiltIns),
                     [&](const BuiltIn& b) { return b.name == name; });
}

Suggestion Binder::suggestion(std::string_view name, std::vector<std::string_view> more) const {
  if (diagnostics_.errors() >= Diagnostics::kLimit) return {};  // nobody will read it
  for (const Variable& v : variables_) more.push_back(v.name);
  for (const auto& [list, symbol] : symbols_.lists) more.push_back(list);
  for (const BuiltIn& b : kBuiltIns) more.push_back(b.name);
  return did_you_mean(name, more);
}

std::optional<Bound> Binder::name_use(const ast::Expr& e, const std::string& name) {
  if (const Type* type = variable(name)) {
    Bound bound{make(ExprKind::variable, e.span), *type};
    bound.expr.text = name;
    return bound;
  }
  if (auto list = symbols_.lists.find(name); list != symbols_.lists.end()) {
    if (!list->second.element) return std::nullopt;
    Bound bound{make(ExprKind::list, e.span), {Kind::list, *list->second.element}};
    bound.expr.text = name;
    return bound;
  }
  for (const BuiltIn& b : kBuiltIns)
    if (b.name == name) {
      if (b.extension && refuse_extension(e.span, fmt::format("'{}'", name))) return std::nullopt;
      if (b.kind == ExprKind::points && owner_.is_constraint) {
        diagnostics_.report(DiagnosticCode::no_points, e.span);
        return std::nullopt;
      }
      return Bound{make(b.kind, e.span), b.type};
    }
  if (name == "$constraint") return selected(e.span, 0);
  if (name == "$arg" || name == "$return" || name == "$thread" || name == "$cost" || name == "$args")
    return undecidable(e.span, name);
  if (owner_.names.contains(name)) return undecidable(e.span, fmt::format("the counter '{}'", name));
  if (symbols_.broken.contains(name)) return std::nullopt;
  const std::string foreign = has_extensions() ? foreign_value(name) : "";
  Diagnostic& said = diagnostics_.report(DiagnosticCode::unknown_name, e.span, name);
  if (foreign.empty())
    said.hint(suggestion(name, {"$constraint"}));
  else
    said.hint(foreign);
  return std::nullopt;
}

bool Binder::refuse_extension(Span span, std::string_view what) {
  if (has_extensions()) return false;
  diagnostics_.report(DiagnosticCode::extension, span, what).hint("--std=mdl26, the default, has it");
  return true;
}

bool Binder::check_selection(Span span) {
  if (!owner_.is_constraint) diagnostics_.report(DiagnosticCode::no_selection, span);
  return owner_.is_constraint;
}

std::optional<Bound> Binder::selected(Span span, uint32_t n) {
  if (!check_selection(span)) return std::nullopt;
  Bound bound{make(ExprKind::selected, span), {owner_.selected[n]}};
  bound.expr.number = n;
  return bound;
}

std::optional<uint32_t> Binder::constant_index(const ast::Index& index, std::string_view what, size_t limit) {
  auto* n = std::get_if<ast::Integer>(&index.index->node);
  if (n != nullptr && n->value >= 0 && static_cast<uint64_t>(n->value) < limit)
    return static_cast<uint32_t>(n->value);
  diagnostics_.report(
      DiagnosticCode::bad_index, index.index->span, what,
      limit == 1 ? std::string("0 here") : fmt::format("a number from 0 to {} here", limit - 1));
  return std::nullopt;
}

std::optional<Bound> Binder::index(const ast::Expr& e, const ast::Index& index) {
  auto* name = std::get_if<ast::NameUse>(&index.object->node);
  if (name != nullptr && name->text == "$constraint") {
    if (!check_selection(e.span)) return std::nullopt;
    auto n = constant_index(index, "$constraint", owner_.selected.size());
    return n ? selected(e.span, *n) : std::nullopt;
  }
  std::optional<Bound> object = bind(*index.object);
  if (!object) return std::nullopt;
  diagnostics_.report(DiagnosticCode::no_such_member, e.span, noun(object->type.kind), "[]")
      .hint(object->type.kind == Kind::list ? "visit its elements: foreach v in LIST" : "");
  return std::nullopt;
}

std::optional<Bound> Binder::field(const ast::Expr& e, const ast::Field& f) {
  std::optional<Bound> object = bind(*f.object);
  if (!object) return std::nullopt;
  // $start names a list, main and the start routines of threads, but its points are those of all of them.
  Kind owner = object->expr.kind == ExprKind::start ? Kind::procedure : object->type.kind;
  const Member* member = find_member(owner, f.field.text);
  if (member == nullptr) {
    diagnostics_.report(DiagnosticCode::no_such_member, f.field.span, noun(owner), f.field.text)
        .hint(member_hint(owner, f.field.text, symbols_.standard != Standard::classic));
    return std::nullopt;
  }
  if (member->extension && refuse_extension(f.field.span, fmt::format("'.{}'", f.field.text)))
    return std::nullopt;
  Bound bound{make(ExprKind::field, e.span), member->type};
  bound.expr.text = f.field.text;
  bound.expr.operands.push_back(std::move(object->expr));
  return bound;
}

std::optional<Bound> Binder::unary(const ast::Expr& e, const ast::Unary& u) {
  if (u.op == ast::UnaryOp::address) return undecidable(e.span, "an address");
  std::optional<Bound> operand = bind(*u.operand);
  if (!operand) return std::nullopt;
  const bool negates = u.op == ast::UnaryOp::negate && operand->type.kind == Kind::floating;
  if (negates && operand->expr.kind == ExprKind::string) return floating(e.span, "-" + operand->expr.text);
  if (operand->type.kind != Kind::integer && !negates) {
    diagnostics_.report(DiagnosticCode::not_a_condition, u.operand->span, noun(operand->type.kind));
    return std::nullopt;
  }
  Bound bound{make(ExprKind::unary, e.span), operand->type};
  bound.expr.text = std::string(ast::spelling(u.op));
  bound.expr.operands.push_back(std::move(operand->expr));
  return bound;
}

// `a || b || c ...` may be long, and a plan limits how deep its expressions nest: the chain
// becomes a balanced tree, which means the same.
std::optional<Bound> Binder::chain(const ast::Expr& e, const ast::Binary& last) {
  std::vector<const ast::Expr*> parts;
  const ast::Binary* link = &last;
  for (;;) {
    parts.push_back(link->right.get());
    auto* left = std::get_if<ast::Binary>(&link->left->node);
    if (left == nullptr || left->op != last.op) break;
    link = left;
  }
  parts.push_back(link->left.get());

  std::vector<format::Expr> operands;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    std::optional<Bound> bound = bind(**part);
    if (!bound) continue;
    if (bound->type.kind != Kind::integer)
      diagnostics_.report(DiagnosticCode::not_a_condition, (*part)->span, noun(bound->type.kind));
    operands.push_back(std::move(bound->expr));
  }
  if (operands.size() < parts.size()) return std::nullopt;
  Bound bound{balanced(operands, 0, operands.size(), std::string(ast::spelling(last.op))), {Kind::integer}};
  bound.expr.position = sources_.position(e.span);
  return bound;
}

format::Expr Binder::balanced(std::vector<format::Expr>& operands, size_t begin, size_t end,
                              const std::string& op) const {
  if (end - begin == 1) return std::move(operands[begin]);
  size_t middle = begin + (end - begin + 1) / 2;
  format::Expr expr;
  expr.kind = ExprKind::binary;
  expr.text = op;
  expr.position = operands[begin].position;
  expr.operands.push_back(balanced(operands, begin, middle, op));
  expr.operands.push_back(balanced(operands, middle, end, op));
  return expr;
}

std::optional<Bound> Binder::binary(const ast::Expr& e, const ast::Binary& b) {
  if (b.op == ast::BinaryOp::and_ || b.op == ast::BinaryOp::or_) return chain(e, b);
  std::optional<Bound> left = bind(*b.left);
  std::optional<Bound> right = bind(*b.right);
  if (!left || !right) return std::nullopt;
  // A whole number beside a floating-point one is one, too.
  for (auto [side, other] : {std::pair(&*left, &*right), std::pair(&*right, &*left)})
    if (side->expr.kind == ExprKind::integer && other->type.kind == Kind::floating)
      if (auto number = floating(e.span, std::to_string(side->expr.number))) *side = std::move(*number);
  Kind l = left->type.kind;
  Kind r = right->type.kind;
  bool texts = l == Kind::string && r == Kind::string && is_equality(b.op);
  bool numbers = is_number(l) && is_number(r) && (is_equality(b.op) || is_order(b.op));
  if (!texts && !numbers && (l != Kind::integer || r != Kind::integer)) {
    bool resource = l == Kind::procedure || l == Kind::module || r == Kind::procedure || r == Kind::module;
    diagnostics_.report(DiagnosticCode::mixed_types, b.op_span, ast::spelling(b.op), noun(l), noun(r))
        .hint(resource && is_equality(b.op) ? "compare names: f.name == \"main\"" : "");
    return std::nullopt;
  }
  Bound bound{make(ExprKind::binary, e.span), {Kind::integer}};
  bound.expr.text = std::string(ast::spelling(b.op));
  bound.expr.operands.push_back(std::move(left->expr));
  bound.expr.operands.push_back(std::move(right->expr));
  return bound;
}

}  // namespace mdl::sema
