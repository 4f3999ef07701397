#include "compiler/sema/placement.h"

#include "compiler/ir/verify.h"
#include "compiler/sema/argument_variants.h"
#include "compiler/sema/bind.h"
#include "compiler/sema/known.h"
#include "compiler/sema/lower.h"
#include "compiler/sema/value_types.h"
#include "format/manifest_tables.h"

namespace mdl::sema {
namespace {

using format::Placement;
using format::PlacementKind;

std::string point_hint(const Type& type) {
  if (type.kind == Kind::procedure) return "a procedure's points are '.entry' and '.return'";
  if (type.kind == Kind::loop) return "a loop's points are '.enter', '.exit', '.start_iter' and '.end_iter'";
  if (type.kind == Kind::list && type.element == Kind::point) return "visit each: foreach c in LIST append c";
  return "";
}

class Placer {
 public:
  Placer(Owner& owner, const Symbols& symbols, const Sources& sources, Snippets& snippets,
         Diagnostics& diagnostics)
      : owner_(owner),
        sources_(sources),
        snippets_(snippets),
        diagnostics_(diagnostics),
        binder_(symbols, owner, sources, diagnostics) {}

  std::vector<Placement> statements(const std::vector<ast::Statement>& statements) {
    std::vector<Placement> placed;
    for (const ast::Statement& s : statements) placed.push_back(statement(s));
    return placed;
  }

  Placement statement(const ast::Statement& s) {
    Placement placed;
    placed.position = sources_.position(s.span);
    if (depth_ == format::kMaxDepth) {  // what a plan can hold
      diagnostics_.report(DiagnosticCode::too_deep, s.span, format::kMaxDepth, "statements");
      return placed;
    }
    depth_++;
    std::visit(ast::Overloaded{
                   [&](const ast::Block& block) { placed.body = statements(block.body); },
                   [&](const ast::Foreach& loop) {
                     foreach (placed, loop)
                       ;
                   },
                   [&](const ast::If& branch) { condition(placed, branch); },
                   [&](const ast::Insert& insert) { this->insert(placed, insert); },
               },
               s.node);
    depth_--;
    return placed;
  }

 private:
  void foreach (Placement& placed, const ast::Foreach& loop) {
    placed.kind = PlacementKind::foreach_;
    placed.variable = loop.variable.text;
    std::optional<Bound> list = binder_.bind(loop.list);
    if (!list) return;  // the body would only repeat the error
    if (list->type.kind != Kind::list) {
      std::string_view hint = list->type.kind == Kind::module ? "a module's procedures are '.funcs'" : "";
      diagnostics_.report(DiagnosticCode::not_a_list, loop.list.span, noun(list->type.kind))
          .hint(std::string(hint));
      return;
    }
    placed.expr = std::move(list->expr);
    binder_.enter(loop.variable.text, {list->type.element, Kind::integer, list->type.point});
    placed.body.push_back(statement(*loop.body));
    binder_.leave();
  }

  void condition(Placement& placed, const ast::If& branch) {
    placed.kind = PlacementKind::if_;
    warn_if_decided(branch.condition, diagnostics_);
    if (std::optional<Bound> bound = binder_.bind(branch.condition)) {
      if (bound->type.kind != Kind::integer)
        diagnostics_.report(DiagnosticCode::not_a_condition, branch.condition.span, noun(bound->type.kind));
      placed.expr = std::move(bound->expr);
    }
    placed.body.push_back(statement(*branch.body));
  }

  void insert(Placement& placed, const ast::Insert& insert) {
    placed.kind = PlacementKind::insert;
    placed.order = insert.order;
    std::optional<Bound> point = binder_.bind(insert.point);
    if (!point) return;  // whether $arg or $return is known in the code is not known
    if (point->type.kind != Kind::point) {
      diagnostics_.report(DiagnosticCode::not_a_point, insert.point.span, noun(point->type.kind))
          .hint(point_hint(point->type));
      return;
    }
    format::PointKind kind = point->type.point;
    placed.expr = std::move(point->expr);
    // Before and after an instruction are different only at a call; other points have no such instruction.
    if (insert.when == format::When::post && kind == format::PointKind::call_before) {
      kind = format::PointKind::call_after;
      placed.when = format::When::post;
    } else if (insert.when == format::When::post) {
      diagnostics_.report(DiagnosticCode::useless_post, insert.point.span, noun(kind));
    }
    placed.constrained = insert.constrained && owner_.unconstrained.empty();
    if (insert.constrained && !owner_.unconstrained.empty())
      diagnostics_.report(DiagnosticCode::useless_constrained, *insert.constrained, owner_.unconstrained);

    Lowered lowered = lower(insert.code, owner_, kind, binder_, diagnostics_);
    if (!lowered.entry) return lay(placed, std::move(lowered.snippet), insert.point.span, 0);
    // What notes the entries of calls for code at their returns. It is not constrained: where some entries of a cell were
    // left out, one that was noted before could be taken for them.
    Placement all;
    all.position = placed.position;
    const auto also_at = [&](format::PointKind point, ir::Snippet snippet) {
      Placement& one = all.body.emplace_back(placed);
      const bool is_behind = point == format::PointKind::call_after;
      one.order = is_behind ? format::Order::prepend : format::Order::append;
      one.when = is_behind ? format::When::post : format::When::pre;
      one.constrained = false;
      one.expr.text = format::info(is_behind ? format::PointKind::call_before : point).field;
      lay(one, std::move(snippet), insert.point.span, 1);
    };
    also_at(format::PointKind::entry, std::move(*lowered.entry));
    if (lowered.before) also_at(format::PointKind::call_before, std::move(*lowered.before));
    if (lowered.after) also_at(format::PointKind::call_after, std::move(*lowered.after));
    all.body.push_back(std::move(placed));
    lay(all.body.back(), std::move(lowered.snippet), insert.point.span, 1);
    placed = std::move(all);
  }

  // The insertion of the code, or the statements that choose among its forms. `deeper`: statements around it.
  void lay(Placement& placed, ir::Snippet snippet, Span span, uint32_t deeper) {
    snippet.position = placed.position;
    if (snippet.temps > ir::kMaxTemps || snippet.labels > ir::kMaxLabels)
      diagnostics_.report(DiagnosticCode::too_long, span, ir::kMaxTemps, "values or branches");
    const std::vector<ir::Snippet> variants = argument_variants(snippet);
    deeper += (variants.empty() ? 0 : 1) + (value_masks(snippet).empty() ? 0 : 1);
    if (deeper != 0 && depth_ + deeper + 1 > format::kMaxDepth)
      diagnostics_.report(DiagnosticCode::too_deep, span, format::kMaxDepth, "statements");
    else if (variants.empty() && value_masks(snippet).empty())
      placed.stencil = snippets_.add(owner_.name, std::move(snippet));
    else
      placed = choose(std::move(placed), snippet, variants);
  }

  // foreach $point in POINT { if (its argument is the first) (* ... *) if (it is the second) ... }
  Placement choose(Placement insert, const ir::Snippet& snippet, const std::vector<ir::Snippet>& variants) {
    Placement visit;
    visit.kind = PlacementKind::foreach_;
    visit.position = insert.position;
    visit.variable = kPointVariable;
    visit.expr = std::move(insert.expr);
    insert.expr = {};
    insert.expr.kind = format::ExprKind::variable;
    insert.expr.text = kPointVariable;
    insert.expr.position = visit.expr.position;
    if (variants.empty()) add_by_type(visit.body, insert, snippet);
    for (size_t n = 0; n < variants.size(); n++) {
      // Where it is not known, the first is refused with the reason.
      Placement& branch = visit.body.emplace_back(
          branch_if(insert, first_named(snippet), n == 0 ? "<=" : "==", static_cast<int64_t>(n)));
      add_by_type(branch.body, insert, variants[n]);
    }
    return visit;
  }

  // if (its values are 64 bits wide) (* ... *) if (they are not) (* the same, extended *)
  void add_by_type(std::vector<Placement>& into, const Placement& insert, const ir::Snippet& snippet) {
    const std::vector<format::Expr> masks = value_masks(snippet);
    if (masks.empty()) {
      into.push_back(insert);
      into.back().stencil = snippets_.add(owner_.name, snippet);
      return;
    }
    format::Expr common = masks[0];
    for (size_t i = 1; i < masks.size(); i++)
      common = operation("&", std::move(common), masks[i], insert.expr.position);
    for (const bool whole : {true, false}) {
      Placement& branch = into.emplace_back(branch_if(insert, common, whole ? "==" : "!=", -1));
      branch.body.push_back(insert);
      branch.body[0].stencil = snippets_.add(owner_.name, whole ? without_extension(snippet) : snippet);
    }
  }

  static Placement branch_if(const Placement& insert, format::Expr left, const char* op, int64_t right) {
    Placement branch;
    branch.kind = PlacementKind::if_;
    branch.position = insert.position;
    format::Expr number;
    number.number = right;
    branch.expr = operation(op, std::move(left), std::move(number), insert.position);
    return branch;
  }

  static format::Expr operation(const char* op, format::Expr left, format::Expr right,
                                const format::Position& position) {
    format::Expr expr;
    expr.kind = format::ExprKind::binary;
    expr.text = op;
    expr.position = position;
    expr.operands = {std::move(left), std::move(right)};
    return expr;
  }

  Owner& owner_;
  const Sources& sources_;
  Snippets& snippets_;
  Diagnostics& diagnostics_;
  Binder binder_;
  uint32_t depth_ = 0;  // of nested statements
};

}  // namespace

uint32_t Snippets::add(const std::string& owner, ir::Snippet snippet) {
  std::string name = fmt::format("{}_{}", owner, format::info(snippet.point).name);
  uint32_t count = ++used_[name];
  snippet.name = count == 1 ? name : fmt::format("{}.{}", name, count);
  snippets_.push_back(std::move(snippet));
  return static_cast<uint32_t>(snippets_.size() - 1);
}

Placement place(const ast::Statement& statement, Owner& owner, const Symbols& symbols, const Sources& sources,
                Snippets& snippets, Diagnostics& diagnostics) {
  return Placer(owner, symbols, sources, snippets, diagnostics).statement(statement);
}

std::vector<Placement> place(const std::vector<ast::Statement>& statements, Owner& owner,
                             const Symbols& symbols, const Sources& sources, Snippets& snippets,
                             Diagnostics& diagnostics) {
  return Placer(owner, symbols, sources, snippets, diagnostics).statements(statements);
}

}  // namespace mdl::sema
