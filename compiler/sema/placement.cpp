#include "compiler/sema/placement.h"

#include "compiler/ir/verify.h"
#include "compiler/sema/argument_variants.h"
#include "compiler/sema/bind.h"
#include "compiler/sema/known.h"
#include "compiler/sema/lower.h"
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
      diagnostics_.report(Code::too_deep, s.span, format::kMaxDepth, "statements");
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
      diagnostics_.report(Code::not_a_list, loop.list.span, noun(list->type.kind)).hint(std::string(hint));
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
        diagnostics_.report(Code::not_a_condition, branch.condition.span, noun(bound->type.kind));
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
      diagnostics_.report(Code::not_a_point, insert.point.span, noun(point->type.kind))
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
      diagnostics_.report(Code::useless_post, insert.point.span, noun(kind));
    }
    placed.constrained = insert.constrained && owner_.unconstrained.empty();
    if (insert.constrained && !owner_.unconstrained.empty())
      diagnostics_.report(Code::useless_constrained, *insert.constrained, owner_.unconstrained);

    ir::Snippet snippet = lower(insert.code, owner_, kind, binder_, diagnostics_);
    snippet.position = placed.position;
    if (snippet.temps > ir::kMaxTemps || snippet.labels > ir::kMaxLabels)
      diagnostics_.report(Code::too_long, insert.point.span, ir::kMaxTemps, "values or branches");
    const std::vector<ir::Snippet> variants = argument_variants(snippet);
    if (variants.empty()) {
      placed.stencil = snippets_.add(owner_.name, std::move(snippet));
    } else if (depth_ + 2 > format::kMaxDepth) {
      diagnostics_.report(Code::too_deep, insert.point.span, format::kMaxDepth, "statements");
    } else {
      placed = choose(std::move(placed), first_named(snippet), variants);
    }
  }

  // foreach $point in POINT { if (its argument is the first) (* ... *) if (it is the second) ... }
  Placement choose(Placement insert, const format::Expr& place, const std::vector<ir::Snippet>& variants) {
    Placement visit;
    visit.kind = PlacementKind::foreach_;
    visit.position = insert.position;
    visit.variable = kPointVariable;
    visit.expr = std::move(insert.expr);
    insert.expr = place.operands.at(0);
    insert.expr.position = visit.expr.position;
    for (size_t n = 0; n < variants.size(); n++) {
      Placement& branch = visit.body.emplace_back();
      branch.kind = PlacementKind::if_;
      branch.position = insert.position;
      branch.expr.kind = format::ExprKind::binary;
      branch.expr.text = n == 0 ? "<=" : "==";  // where it is not known, the first is refused with the reason
      branch.expr.position = insert.position;
      branch.expr.operands = {place, format::Expr()};
      branch.expr.operands[1].number = static_cast<int64_t>(n);
      insert.stencil = snippets_.add(owner_.name, variants[n]);
      branch.body.push_back(insert);
    }
    return visit;
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
