#include "mdlc/lsp/features.h"

#include <fmt/format.h>

#include "compiler/reformat/reformat.h"
#include "mdlc/lsp/completion.h"

namespace mdl::lsp {
namespace {

std::string uri_of_file(const Document& document, uint32_t file) {
  const Analysis& analysis = *document.analysis;
  return file == analysis.file ? document.uri : uri_of(analysis.sources[file].path());
}

Json location(const Document& document, Span span, Encoding encoding) {
  return {{"uri", uri_of_file(document, span.file)},
          {"range", range(document.analysis->sources[span.file], span, encoding)}};
}

Json diagnostic(const Document& document, const Diagnostic& d, Encoding encoding) {
  std::string message = d.message;
  for (const std::string& hint : d.hints) message += "\nhint: " + hint;
  Json one = {{"range", range(document.analysis->source(), d.span, encoding)},
              {"severity", d.severity == Severity::error ? 1 : 2},
              {"code", info(d.code).name},
              {"source", "mdlc"},
              {"message", std::move(message)}};
  for (const Note& note : d.notes)
    one["relatedInformation"].push_back(
        {{"location", location(document, note.span, encoding)}, {"message", note.text}});
  return one;
}

Json edits(const Document& document, const std::vector<SourceEdit>& edits, Encoding encoding) {
  Json list = Json::array();
  for (const SourceEdit& edit : edits)
    list.push_back(
        {{"range", range(document.analysis->source(), edit.span, encoding)}, {"newText", edit.text}});
  return list;
}

// The cost of the code put there: "`m_entry`: 1 instruction, 0.31 cycles (x86_64)".
std::string cost(const Document& document, uint32_t offset, std::string_view target) {
  const Analysis& analysis = *document.analysis;
  const Span* insert = document.index.insert_at(offset);
  if (insert == nullptr || !analysis.plan) return "";
  format::Position at = analysis.sources.position(*insert);
  for (const format::StencilInfo& stencil : analysis.plan->manifest.stencils) {
    if (stencil.position != at) continue;
    std::string text = fmt::format("`{}`: {} instruction{}", stencil.name, stencil.instructions,
                                   stencil.instructions == 1 ? "" : "s");
    if (stencil.cycles > 0)
      text += fmt::format(", {}.{:02} cycles", stencil.cycles / 100, stencil.cycles % 100);
    return fmt::format("{} ({})", text, target);
  }
  return "";
}

}  // namespace

Json diagnostics_of(const Document& document, Encoding encoding) {
  Json list = Json::array();
  for (const Diagnostic& d : document.analysis->diagnostics.sorted())
    if (d.span.file == document.analysis->file) list.push_back(diagnostic(document, d, encoding));
  return {{"uri", document.uri}, {"version", document.version}, {"diagnostics", std::move(list)}};
}

Json hover(const Document& document, uint32_t offset, Encoding encoding, std::string_view target) {
  const Occurrence* name = document.index.name_at(offset);
  std::string text;
  if (name != nullptr) {
    text = fmt::format("```mdl\n{}\n```", name->about);
    if (!name->more.empty()) text += "\n" + name->more;
  }
  if (std::string line = cost(document, offset, target); !line.empty())
    text += (text.empty() ? "" : "\n\n") + line;
  if (text.empty()) return nullptr;
  Json result = {{"contents", {{"kind", "markdown"}, {"value", std::move(text)}}}};
  if (name != nullptr) result["range"] = range(document.analysis->source(), name->span, encoding);
  return result;
}

Json definition(const Document& document, uint32_t offset, Encoding encoding) {
  const Occurrence* name = document.index.name_at(offset);
  if (name == nullptr || !name->definition) return nullptr;
  return location(document, *name->definition, encoding);
}

Json completion(const Document& document, uint32_t offset) {
  Json items = Json::array();
  for (const Completion& c : complete(*document.analysis, offset)) {
    items.push_back({{"label", c.label}, {"kind", static_cast<int>(c.kind)}});
    if (!c.detail.empty()) items.back()["detail"] = c.detail;
  }
  return {{"isIncomplete", false}, {"items", std::move(items)}};
}

Json formatting(const Document& document, Encoding encoding, Standard standard) {
  const Source& source = document.analysis->source();
  Diagnostics ignored;
  std::optional<std::string> text = reformat(source, standard, ignored);
  if (!text) return nullptr;
  if (*text == source.text()) return Json::array();
  Span whole{source.ordinal(), 0, static_cast<uint32_t>(source.text().size())};
  return Json::array({{{"range", range(source, whole, encoding)}, {"newText", *text}}});
}

Json code_actions(const Document& document, Span span, Encoding encoding) {
  Json actions = Json::array();
  for (const Diagnostic& d : document.analysis->diagnostics.sorted()) {
    bool here =
        d.span.file == document.analysis->file && d.span.begin <= span.end && span.begin <= d.span.end;
    if (!here || d.edits.empty()) continue;
    actions.push_back({{"title", d.hints.empty() ? "Insert what is missing" : d.hints[0]},
                       {"kind", "quickfix"},
                       {"diagnostics", Json::array({diagnostic(document, d, encoding)})},
                       {"edit", {{"changes", {{document.uri, edits(document, d.edits, encoding)}}}}}});
  }
  return actions;
}

}  // namespace mdl::lsp
