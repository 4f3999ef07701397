#include "runtime/output/figures.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace mdl::output {
namespace {

struct Unit {
  double size;
  std::string_view name;
};
constexpr Unit kTimes[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};  // of nanoseconds
constexpr Unit kSizes[] = {{1e18, "EB"}, {1e15, "PB"}, {1e12, "TB"},
                           {1e9, "GB"},  {1e6, "MB"},  {1e3, "kB"}};  // of bytes
constexpr Unit kCounts[] = {{1e18, "E"}, {1e15, "P"}, {1e12, "T"}, {1e9, "G"}};

bool is_size(const Series& series) {
  return series.units == "Bytes" || series.units == "bytes";
}

// In the largest unit that the value reaches.
std::string in_unit(double value, std::span<const Unit> units, std::string_view least) {
  for (const Unit& unit : units)
    if (std::abs(value) >= unit.size) return fmt::format("{:.3f} {}", value / unit.size, unit.name);
  return fmt::format("{:.0f} {}", value, least);
}

std::string brief_in_unit(double value, std::span<const Unit> units, std::string_view least) {
  constexpr double kThree = 99.95, kTwo = 9.995;  // before the point, after rounding
  for (const Unit& unit : units) {
    const double shown = std::abs(value / unit.size);
    if (shown < 1) continue;
    const int behind = shown >= kThree ? 0 : shown >= kTwo ? 1 : 2;
    return fmt::format("{:.{}f} {}", value / unit.size, behind, unit.name);
  }
  return fmt::format("{:.0f} {}", value, least);
}

bool is_large_size(const Series& series, double value) {
  return is_size(series) && std::abs(value) >= 1e6;
}

std::string fraction_text(double value) {
  if (std::abs(value) >= 100 && std::abs(value) < 9e18) return grouped(std::llround(value));
  return fmt::format("{:.1f}", value);
}

std::string amount_text(const Series& series, double value) {
  return is_time(series)                ? in_unit(value, kTimes, "ns")
         : is_large_size(series, value) ? in_unit(value, kSizes, "B")
                                        : fraction_text(value);
}

}  // namespace

std::string grouped(int64_t value) {
  std::string digits = fmt::format("{}", value);
  const std::ptrdiff_t first = value < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

bool is_time(const Series& series) {
  return series.units == "ns";
}

std::string value_text(const Series& series, int64_t value) {
  const auto amount = static_cast<double>(value);
  return is_time(series) || is_large_size(series, amount) ? amount_text(series, amount) : grouped(value);
}

std::string rate_text(const Point& point) {
  const std::optional<double> rate = number(point.value).rate;
  return rate && std::isfinite(*rate) ? amount_text(*point.series, *rate) : "";
}

std::string total_text(const Point& point) {
  if (!is_known(point.value)) return "-";
  const auto* summary = std::get_if<Summary>(&point.value);
  return summary && summary->mean() ? amount_text(*point.series, *summary->mean())
                                    : value_text(*point.series, number(point.value).total);
}

std::string brief_count(double value) {
  if (!std::isfinite(value)) return "";
  if (std::abs(value) >= 1e9) return brief_in_unit(value, kCounts, "");
  return std::abs(value) < 100 && value != std::floor(value) ? fmt::format("{:.1f}", value)
                                                             : grouped(std::llround(value));
}

std::string brief(const Series& series, double value) {
  return is_time(series)   ? brief_in_unit(value, kTimes, "ns")
         : is_size(series) ? brief_in_unit(value, kSizes, "B")
                           : brief_count(value);
}

std::string brief_rate(const Series& series, double rate) {
  if (!std::isfinite(rate)) return "";
  return brief(series, rate) + (is_time(series) || is_size(series) ? "/s" : "");
}

bool is_zero(const Point& point) {
  if (!is_measured(point.value)) return false;
  if (const auto* summary = std::get_if<Summary>(&point.value)) return summary->count == 0;
  const auto* observed = std::get_if<Observed>(&point.value);
  return number(point.value).total == 0 && (observed == nullptr || observed->of.count() == 0);
}

bool has_notes(const Point& point) {
  return point.refused > 0 || point.anomalies > 0 || !point.complete || point.suspect;
}

std::string notes(const Point& point, bool first, bool final) {
  std::string text;
  const auto add = [&](const std::string& note) { text += (text.empty() ? "" : ", ") + note; };
  if (first && point.overhead >= 0) add(fmt::format("overhead {:.1f} %", 100 * point.overhead));
  if (point.refused > 0) add(fmt::format("{} refused", point.refused));
  if (point.anomalies > 0)
    add(fmt::format("{} {}", point.anomalies, point.anomalies == 1 ? "anomaly" : "anomalies"));
  if (!point.complete) add("incomplete");
  if (point.suspect) add("suspect");
  if (final) add("final");
  return text;
}

}  // namespace mdl::output
