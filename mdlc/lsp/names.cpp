#include "mdlc/lsp/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/sema/bind.h"
#include "compiler/sema/calls.h"
#include "compiler/sema/hierarchy.h"

namespace mdl::lsp {
namespace {

bool contains(Span span, uint32_t offset) {
  return span.begin <= offset && offset <= span.end;
}

std::string quoted_items(const ast::ResourceList& list) {
  constexpr size_t kShown = 8;
  std::string text;
  for (const ast::Setting& s : list.settings) {
    if (s.key.text != "items") continue;
    for (size_t i = 0; i < s.values.size() && i < kShown; i++)
      text += fmt::format("{}{}", i == 0 ? "" : ", ", printable(s.values[i].text));
    if (s.values.size() > kShown) text += fmt::format(" and {} more", s.values.size() - kShown);
  }
  return text;
}

// Everything that names can mean, from the definitions of all files.
struct Definitions {
  std::map<std::string, const ast::Constraint*, std::less<>> constraints;
  std::map<std::string, const ast::ResourceList*, std::less<>> lists;

  explicit Definitions(const std::vector<ast::File>& files) {
    for (const ast::File& file : files)
      for (const ast::Definition& d : file.definitions) {
        if (auto* c = std::get_if<ast::Constraint>(&d.node)) constraints.emplace(c->name.text, c);
        if (auto* l = std::get_if<ast::ResourceList>(&d.node)) lists.emplace(l->name.text, l);
      }
  }
};

// One definition's statements and code.
class Body {
 public:
  struct Cell {
    Span span;
    std::string about;
    std::string more;
  };

  // `constraint`: the one whose code it is, if any.
  Body(const Analysis& analysis, const Definitions& definitions, const ast::Constraint* constraint,
       Index& index)
      : definitions_(definitions),
        index_(index),
        binder_(analysis.symbols, owner_, analysis.sources, ignored_) {
    if (constraint != nullptr) sema::select_path(owner_, constraint->path, constraint->is_default);
  }

  void add(const std::string& name, Cell cell) { cells_.emplace(name, std::move(cell)); }

  void statements(const std::vector<ast::Statement>& body) {
    for (const ast::Statement& s : body) statement(s);
  }

  void statement(const ast::Statement& s) {
    std::visit(ast::Overloaded{
                   [&](const ast::Block& block) { statements(block.body); },
                   [&](const ast::Foreach& loop) { this->loop(loop); },
                   [&](const ast::If& branch) {
                     expr(branch.condition);
                     statement(*branch.body);
                   },
                   [&](const ast::Insert& insert) {
                     index_.inserts.push_back(s.span);
                     expr(insert.point);
                     for (const ast::CodeStatement& c : insert.code) code(c);
                   },
               },
               s.node);
  }

 private:
  void loop(const ast::Foreach& loop) {
    expr(loop.list);
    std::optional<sema::Bound> list = bind(loop.list);
    sema::Type type{list ? list->type.element : sema::Kind::procedure};
    std::string text = fmt::format("foreach {}", loop.variable.text);
    variables_.push_back({loop.variable, text, list ? about(type) : ""});
    index_.names.push_back({loop.variable.span, loop.variable.span, text, variables_.back().more});
    binder_.enter(loop.variable.text, type);
    statement(*loop.body);
    binder_.leave();
    variables_.pop_back();
  }

  std::optional<sema::Bound> bind(const ast::Expr& e) {
    ignored_ = Diagnostics();
    return binder_.bind(e);
  }

  void code(const ast::CodeStatement& c) {
    std::visit(ast::Overloaded{
                   [&](const ast::ExprCode& statement) { expr(statement.expr); },
                   [&](const ast::BlockCode& block) {
                     for (const ast::CodeStatement& inner : block.body) code(inner);
                   },
                   [&](const ast::IfCode& test) {
                     expr(test.condition);
                     code(*test.then);
                     if (test.otherwise) code(*test.otherwise);
                   },
               },
               c.node);
  }

  void expr(const ast::Expr& e) {
    if (auto* use = std::get_if<ast::NameUse>(&e.node)) return name(e, use->text);
    if (auto* call = std::get_if<ast::Call>(&e.node)) return this->call(*call);
    ast::each_child(e, [&](const ast::Expr& child) { expr(child); });
    auto* f = std::get_if<ast::Field>(&e.node);
    if (f == nullptr) return;
    std::optional<sema::Bound> bound = bind(e);
    index_.names.push_back(
        {f->field.span, std::nullopt, printable("." + f->field.text), bound ? about(bound->type) : ""});
  }

  void call(const ast::Call& call) {
    auto* callee = std::get_if<ast::NameUse>(&call.callee->node);
    const sema::CallForm* form = callee != nullptr ? sema::find_call(callee->text) : nullptr;
    if (form != nullptr)
      index_.names.push_back(
          {call.callee->span, std::nullopt, callee->text + "(…)", fmt::format("takes {}", form->takes)});
    else
      expr(*call.callee);
    for (const ast::Expr& arg : call.args) expr(arg);
  }

  void name(const ast::Expr& e, const std::string& name) {
    auto add = [&](std::optional<Span> definition, std::string text, std::string more) {
      index_.names.push_back({e.span, definition, std::move(text), std::move(more)});
    };
    for (auto v = variables_.rbegin(); v != variables_.rend(); ++v)
      if (v->name.text == name) return add(v->name.span, v->about, v->more);
    if (auto cell = cells_.find(name); cell != cells_.end())
      return add(cell->second.span, cell->second.about, cell->second.more);
    if (auto list = definitions_.lists.find(name); list != definitions_.lists.end())
      return add(list->second->name.span, headline(*list->second), quoted_items(*list->second));
    if (name == "$arg")
      return add(std::nullopt, name, "the n-th integer or pointer argument: $arg[0] is the first");
    if (name == "$return") return add(std::nullopt, name, "what the procedure returned");
    if (std::optional<sema::Bound> bound = bind(e)) return add(std::nullopt, name, about(bound->type));
    if (name.starts_with('$')) add(std::nullopt, name, "a value of the process");
  }

  struct Variable {
    const ast::Name& name;
    std::string about;
    std::string more;
  };

  const Definitions& definitions_;
  Index& index_;
  sema::Owner owner_;  // its selection only: cells have no meaning where binder_ looks
  Diagnostics ignored_;
  sema::Binder binder_;
  std::map<std::string, Cell, std::less<>> cells_;
  std::vector<Variable> variables_;
};

class Indexer {
 public:
  explicit Indexer(const Analysis& analysis) : analysis_(analysis), definitions_(analysis.files) {}

  Index take() {
    for (const ast::Definition& d : analysis_.files[analysis_.file].definitions) definition(d);
    return std::move(index_);
  }

 private:
  Body body(const ast::Constraint* constraint) { return {analysis_, definitions_, constraint, index_}; }

  void add(const ast::Name& name, std::string text, std::string more = "") {
    index_.names.push_back({name.span, name.span, std::move(text), std::move(more)});
  }

  void definition(const ast::Definition& d) {
    std::visit(ast::Overloaded{
                   [&](const ast::ResourceList& list) { add(list.name, headline(list), quoted_items(list)); },
                   [&](const ast::Constraint& c) { constraint(c); },
                   [&](const ast::Metric& m) { metric(m); },
                   [&](const ast::Statement& s) { body(nullptr).statement(s); },
                   [](const auto&) {},
               },
               d.node);
  }

  void constraint(const ast::Constraint& c) {
    add(c.name, headline(c));
    Body inside = body(&c);
    inside.add(c.name.text, {c.name.span, headline(c), "the flag: true on a thread when it is not 0"});
    inside.statements(c.body);
  }

  void metric(const ast::Metric& m) {
    add(m.name, "metric " + m.name.text);
    for (const ast::Name& t : m.temporaries) add(t, "counter " + t.text);
    for (const ast::Name& f : m.flags) add(f, "flag " + f.text);
    for (const ast::MetricConstraint& c : m.constraints) {
      if (c.definition) {
        add(c.name, headline(*c.definition));
        statements(m, &*c.definition, c.definition->body);
        continue;
      }
      auto found = definitions_.constraints.find(c.name.text);
      if (found != definitions_.constraints.end())
        index_.names.push_back({c.name.span, found->second->name.span, headline(*found->second), ""});
    }
    for (const ast::Base& base : m.bases) statements(m, nullptr, base.body);
  }

  void statements(const ast::Metric& m, const ast::Constraint* replacement,
                  const std::vector<ast::Statement>& statements) {
    Body inside = body(replacement);
    std::string type = m.bases.empty() ? "counter" : m.bases[0].type.kind.text;
    inside.add(m.name.text, {m.name.span, fmt::format("{} {}", type, m.name.text), "the metric's value"});
    for (const ast::Name& t : m.temporaries)
      inside.add(t.text, {t.span, "counter " + t.text, fmt::format("a temporary of {}", m.name.text)});
    for (const ast::Name& f : m.flags)
      inside.add(f.text, {f.span, "flag " + f.text, fmt::format("active calls, counted by {}", m.name.text)});
    if (replacement != nullptr)
      inside.add(replacement->name.text,
                 {replacement->name.span, headline(*replacement), "the metric's value"});
    inside.statements(statements);
  }

  const Analysis& analysis_;
  Definitions definitions_;
  Index index_;
};

}  // namespace

const Occurrence* Index::name_at(uint32_t offset) const {
  const Occurrence* found = nullptr;
  for (const Occurrence& name : names)
    if (contains(name.span, offset) && (found == nullptr || name.span.begin > found->span.begin))
      found = &name;
  return found;
}

const Span* Index::insert_at(uint32_t offset) const {
  for (const Span& span : inserts)
    if (contains(span, offset)) return &span;
  return nullptr;
}

Index index_of(const Analysis& analysis) {
  return Indexer(analysis).take();
}

std::string about(const sema::Type& type) {
  if (type.kind == sema::Kind::list) return fmt::format("a list; an element is {}", sema::noun(type.element));
  if (type.kind == sema::Kind::point) return fmt::format("a point: {}", format::info(type.point).name);
  return std::string(sema::noun(type.kind));
}

std::string headline(const ast::Constraint& c) {
  std::string type = c.is_default ? "default" : c.type.kind.text;
  return fmt::format("constraint {} {} is {}", c.name.text, sema::path_text(c.path), type);
}

std::string headline(const ast::ResourceList& list) {
  return fmt::format("resourceList {} is {}", list.name.text, list.type.text);
}

}  // namespace mdl::lsp
