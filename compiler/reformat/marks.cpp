#include "compiler/reformat/marks.h"

namespace mdl {
namespace {

class Marker {
 public:
  explicit Marker(const Source& source) : source_(source) {}

  TokenMarks take() { return std::move(marks_); }

  void definition(const ast::Definition& d) {
    marks_[d.span.begin].definition = true;
    std::visit(ast::Overloaded{
                   [&](const ast::ResourceList& list) { settings(list.settings); },
                   [&](const ast::Constraint& c) { constraint(c); },
                   [&](const ast::Metric& m) { metric(m); },
                   [&](const ast::Tool& tool) { settings(tool.settings); },
                   [&](const ast::Tunables& tunables) { settings(tunables.settings); },
                   [](const ast::Exclude&) {},
                   [&](const ast::Statement& s) { statement(s); },
               },
               d.node);
  }

 private:
  void metric(const ast::Metric& metric) {
    settings(metric.settings);
    for (const ast::MetricConstraint& c : metric.constraints)
      if (c.definition) constraint(*c.definition);
    for (const ast::Base& base : metric.bases) {
      for (const ast::Expr& key : base.keys) expr(key);
      statements(base.body);
    }
  }

  void constraint(const ast::Constraint& c) {
    marks_[c.path.span.begin].path_end = c.path.span.end;
    statements(c.body);
  }

  void settings(const std::vector<ast::Setting>& settings) {
    for (const ast::Setting& s : settings)
      for (const ast::Literal& value : s.values) sign(value.span);
  }

  void sign(Span span) {
    if (source_.text(span).starts_with('-')) marks_[span.begin].prefix = true;
  }

  // --- Statements ---

  void statements(const std::vector<ast::Statement>& body) {
    for (const ast::Statement& s : body) statement(s);
  }

  void body(const ast::Statement& s) {
    if (!std::holds_alternative<ast::Block>(s.node)) marks_[s.span.begin].body_end = s.span.end;
    statement(s);
  }

  void statement(const ast::Statement& s) {
    std::visit(ast::Overloaded{
                   [&](const ast::Block& block) { statements(block.body); },
                   [&](const ast::Foreach& loop) {
                     expr(loop.list);
                     body(*loop.body);
                   },
                   [&](const ast::If& branch) {
                     marks_[s.span.begin].condition = true;
                     expr(branch.condition);
                     body(*branch.body);
                   },
                   [&](const ast::Insert& insert) {
                     expr(insert.point);
                     for (const ast::CodeStatement& c : insert.code) code(c);
                   },
               },
               s.node);
  }

  // --- Code ---

  void branch(const ast::CodeStatement& c, bool otherwise) {
    TokenMark& mark = marks_[c.span.begin];
    mark.otherwise = otherwise;
    bool block = source_.text(c.span).starts_with('{');
    bool else_if = otherwise && std::holds_alternative<ast::IfCode>(c.node);
    if (!block && !else_if) mark.body_end = c.span.end;
    code(c);
  }

  void code(const ast::CodeStatement& c) {
    std::visit(ast::Overloaded{
                   [&](const ast::ExprCode& statement) { expr(statement.expr); },
                   [&](const ast::BlockCode& block) {
                     for (const ast::CodeStatement& inner : block.body) code(inner);
                   },
                   [&](const ast::IfCode& test) {
                     marks_[c.span.begin].condition = true;
                     expr(test.condition);
                     branch(*test.then, false);
                     if (test.otherwise) branch(*test.otherwise, true);
                   },
               },
               c.node);
  }

  void expr(const ast::Expr& e) {
    if (std::holds_alternative<ast::Integer>(e.node) || std::holds_alternative<ast::Float>(e.node))
      sign(e.span);
    auto* step = std::get_if<ast::Step>(&e.node);
    if (std::holds_alternative<ast::Unary>(e.node) || (step != nullptr && step->prefix))
      marks_[e.span.begin].prefix = true;
    ast::each_child(e, [&](const ast::Expr& child) { expr(child); });
  }

  const Source& source_;
  TokenMarks marks_;
};

}  // namespace

TokenMarks mark_tokens(const ast::File& file, const Source& source) {
  Marker marker(source);
  for (const ast::Definition& d : file.definitions) marker.definition(d);
  return marker.take();
}

}  // namespace mdl
