// Trees to a typed program, in two steps: collect what is defined, so that the order of
// definitions and files does not matter; then check each definition in order.
#include "compiler/sema/analyze.h"

#include <algorithm>
#include <set>

#include "compiler/sema/definitions.h"
#include "compiler/sema/metrics.h"

namespace mdl {
namespace {

using sema::Kind;

using Daemons = std::map<std::string_view, const ast::Tool*>;  // by name

// The constraints that the metrics of the files from `first` on name.
std::set<std::string_view> used_constraints(const std::vector<ast::File>& files, size_t first) {
  std::set<std::string_view> used;
  for (size_t i = first; i < files.size(); ++i)
    for (const ast::Definition& d : files[i].definitions)
      if (auto* metric = std::get_if<ast::Metric>(&d.node))
        for (const ast::MetricConstraint& c : metric->constraints) used.insert(c.name.text);
  return used;
}

class Collector {
 public:
  Collector(const SemaOptions& options, Diagnostics& diagnostics)
      : options_(options), diagnostics_(diagnostics) {}

  sema::Symbols collect(const std::vector<ast::File>& files) {
    symbols_.standard = options_.standard;
    used_ = used_constraints(files, options_.libraries);
    for (const ast::File& file : files) {
      for (const ast::Definition& d : file.definitions) add(d);
      for (const ast::Name& name : file.broken) symbols_.broken.insert(name.text);
    }
    // Lists that only other flavors have are empty, not unknown.
    for (const auto* list : elsewhere_) symbols_.lists.emplace(list->name.text, symbol(*list));
    return std::move(symbols_);
  }

  // Definitions of other flavors than the selected one, and what nobody uses of a library.
  bool is_dropped(const ast::Definition& d) const {
    if (d.span.file < options_.libraries) {
      if (std::holds_alternative<ast::Metric>(d.node)) return true;
      if (auto* c = std::get_if<ast::Constraint>(&d.node))
        return !c->is_default && !used_.contains(c->name.text);
    }
    auto other = [&](const std::vector<ast::Setting>& settings) {
      if (options_.flavor.empty()) return false;
      for (const ast::Setting& s : settings)
        if (s.key.text == "flavor")
          return std::none_of(s.values.begin(), s.values.end(),
                              [&](const ast::Literal& v) { return v.text == options_.flavor; });
      return false;
    };
    if (auto* list = std::get_if<ast::ResourceList>(&d.node)) return other(list->settings);
    if (auto* metric = std::get_if<ast::Metric>(&d.node)) return other(metric->settings);
    return false;
  }

  const Daemons& daemons() const { return daemons_; }
  const std::vector<const ast::ResourceList*>& elsewhere() const { return elsewhere_; }

 private:
  static sema::Symbols::List symbol(const ast::ResourceList& list) {
    return {list.name.span, sema::list_element(list.type.text)};
  }

  void check_name(const ast::Name& name) {
    if (name.text.starts_with('$'))
      diagnostics_.report(DiagnosticCode::reserved_name, name.span, name.text, "names with '$' are built in");
    if (name.text.empty())
      diagnostics_.report(DiagnosticCode::reserved_name, name.span, "", "the name is empty");
  }

  template <typename Table, typename Symbol>
  void add(Table& table, const ast::Name& name, Symbol symbol, bool flavored,
           Span (*span_of)(const Symbol&)) {
    check_name(name);
    auto [first, fresh] = table.emplace(name.text, symbol);
    if (fresh) return;
    diagnostics_.report(DiagnosticCode::redefinition, name.span, name.text)
        .note(span_of(first->second), "the first one is here")
        .hint(flavored && options_.flavor.empty()
                  ? "for definitions of different flavors, compile with --flavor=F"
                  : "");
  }

  void add(const ast::Definition& d) {
    auto plain = +[](const Span& span) { return span; };
    auto of_list = +[](const sema::Symbols::List& list) { return list.span; };
    if (auto* list = std::get_if<ast::ResourceList>(&d.node)) {
      if (is_dropped(d))
        elsewhere_.push_back(list);
      else
        add(symbols_.lists, list->name, symbol(*list), true, of_list);
    } else if (auto* constraint = std::get_if<ast::Constraint>(&d.node)) {
      add(symbols_.constraints, constraint->name, constraint->name.span, false, plain);
    } else if (auto* metric = std::get_if<ast::Metric>(&d.node)) {
      if (!is_dropped(d)) add(symbols_.metrics, metric->name, metric->name.span, true, plain);
    } else if (auto* tool = std::get_if<ast::Tool>(&d.node)) {
      add(tools_[static_cast<size_t>(tool->kind)], tool->name, tool->name.span, false, plain);
      if (tool->kind == ast::ToolKind::daemon) daemons_.emplace(tool->name.text, tool);
    } else if (auto* tunables = std::get_if<ast::Tunables>(&d.node)) {
      for (const ast::Setting& s : tunables->settings) add(tunables_, s.key, s.key.span, false, plain);
    }
  }

  const SemaOptions& options_;
  Diagnostics& diagnostics_;
  std::set<std::string_view> used_;  // names of constraints
  sema::Symbols symbols_;
  std::map<std::string, Span, std::less<>> tools_[3];
  std::map<std::string, Span, std::less<>> tunables_;
  std::vector<const ast::ResourceList*> elsewhere_;
  Daemons daemons_;
};

class Checker {
 public:
  Checker(const sema::Symbols& symbols, const Sources& sources, Daemons daemons, Diagnostics& diagnostics)
      : snippets_(program_.snippets),
        context_{symbols, sources, snippets_, diagnostics},
        daemons_(std::move(daemons)) {
    outside_.name = "statement";
    outside_.unconstrained = "outside a metric";
  }

  void check(const ast::Definition& d) {
    format::Manifest& manifest = program_.manifest;
    std::visit(ast::Overloaded{
                   [&](const ast::ResourceList& list) {
                     manifest.lists.push_back(sema::check_list(list, d.span, context_.diagnostics));
                     manifest.lists.back().position = context_.sources.position(d.span);
                   },
                   [&](const ast::Constraint& c) {
                     manifest.constraints.push_back(sema::check_constraint(c, d.span, context_));
                   },
                   [&](const ast::Metric& m) {
                     manifest.metrics.push_back(sema::check_metric(m, d.span, context_));
                   },
                   [&](const ast::Tool& t) { tool(t, d.span); },
                   [&](const ast::Tunables& tunables) {
                     for (format::Tunable& t : sema::check_tunables(tunables, context_.diagnostics))
                       manifest.tunables.push_back(std::move(t));
                   },
                   [&](const ast::Exclude& exclude) {
                     manifest.excludes.push_back(sema::check_exclude(exclude, context_.diagnostics));
                   },
                   [&](const ast::Statement& s) { statement(s); },
               },
               d.node);
  }

  // Constraints with code that no metric of any flavor names; those of libraries are for others.
  void warn_of_unused(const std::vector<ast::File>& files, size_t libraries) {
    const auto used = used_constraints(files, libraries);
    for (size_t i = libraries; i < files.size(); ++i)
      for (const ast::Definition& d : files[i].definitions)
        if (auto* c = std::get_if<ast::Constraint>(&d.node);
            c && !c->is_default && !used.contains(c->name.text))
          context_.diagnostics.report(DiagnosticCode::unused_constraint, c->name.span, c->name.text);
  }

  // A list that the selected flavor does not have.
  void add_empty(const ast::ResourceList& list, Span span) {
    format::ResourceList empty;
    empty.name = list.name.text;
    empty.type = list.type.text;
    empty.position = context_.sources.position(span);
    program_.manifest.lists.push_back(std::move(empty));
  }

  Program take() {
    program_.manifest.statement_cells = std::move(outside_.cells);
    return std::move(program_);
  }

 private:
  void tool(const ast::Tool& tool, Span span) {
    sema::check_tool(tool, span, context_.diagnostics);
    if (tool.kind != ast::ToolKind::process) return;
    const ast::Tool* daemon = nullptr;
    if (const ast::Literal* name = sema::daemon_of(tool)) {
      auto found = daemons_.find(name->text);
      if (found != daemons_.end()) daemon = found->second;  // else it is one of another file, not given here
    }
    program_.manifest.processes.push_back(sema::make_process(tool, daemon));
    program_.manifest.processes.back().position = context_.sources.position(span);
  }

  void statement(const ast::Statement& s) {
    program_.manifest.statements.push_back(sema::place(s, outside_, context_.symbols, context_.sources,
                                                       context_.snippets, context_.diagnostics));
  }

  Program program_;
  sema::Snippets snippets_;
  sema::Context context_;
  Daemons daemons_;
  sema::Owner outside_;  // of statements that belong to no metric
};

}  // namespace

Program analyze(const std::vector<ast::File>& files, const Sources& sources, const SemaOptions& options,
                Diagnostics& diagnostics) {
  Collector collector(options, diagnostics);
  sema::Symbols symbols = collector.collect(files);
  Checker checker(symbols, sources, collector.daemons(), diagnostics);
  for (const ast::File& file : files)
    for (const ast::Definition& d : file.definitions)
      if (!collector.is_dropped(d)) checker.check(d);
  for (const ast::ResourceList* list : collector.elsewhere())
    if (symbols.lists.at(list->name.text).span == list->name.span) checker.add_empty(*list, list->name.span);
  if (!diagnostics.has_errors()) checker.warn_of_unused(files, options.libraries);
  return checker.take();
}

sema::Symbols collect_symbols(const std::vector<ast::File>& files, const SemaOptions& options) {
  Diagnostics ignored;
  return Collector(options, ignored).collect(files);
}

}  // namespace mdl
