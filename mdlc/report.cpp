#include "mdlc/report.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"

namespace mdl::mdlc {
namespace {

using Json = nlohmann::ordered_json;

format::Position end_of(Span span, const Sources& sources) {
  return sources[span.file].position(span.end);
}

// Source text may stand in messages, and its bytes may be anything.
std::string text(const Json& json) {
  return write_json(json, 2) + "\n";
}

Json place(Span span, const Sources& sources) {
  format::Position begin = sources.position(span);
  return {{"file", sources[span.file].path()}, {"line", begin.line}, {"column", begin.column}};
}

const char* name(Severity severity) {
  return severity == Severity::error ? "error" : "warning";
}

Json sarif_region(Span span, const Sources& sources) {
  format::Position begin = sources.position(span), end = end_of(span, sources);
  return {{"startLine", begin.line},
          {"startColumn", begin.column},
          {"endLine", end.line},
          {"endColumn", end.column}};
}

Json sarif_file(Span span, const Sources& sources) {
  return {{"uri", sources[span.file].path()}};
}

Json sarif_location(Span span, const Sources& sources) {
  return {{"physicalLocation",
           {{"artifactLocation", sarif_file(span, sources)}, {"region", sarif_region(span, sources)}}}};
}

// The edits of a diagnostic are in its own file.
Json sarif_fix(const Diagnostic& d, const Sources& sources) {
  Json replacements = Json::array();
  for (const SourceEdit& edit : d.edits)
    replacements.push_back(
        {{"deletedRegion", sarif_region(edit.span, sources)}, {"insertedContent", {{"text", edit.text}}}});
  Json fix = {{"artifactChanges", Json::array({{{"artifactLocation", sarif_file(d.span, sources)},
                                                {"replacements", std::move(replacements)}}})}};
  if (!d.hints.empty()) fix["description"] = {{"text", d.hints[0]}};
  return fix;
}

}  // namespace

std::string render_json(const Diagnostics& diagnostics, const Sources& sources) {
  Json list = Json::array();
  for (const Diagnostic& d : diagnostics.sorted()) {
    format::Position end = end_of(d.span, sources);
    Json one = {{"code", info(d.code).name}, {"severity", name(d.severity)}, {"message", d.message}};
    if (info(d.code).severity == Severity::warning) one["name"] = warning_name(d.code);
    one.update(place(d.span, sources));
    one["end_line"] = end.line;
    one["end_column"] = end.column;
    one["notes"] = Json::array();
    for (const Note& note : d.notes) {
      one["notes"].push_back({{"message", note.text}});
      one["notes"].back().update(place(note.span, sources));
    }
    one["hints"] = d.hints;
    one["fixes"] = Json::array();
    for (const SourceEdit& edit : d.edits) {
      format::Position last = end_of(edit.span, sources);
      Json fix = place(edit.span, sources);
      fix.update({{"end_line", last.line}, {"end_column", last.column}, {"replacement", edit.text}});
      one["fixes"].push_back(std::move(fix));
    }
    list.push_back(std::move(one));
  }
  return text({{"diagnostics", std::move(list)}, {"dropped", diagnostics.dropped()}});
}

std::string render_sarif(const Diagnostics& diagnostics, const Sources& sources) {
  Json results = Json::array(), rules = Json::array();
  std::set<std::string_view> codes;
  for (const Diagnostic& d : diagnostics.sorted()) {
    std::string message = d.message;
    for (const std::string& hint : d.hints) message += "\nhint: " + hint;
    Json one = {{"ruleId", info(d.code).name},
                {"level", name(d.severity)},
                {"message", {{"text", message}}},
                {"locations", Json::array({sarif_location(d.span, sources)})}};
    for (const Note& note : d.notes) {
      one["relatedLocations"].push_back(sarif_location(note.span, sources));
      one["relatedLocations"].back()["message"] = {{"text", note.text}};
    }
    if (!d.edits.empty()) one["fixes"] = Json::array({sarif_fix(d, sources)});
    results.push_back(std::move(one));
    codes.insert(info(d.code).name);
  }
  for (std::string_view code : codes) rules.push_back({{"id", code}});
  Json driver = {{"name", "mdlc"}, {"version", MDL_VERSION}, {"rules", std::move(rules)}};
  Json run = {{"tool", {{"driver", std::move(driver)}}},
              {"columnKind", "utf16CodeUnits"},
              {"results", std::move(results)}};
  return text({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
               {"version", "2.1.0"},
               {"runs", Json::array({std::move(run)})}});
}

}  // namespace mdl::mdlc
