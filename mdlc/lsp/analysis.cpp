#include "mdlc/lsp/analysis.h"

#include <algorithm>

#include "compiler/sema/analyze.h"
#include "mdlc/compile.h"
#include "mdlc/search.h"

namespace mdl::lsp {
namespace {

constexpr const char* kStandardFile = "code.mdl";  // what every other standard file refers to

std::unique_ptr<Analysis> analyze_program(const Text& document, const std::vector<Text>& others,
                                          const mdlc::Options& options) {
  auto result = std::make_unique<Analysis>();
  Diagnostics diagnostics(options.warnings);
  bool placed = false;
  auto add = [&](const Text& text) {
    const Source& source = result->sources.add(text.path, text.text);
    result->files.push_back(parse(source, options.standard, diagnostics));
  };
  auto add_document = [&] {
    result->file = static_cast<uint32_t>(result->sources.size());
    add(document);
    placed = true;
  };
  for (const Text& other : others) {
    if (other.path != document.path)
      add(other);
    else if (!placed)
      add_document();
  }
  if (!placed) add_document();
  result->symbols = collect_symbols(result->files, {options.standard, options.flavor});
  if (auto plan = mdlc::plan_of(result->files, result->sources, options, diagnostics); plan)
    result->plan = std::move(*plan);
  if (diagnostics.has_errors()) result->plan.reset();
  result->diagnostics = std::move(diagnostics);
  return result;
}

size_t missing_names(const Analysis& analysis) {
  std::vector<Diagnostic> all = analysis.diagnostics.sorted();
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [&](const Diagnostic& d) {
    bool missing = d.code == DiagnosticCode::unknown_name || d.code == DiagnosticCode::unknown_constraint;
    return missing && d.span.file == analysis.file;
  }));
}

}  // namespace

std::unique_ptr<Analysis> analyze_document(const Text& document, const std::vector<Text>& others,
                                           const mdlc::Options& options) {
  std::unique_ptr<Analysis> result = analyze_program(document, others, options);
  size_t missing = missing_names(*result);
  if (missing == 0) return result;
  std::string path = mdlc::standard_library() + "/" + kStandardFile;
  bool present = path == document.path || std::any_of(others.begin(), others.end(),
                                                      [&](const Text& other) { return other.path == path; });
  Sources library;
  if (present) return result;
  if (auto read = library.read(path); !read) return result;
  std::vector<Text> more = others;
  more.insert(more.begin(), Text{path, std::string(library[0].text())});
  std::unique_ptr<Analysis> larger = analyze_program(document, more, options);
  return missing_names(*larger) < missing ? std::move(larger) : std::move(result);
}

}  // namespace mdl::lsp
