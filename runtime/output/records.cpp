// Output for programs: one record a point.
// Names come from ELF files and may be any bytes: JSON replaces what is not UTF-8, so that
// every line parses.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "runtime/output/formats.h"
#include "runtime/output/line_writer.h"

namespace mdl::output {
namespace {

double rounded(double value, double scale) {
  return std::isfinite(value) ? std::round(value * scale) / scale : 0;
}
double elapsed(const Point& point) {
  return rounded(point.elapsed_s, 1e6);
}
std::optional<double> rate(const Number& value) {
  if (!value.rate || !std::isfinite(*value.rate)) return std::nullopt;
  return rounded(*value.rate, 1e3);
}

// Each bucket as {the least value above it, how many}.
void put(const values::Distribution& of, nlohmann::ordered_json& line) {
  line["count"] = of.count();
  line["sum"] = of.sum;
  line["min"] = of.buckets.empty() ? 0 : values::bounds_of(of.buckets.front().index).low;
  line["max"] = of.quantile(1);
  for (const Quantile& one : kQuantiles) line[one.name] = of.quantile(one.part);
  line["buckets"] = nlohmann::ordered_json::array();
  for (const values::Bucket& one : of.buckets)
    line["buckets"].push_back({values::bounds_of(one.index).high, one.count});
}

// Most names are of letters, and there may be thousands of lines each second.
std::string json_text(const std::string& text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  return std::ranges::all_of(text, is_plain) ? '"' + text + '"' : write_json(nlohmann::json(text));
}
std::string json_text(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}
std::string json_text(const std::optional<double>& value) {
  return value ? json_text(*value) : "null";
}
// A hundred thousand lines by key may come each second.
std::string json_text(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) (out += out.empty() ? '[' : ',') += json_text(text);
  return out + ']';
}

// Where nothing that a line is about is measured it has its numbers (0), as scripts expect them, and `measured` says that
// nobody has counted them.
bool has_number(const Point& point) {
  return is_known(point.value) || !is_measured(point.value);
}

// What most points do not have, besides a key.
nlohmann::ordered_json further(const Point& point) {
  const Series& series = *point.series;
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (series.process == 0) out["processes"] = point.processes;
  if (const auto* observed = std::get_if<Observed>(&point.value)) put(observed->of, out);
  if (const auto* summary = std::get_if<Summary>(&point.value)) out["count"] = summary->count;
  if (!is_measured(point.value)) out["measured"] = false;
  if (!point.complete) out["complete"] = false;
  if (point.suspect) out["suspect"] = true;
  if (point.anomalies > 0) out["anomalies"] = point.anomalies;
  for (const Anomaly& one : point.anomalies_of)
    out["anomalies_of"].push_back(
        {{"function", one.function}, {"vanished", one.vanished}, {"unmatched", one.unmatched}});
  return out;
}

std::string json_total(const Point& point) {
  const auto* summary = std::get_if<Summary>(&point.value);
  if (summary && summary->mean()) return json_text(*summary->mean());
  return has_number(point) ? fmt::format("{}", number(point.value).total) : "null";
}

std::string object(const Point& point, bool final) {
  const Series& series = *point.series;
  const Number& value = number(point.value);
  std::string out = fmt::format(
      R"({{"time_ns":{},"elapsed_s":{},"pid":{},"metric":{},"focus":{},"value":{},"delta":{},"rate":{},"units":{},"refused":{},"final":{})",
      point.time_ns, json_text(elapsed(point)), series.process, json_text(series.metric),
      json_text(series.focus), json_total(point), has_number(point) ? fmt::format("{}", value.delta) : "null",
      json_text(rate(value)), json_text(series.units), point.refused, final);
  if (!series.key.empty()) out += R"(,"key":)" + json_text(series.key);
  if (const auto more = further(point); !more.empty()) {
    const std::string text = write_json(more);
    out += ',' + text.substr(1, text.size() - 2);
  }
  if (point.overhead >= 0) out += R"(,"overhead":)" + json_text(rounded(point.overhead, 1e4));
  return out + '}';
}

// One document: an array of the same objects, written as they come and closed at the end.
class Json final : public Consumer {
 public:
  explicit Json(Sink& sink) : sink_(sink) {}
  Result<void> begin() override { return sink_.write("["); }
  Result<void> sample(std::span<const Point> points, bool final) override {
    std::string text;
    for (const Point& point : points) {
      text += (empty_ ? "\n" : ",\n") + sink_.shown(object(point, final));
      empty_ = false;
    }
    return sink_.write(text);
  }
  Result<void> end() override { return sink_.write("\n]\n"); }

 private:
  Sink& sink_;
  bool empty_ = true;
};

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string result = "\"";
  for (const char c : field) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

// Empty where there is none.
std::string rate_field(const Number& value) {
  const auto known = rate(value);
  return known ? fmt::format("{}", *known) : "";
}

// RFC 4180, with a header line; booleans are true and false, `complete` and `anomalies` always there.
constexpr std::string_view kCsvHead =
    "time_ns,elapsed_s,pid,metric,focus,value,delta,rate,units,refused,final,complete,anomalies,"
    "overhead,suspect,key\r\n";

std::string csv_line(const Point& point, bool final) {
  const Series& series = *point.series;
  const Number& value = number(point.value);
  return fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", point.time_ns, elapsed(point), series.process,
      quoted(series.metric), quoted(series.focus),
      number_text(point.value),  // nothing where it is not known: there is no `measured` beside it
      is_known(point.value) ? fmt::format("{}", value.delta) : "", rate_field(value), quoted(series.units),
      point.refused, final, point.complete, point.anomalies,
      point.overhead >= 0 ? fmt::format("{}", rounded(point.overhead, 1e4)) : "", point.suspect,
      quoted(key_text(series)));
}

}  // namespace

std::unique_ptr<Consumer> make_ndjson(Sink& sink, const Look&) {
  return std::make_unique<LineWriter>(sink, object);
}
std::unique_ptr<Consumer> make_json(Sink& sink, const Look&) {
  return std::make_unique<Json>(sink);
}
std::unique_ptr<Consumer> make_csv(Sink& sink, const Look&) {
  return std::make_unique<LineWriter>(sink, csv_line, "\r\n", kCsvHead);
}

}  // namespace mdl::output
