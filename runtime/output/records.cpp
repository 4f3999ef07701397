// Names come from ELF files and may be any bytes: JSON replaces what is not UTF-8, so that
// every line parses.
#include "runtime/output/records.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"

namespace mdl::output {
namespace {

double rounded(double value, double scale) {
  return std::isfinite(value) ? std::round(value * scale) / scale : 0;
}
double elapsed(const Row& row) {
  return rounded(row.elapsed_s, 1e6);
}
std::optional<double> rate(const Row& row) {
  if (!row.rate || !std::isfinite(*row.rate)) return std::nullopt;
  return rounded(*row.rate, 1e3);
}

std::string object(const Row& row, bool final) {
  nlohmann::ordered_json line = {
      {"time_ns", row.time_ns}, {"elapsed_s", elapsed(row)}, {"pid", row.pid},     {"metric", row.metric},
      {"focus", row.focus},     {"value", row.value},        {"delta", row.delta}, {"rate", nullptr},
      {"units", row.units},     {"refused", row.refused},    {"final", final}};
  if (const auto known = rate(row)) line["rate"] = *known;
  if (!row.complete) line["complete"] = false;
  if (row.suspect) line["suspect"] = true;
  if (row.anomalies > 0) line["anomalies"] = row.anomalies;
  for (const Anomaly& one : row.anomalies_of)
    line["anomalies_of"].push_back(
        {{"function", one.function}, {"vanished", one.vanished}, {"unmatched", one.unmatched}});
  if (row.overhead >= 0) line["overhead"] = rounded(row.overhead, 1e4);
  return write_json(line);
}

class Ndjson final : public Writer {
 public:
  explicit Ndjson(Sink& sink) : sink_(sink) {}
  Result<void> begin() override { return {}; }
  Result<void> sample(std::span<const Row> rows, bool final) override {
    std::string text;
    for (const Row& row : rows) text += object(row, final) + '\n';
    return sink_.write(text);
  }
  Result<void> end() override { return {}; }

 private:
  Sink& sink_;
};

class Json final : public Writer {
 public:
  explicit Json(Sink& sink) : sink_(sink) {}
  Result<void> begin() override { return sink_.write("["); }
  Result<void> sample(std::span<const Row> rows, bool final) override {
    std::string text;
    for (const Row& row : rows) {
      text += (empty_ ? "\n" : ",\n") + object(row, final);
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
std::string rate_field(const Row& row) {
  const auto known = rate(row);
  return known ? fmt::format("{}", *known) : "";
}

class Csv final : public Writer {
 public:
  explicit Csv(Sink& sink) : sink_(sink) {}
  Result<void> begin() override {
    return sink_.write(
        "time_ns,elapsed_s,pid,metric,focus,value,delta,rate,units,refused,final,complete,anomalies,"
        "overhead,suspect\r\n");
  }
  Result<void> sample(std::span<const Row> rows, bool final) override {
    std::string text;
    for (const Row& row : rows)
      text +=
          fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n", row.time_ns, elapsed(row), row.pid,
                      quoted(row.metric), quoted(row.focus), row.value, row.delta, rate_field(row),
                      quoted(row.units), row.refused, final, row.complete, row.anomalies,
                      row.overhead >= 0 ? fmt::format("{}", rounded(row.overhead, 1e4)) : "", row.suspect);
    return sink_.write(text);
  }
  Result<void> end() override { return {}; }

 private:
  Sink& sink_;
};

}  // namespace

std::unique_ptr<Writer> make_ndjson(Sink& sink) {
  return std::make_unique<Ndjson>(sink);
}
std::unique_ptr<Writer> make_json(Sink& sink) {
  return std::make_unique<Json>(sink);
}
std::unique_ptr<Writer> make_csv(Sink& sink) {
  return std::make_unique<Csv>(sink);
}

}  // namespace mdl::output
