// ANTLR's tree to ours: definitions and statements. A tree that is built has no syntax error, so every part
// that the grammar requires is there.
#include "compiler/parse/build.h"

#include "compiler/parse/broken.h"

namespace mdl::parser {
namespace {

using P = MdlParser;

class Definitions {
 public:
  Definitions(const Source& source, Standard standard, Diagnostics& diagnostics)
      : source_(source), code_(source, standard, diagnostics) {}

  ast::Definition definition(P::DefinitionContext* context) {
    ast::Definition d{span_of(source_, context), {}};
    if (auto* list = context->resourceList()) d.node = resource_list(list);
    if (auto* constraint = context->constraintDef()) d.node = named_constraint(constraint);
    if (auto* metric = context->metric()) d.node = this->metric(metric);
    if (auto* tool = context->tool()) d.node = this->tool(tool);
    if (auto* tunables = context->tunables()) d.node = this->tunables(tunables);
    if (auto* exclude = context->exclude()) d.node = this->exclude(exclude);
    if (auto* statement = context->statement()) d.node = this->statement(statement);
    return d;
  }

 private:
  ast::Name name(antlr4::ParserRuleContext* context) { return code_.name(context); }
  ast::Name name(antlr4::tree::TerminalNode* node) {
    Span span = span_of(source_, node->getSymbol());
    return {std::string(source_.text(span)), span};
  }

  // --- Leaves ---

  ast::Literal name_literal(antlr4::ParserRuleContext* context) {
    Span span = span_of(source_, context);
    return {ast::Literal::Kind::name, std::string(source_.text(span)), span};
  }

  ast::Literal string(P::StringContext* context) {
    Span span = span_of(source_, context);
    return {ast::Literal::Kind::string, code_.unquoted(span), span};
  }

  ast::Literal boolean(P::BooleanContext* context) {
    return {ast::Literal::Kind::boolean, context->KW_TRUE() ? "true" : "false", span_of(source_, context)};
  }

  ast::Literal literal(P::LiteralContext* context) {
    if (auto* s = context->string()) return string(s);
    if (auto* b = context->boolean()) return boolean(b);
    Span span = span_of(source_, context);
    bool negative = context->MINUS() != nullptr;
    std::string sign = negative ? "-" : "";
    if (context->number()->FLOAT())
      return {ast::Literal::Kind::floating, sign + context->number()->getText(), span};
    int64_t value = code_.integer(context->number(), negative);
    return {ast::Literal::Kind::integer, fmt::to_string(value), span};
  }

  void add_literals(std::vector<ast::Literal>& values, P::ItemsContext* items) {
    if (items == nullptr) return;
    for (auto* item : items->literal()) values.push_back(literal(item));
  }

  // --- Resource lists ---

  ast::Setting flavor(P::FlavorFieldContext* context) {
    ast::Setting setting{name(context->KW_FLAVOR()), {}};
    for (auto* n : context->name()) setting.values.push_back(name_literal(n));
    return setting;
  }

  ast::Setting list_field(P::ListFieldContext* context) {
    if (auto* f = context->flavorField()) return flavor(f);
    if (auto* keyword = context->KW_LIBRARY()) return {name(keyword), {boolean(context->boolean())}};
    ast::Setting items{name(context->KW_ITEMS()), {}};
    add_literals(items.values, context->items());
    return items;
  }

  ast::ResourceList resource_list(P::ResourceListContext* context) {
    if (auto* l = context->longList()) {
      ast::ResourceList list{name(l->name(0)), name(l->name(1)), {}};
      for (auto* field : l->listField()) list.settings.push_back(list_field(field));
      return list;
    }
    auto* s = context->shortList();
    std::vector<P::NameContext*> names = s->name();  // the type, then the flavors
    ast::Literal id = string(s->string());
    ast::ResourceList list{{id.text, id.span}, name(names[0]), {}};
    ast::Setting items{{"items", span_of(source_, s->LPAREN(1)->getSymbol())}, {}};
    add_literals(items.values, s->items());
    list.settings.push_back(std::move(items));
    list.settings.push_back({{"library", span_of(source_, s->boolean())}, {boolean(s->boolean())}});
    ast::Setting flavors{{"flavor", span_of(source_, names[1])}, {}};
    for (size_t i = 1; i < names.size(); i++) flavors.values.push_back(name_literal(names[i]));
    list.settings.push_back(std::move(flavors));
    return list;
  }

  // --- Constraints and metrics ---

  ast::Path path(P::PathContext* context) {
    ast::Path path{{}, span_of(source_, context)};
    for (auto* component : context->component()) path.parts.push_back(name(component));
    return path;
  }

  ast::CellType cell_type(P::CellTypeContext* context) {
    ast::CellType type{name(context->name()), std::nullopt};
    if (auto* s = context->string()) type.event = string(s);
    return type;
  }

  ast::Constraint named_constraint(P::ConstraintDefContext* context) {
    ast::Constraint c{name(context->name()), path(context->path()), context->KW_DEFAULT() != nullptr, {}, {}};
    if (c.is_default) return c;
    c.type = cell_type(context->cellType());
    c.body = block(context->block());
    return c;
  }

  ast::MetricConstraint metric_constraint(P::MetricConstraintContext* context) {
    ast::MetricConstraint use{name(context->name()), std::nullopt};
    auto* in_line = context->inlineConstraint();
    if (in_line == nullptr) return use;
    use.definition = ast::Constraint{use.name, path(in_line->path()), false, cell_type(in_line->cellType()),
                                     block(in_line->block())};
    return use;
  }

  void metric_field(ast::Metric& metric, P::MetricFieldContext* field) {
    if (auto* f = dynamic_cast<P::NameFieldContext*>(field)) {
      metric.settings.push_back({name(f->KW_NAME()), {string(f->string())}});
    } else if (auto* f = dynamic_cast<P::UnitsFieldContext*>(field)) {
      metric.settings.push_back(
          {name(f->KW_UNITS()), {f->string() ? string(f->string()) : name_literal(f->name())}});
    } else if (auto* f = dynamic_cast<P::ChoiceFieldContext*>(field)) {
      Span key = span_of(source_, f->getStart());
      metric.settings.push_back({{std::string(source_.text(key)), key}, {name_literal(f->name())}});
    } else if (auto* f = dynamic_cast<P::MetricFlavorContext*>(field)) {
      metric.settings.push_back(flavor(f->flavorField()));
    } else if (auto* f = dynamic_cast<P::TemporaryContext*>(field)) {
      metric.temporaries.push_back(name(f->name()));
    } else if (auto* f = dynamic_cast<P::FlagTemporaryContext*>(field)) {
      metric.flags.push_back(name(f->name()));
    } else if (auto* f = dynamic_cast<P::FocusFieldContext*>(field)) {
      metric.settings.push_back({name(f->KW_FOCUS()), {string(f->string())}});
    } else if (auto* f = dynamic_cast<P::MetricConstraintContext*>(field)) {
      metric.constraints.push_back(metric_constraint(f));
    } else if (auto* f = dynamic_cast<P::BaseContext*>(field)) {
      metric.bases.push_back({span_of(source_, f->getStart()), cell_type(f->cellType()), {}, {}});
      for (auto* key : f->expr()) metric.bases.back().keys.push_back(code_.expr(key));
      metric.bases.back().body = block(f->block());
    }
  }

  ast::Metric metric(P::MetricContext* context) {
    ast::Metric metric{name(context->name()), {}, {}, {}, {}, {}};
    for (auto* field : context->metricField()) metric_field(metric, field);
    return metric;
  }

  // --- The tool around it ---

  ast::Tool tool(P::ToolContext* context) {
    ast::ToolKind kind = context->KW_DAEMON()    ? ast::ToolKind::daemon
                         : context->KW_PROCESS() ? ast::ToolKind::process
                                                 : ast::ToolKind::visi;
    ast::Tool tool{kind, name(context->name()), {}};
    for (auto* field : context->toolField()) {
      ast::Setting setting{name(field->name()), {}};
      for (auto* v : field->toolValue())
        setting.values.push_back(v->literal() ? literal(v->literal()) : name_literal(v->name()));
      tool.settings.push_back(std::move(setting));
    }
    return tool;
  }

  ast::Tunables tunables(P::TunablesContext* context) {
    ast::Tunables all;
    for (auto* t : context->tunable()) {
      ast::Literal key = string(t->string());
      all.settings.push_back({{key.text, key.span}, {literal(t->literal())}});
    }
    return all;
  }

  ast::Exclude exclude(P::ExcludeContext* context) {
    ast::Exclude exclude{{}, string(context->string())};
    for (auto* option : context->KW_NO_CASE()) exclude.options.push_back(name(option));
    for (auto* option : context->KW_REGEX()) exclude.options.push_back(name(option));
    return exclude;
  }

  // --- Statements ---

  std::vector<ast::Statement> block(P::BlockContext* context) {
    std::vector<ast::Statement> body;
    for (auto* s : context->statement()) body.push_back(statement(s));
    return body;
  }

  ast::StatementPtr nested(P::StatementContext* context) {
    return std::make_unique<ast::Statement>(statement(context));
  }

  ast::Statement statement(P::StatementContext* context) {
    ast::Statement s{span_of(source_, context), {}};
    if (auto* n = dynamic_cast<P::NestedContext*>(context)) {
      s.node = ast::Block{block(n->block())};
    } else if (auto* loop = dynamic_cast<P::ForeachContext*>(context)) {
      s.node = ast::Foreach{name(loop->name()), code_.place(loop->place()), nested(loop->statement())};
    } else if (auto* branch = dynamic_cast<P::ConditionContext*>(context)) {
      s.node = ast::If{code_.expr(branch->expr()), nested(branch->statement())};
    } else {
      s.node = insert(dynamic_cast<P::InsertContext*>(context));
    }
    return s;
  }

  ast::Insert insert(P::InsertContext* context) {
    ast::Insert insert{context->KW_APPEND() ? format::Order::append : format::Order::prepend,
                       std::nullopt,
                       code_.place(context->place()),
                       std::nullopt,
                       {}};
    if (context->KW_PRE()) insert.when = format::When::pre;
    if (context->KW_POST()) insert.when = format::When::post;
    if (auto* c = context->KW_CONSTRAINED()) insert.constrained = span_of(source_, c->getSymbol());
    for (auto* c : context->code()) code_.add_code(insert.code, c);
    return insert;
  }

  const Source& source_;
  CodeBuilder code_;
};

}  // namespace

ast::File build(const Source& source, Standard standard, MdlParser::FileContext* file,
                const std::vector<Span>& wrong_tokens, Diagnostics& diagnostics) {
  Definitions definitions(source, standard, diagnostics);
  ast::File result;
  result.ordinal = source.ordinal();
  bool clean = !diagnostics.has_errors();
  for (auto* d : file->definition()) {
    if (!clean && is_broken(source, d, wrong_tokens)) continue;
    size_t errors = diagnostics.errors();
    ast::Definition definition = definitions.definition(d);
    if (diagnostics.errors() == errors) result.definitions.push_back(std::move(definition));
  }
  return result;
}

}  // namespace mdl::parser
