#include "mdlc/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "backend/cycles.h"
#include "backend/mc_emitter.h"
#include "backend/plan_writer.h"
#include "compiler/ast/dump.h"
#include "compiler/ir/text.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/vectorize.h"
#include "compiler/sema/analyze.h"
#include "mdlc/cost.h"
#include "mdlc/search.h"

namespace mdl::mdlc {
namespace {

std::vector<ast::File> parse_all(const Options& options, const Sources& sources, Diagnostics& diagnostics) {
  std::vector<ast::File> files;
  for (uint32_t i = 0; i + options.queries.size() < sources.size(); i++)
    files.push_back(parse(sources[i], options.standard, diagnostics));
  return files;
}

// The ordinal of the source that queries stand for.
uint32_t expanded(const Options& options) {
  return static_cast<uint32_t>(options.libraries.size() + options.files.size());
}

// Whether it is known what all files define, or are meant to.
bool are_readable(const std::vector<ast::File>& files) {
  return std::all_of(files.begin(), files.end(), [](const ast::File& file) { return file.readable; });
}

std::string dump_all(const std::vector<ast::File>& files, const Sources& sources) {
  std::string text;
  for (size_t i = 0; i < files.size(); i++) text += ast::dump(files[i], sources[static_cast<uint32_t>(i)]);
  return text;
}

std::string print_all(const Program& program) {
  std::string text;
  for (const ir::Snippet& snippet : program.snippets) text += ir::print(snippet);
  return text;
}

// Where a snippet's code begins: the place that the backend's refusals point at.
Span place(const format::Position& position, const Sources& sources) {
  if (position.line == 0) return {position.file, 0, 0};
  const Source& source = sources[position.file];
  uint32_t at = source.line_begin(position.line) + position.column - 1;
  return {position.file, at, at};
}

void warn_of_vectors(const Program& program, const Sources& sources, Diagnostics& diagnostics) {
  for (const passes::NotVector& n : passes::not_vectors(program))
    diagnostics.report(DiagnosticCode::vector, place(n.position, sources), n.what, n.name, n.why);
}

// The program of trees from parse(), optimized; nothing when there are errors, which have been reported.
Result<std::optional<Program>> program_of(const std::vector<ast::File>& files, const Sources& sources,
                                          const Options& options, Diagnostics& diagnostics) {
  if (!are_readable(files)) return std::optional<Program>();
  std::optional<Program> program =
      analyze(files, sources, {options.standard, options.flavor, options.libraries.size()}, diagnostics);
  if (diagnostics.has_errors()) return std::optional<Program>();
  if (auto optimized = passes::run_passes(*program, options.disabled_passes); !optimized)
    return optimized.error();
  warn_of_vectors(*program, sources, diagnostics);
  return program;
}

Result<backend::PlanText> translate(const Program& program, const Sources& sources, const Options& options,
                                    Diagnostics& diagnostics) {
  std::vector<backend::RefusedSnippet> refusals;
  backend::PlanText plan = backend::make_plan(program, *options.target, refusals,
                                              !passes::is_off("peephole", options.disabled_passes));
  for (const backend::RefusedSnippet& refusal : refusals)
    diagnostics.report(DiagnosticCode::no_stencil, place(refusal.position, sources), refusal.text);
  if (!diagnostics.has_errors())
    if (auto predicted = backend::predict(plan, *options.target, options.cpu); !predicted)
      return predicted.error();
  return plan;
}

}  // namespace

Result<void> read_files(const Options& options, Sources& sources) {
  std::vector<std::string> names = options.libraries;  // which come first: SemaOptions
  names.insert(names.end(), options.files.begin(), options.files.end());
  for (const std::string& name : names) {
    auto path = find_file(name, options.directories);
    if (!path) return path.error();
    if (auto read = sources.read(*path); !read) return read.error();
  }
  return {};
}

Result<backend::PlanText> plan_of(const std::vector<ast::File>& files, const Sources& sources,
                                  const Options& options, Diagnostics& diagnostics) {
  auto program = program_of(files, sources, options, diagnostics);
  if (!program) return program.error();
  return *program ? translate(**program, sources, options, diagnostics) : backend::PlanText();
}

query::Expansion add_queries(const Options& options, Sources& sources, Diagnostics& diagnostics) {
  query::Expansion expansion;
  if (options.queries.empty()) return expansion;
  const auto first = static_cast<uint32_t>(sources.size() + 1);
  std::deque<Source> texts;
  std::vector<const Source*> pointers;
  std::vector<ast::Query> queries;
  for (const std::string& text : options.queries) {
    const auto number = static_cast<uint32_t>(texts.size());
    pointers.push_back(&texts.emplace_back(
        first + number, options.queries.size() == 1 ? "query" : fmt::format("query {}", number + 1), text));
    if (auto query = parse_query(texts.back(), diagnostics)) queries.push_back(std::move(*query));
  }
  expansion = query::expand(std::move(queries), pointers, options.flavor, diagnostics);
  sources.add("query.mdl", expansion.mdl);
  for (const Source& text : texts) sources.add(text.path(), std::string(text.text()));
  return expansion;
}

namespace {

Result<std::string> compile_all(const Options& options, const Sources& sources, Diagnostics& diagnostics) {
  std::vector<ast::File> files = parse_all(options, sources, diagnostics);
  if (options.emit == Emit::ast)
    return diagnostics.has_errors() || !are_readable(files) ? std::string() : dump_all(files, sources);

  auto program = program_of(files, sources, options, diagnostics);
  if (!program) return program.error();
  if (!*program) return std::string();
  if (options.emit == Emit::ir) return print_all(**program);

  auto plan = translate(**program, sources, options, diagnostics);
  if (!plan) return plan.error();
  if (diagnostics.has_errors()) return std::string();
  if (options.emit == Emit::mdl) return std::string(sources[expanded(options)].text());
  if (options.emit == Emit::assembly) return backend::assembly(*plan, *options.target);

  std::optional<format::SigningKey> key;
  if (!options.key.empty()) {
    auto read = format::SigningKey::read(options.key);
    if (!read) return read.error();
    key.emplace(*read);
  }
  if (!options.edition.name.empty()) {
    plan->manifest.edition = options.edition;
    plan->manifest.features.emplace_back(format::kEditionFeature);
    std::ranges::sort(plan->manifest.features);
  }
  auto bytes = backend::write_plan(*plan, *options.target, options.cpu, key ? &*key : nullptr);
  if (!bytes) return bytes.error();
  if (options.cost) return cost_table(*plan, backend::function_sizes(*bytes));
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

}  // namespace

Result<std::string> compile(const Options& options, const Sources& sources, const query::Expansion& queries,
                            Diagnostics& diagnostics) {
  if (diagnostics.has_errors()) return std::string();  // of queries
  auto out = compile_all(options, sources, diagnostics);
  if (!options.queries.empty())
    diagnostics.move([&](Span span) { return span.file == expanded(options) ? queries.origin(span) : span; });
  return out;
}

}  // namespace mdl::mdlc
