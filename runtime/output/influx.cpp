// InfluxDB's line protocol (docs.influxdata.com, "Line protocol"), which Telegraf and others read: a line a
// point, with the identifier as measurement, pid and focus as tags, and the time in nanoseconds.
#include <fmt/format.h>

#include <cmath>

#include "runtime/output/formats.h"
#include "runtime/output/line_writer.h"
#include "runtime/output/table.h"

namespace mdl::output {
namespace {

// Commas, spaces and, in tags, equals signs end a name; a line break, which nothing escapes, is replaced.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == ',' || c == ' ' || c == '=' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string line(const Point& point, bool) {
  const Series& series = *point.series;
  const Number& value = number(point.value);
  if (!is_measured(point.value)) return "";  // a line is of fields
  std::string out = fmt::format("{},pid={}", escaped(series.metric), process_text(series));
  // An empty tag there cannot be; the empty text is a key.
  if (const std::string key = key_text(series); !key.empty()) out += ",key=" + escaped(key);
  if (!series.focus.empty()) out += ",focus=" + escaped(series.focus);
  const auto* summary = std::get_if<Summary>(&point.value);
  if (summary) out += fmt::format(" count={}i", summary->count);
  if (summary && summary->mean())
    out += fmt::format(",value={}", *summary->mean());
  else if (is_known(point.value))
    out += fmt::format("{}value={}i,delta={}i", summary ? "," : " ", value.total, value.delta);
  if (value.rate && std::isfinite(*value.rate)) out += fmt::format(",rate={}", *value.rate);
  if (const auto* observed = std::get_if<Observed>(&point.value)) {
    out += fmt::format(",count={}i", observed->of.count());
    for (const Quantile& one : kQuantiles)
      out += fmt::format(",{}={}i", one.name, observed->of.quantile(one.part));
  }
  if (!point.complete) out += ",complete=false";
  return out + fmt::format(" {}", point.time_ns);
}

}  // namespace

std::unique_ptr<Consumer> make_influx(Sink& sink, const Look&) {
  return std::make_unique<LineWriter>(sink, line);
}

}  // namespace mdl::output
