#include "runtime/output/writer.h"

#include <fmt/format.h>

#include "runtime/output/prometheus.h"
#include "runtime/output/records.h"
#include "runtime/output/table.h"

namespace mdl::output {

Result<Format> format_named(std::string_view name, bool terminal) {
  if (name.empty()) return terminal ? Format::table : Format::ndjson;
  if (name == "table") return Format::table;
  if (name == "ndjson") return Format::ndjson;
  if (name == "json") return Format::json;
  if (name == "csv") return Format::csv;
  if (name == "prometheus") return Format::prometheus;
  return Error{
      fmt::format("there is no output format `{}`; there are table, ndjson, json, csv and prometheus", name),
      Status::usage};
}

std::unique_ptr<Writer> make_writer(Format format, Sink& sink, bool colour) {
  switch (format) {
    case Format::table:
      return make_table(sink, colour);
    case Format::ndjson:
      return make_ndjson(sink);
    case Format::json:
      return make_json(sink);
    case Format::csv:
      return make_csv(sink);
    case Format::prometheus:
      return make_prometheus(sink);
  }
  return nullptr;
}

}  // namespace mdl::output
