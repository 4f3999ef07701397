// Output for people: aligned columns, a header now and then.
#include "runtime/output/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/say.h"
#include "base/utf8.h"
#include "runtime/output/formats.h"

namespace mdl::output {
namespace {

constexpr size_t kRowsToAHeader = 40;
constexpr size_t kRowsOfAFamily = 20;
constexpr std::string_view kBold = "\x1b[1m", kDim = "\x1b[2m", kWarning = "\x1b[33m", kPlain = "\x1b[0m";

enum Column { kTime, kPid, kMetric, kFocus, kValue, kDelta, kRate, kUnits, kNotes, kColumns };
constexpr std::array<std::string_view, kColumns> kTitles = {"TIME",  "PID",    "METRIC", "FOCUS", "TOTAL",
                                                            "DELTA", "RATE/S", "UNITS",  ""};
constexpr std::array<bool, kColumns> kRight = {true, true, false, false, true, true, true, false, false};

using Line = std::array<std::string, kColumns>;

// 1234567 as 1,234,567.
std::string grouped(int64_t value) {
  std::string digits = fmt::format("{}", value);
  const std::ptrdiff_t first = value < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

std::string rate_number(double rate) {
  if (!std::isfinite(rate)) return "";
  if (std::abs(rate) >= 100 && std::abs(rate) < 9e18) return grouped(std::llround(rate));
  return fmt::format("{:.1f}", rate);
}

// Nanoseconds in the unit that suits them: 1.234 ms.
std::string duration(double ns) {
  constexpr std::array<std::pair<double, std::string_view>, 3> kUnits = {
      {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}}};
  for (const auto& [size, unit] : kUnits)
    if (std::abs(ns) >= size) return fmt::format("{:.3f} {}", ns / size, unit);
  return fmt::format("{:.0f} ns", ns);
}

bool is_time(const Series& series) {
  return series.units == "ns";
}
std::string value_text(const Series& series, int64_t value) {
  return is_time(series) ? duration(static_cast<double>(value)) : grouped(value);
}
std::string rate_text(const Point& point) {
  const std::optional<double> rate = number(point.value).rate;
  if (!rate) return "";
  return is_time(*point.series) ? duration(*rate) : rate_number(*rate);
}

// 12 values: p50 3, p90 10, p99 10, p999 10, max 10
std::string distribution_text(const Series& series, const values::Distribution& of) {
  std::string out = fmt::format("{} values", grouped(static_cast<int64_t>(of.count())));
  if (of.buckets.empty()) return out;
  const char* before = ": ";
  for (const Quantile& one : kQuantiles)
    out += fmt::format("{}{} {}", std::exchange(before, ", "), one.name,
                       value_text(series, of.quantile(one.part)));
  return out + ", max " + value_text(series, of.quantile(1));
}

// `first`: of its process in this sample, where what holds for all of it is said.
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

class Table final : public Consumer {
 public:
  Table(Sink& sink, bool colour) : sink_(sink), colour_(colour) {}
  Result<void> sample(std::span<const Point> points, bool final) override;

 private:
  std::string paint(std::string_view colour, const std::string& text) const {
    return colour_ && !text.empty() ? fmt::format("{}{}{}", colour, text, kPlain) : text;
  }
  bool widen(const std::vector<Line>& lines);
  std::string render(const Line& line, bool title) const;

  Sink& sink_;
  bool colour_;
  bool focus_ = false;  // the column is there once a row has a focus
  bool pid_ = false;    // once there are rows of another process
  pid_t first_pid_ = 0;
  std::array<size_t, kColumns> widths_{};
  size_t rows_since_header_ = kRowsToAHeader;
};

// Columns only grow. True when one did.
bool Table::widen(const std::vector<Line>& lines) {
  bool grown = false;
  for (const Line& line : lines)
    for (size_t i = 0; i < kNotes; ++i) {
      const size_t needed = std::max(columns(line[i]), kTitles[i].size());
      grown = grown || needed > widths_[i];
      widths_[i] = std::max(widths_[i], needed);
    }
  return grown;
}

std::string Table::render(const Line& line, bool title) const {
  if (line[kMetric].empty())  // more of the line above
    return std::string(widths_[kTime] + 4, ' ') + line[kNotes] + '\n';
  std::string text;
  for (size_t i = 0; i < kColumns; ++i) {
    if ((i == kFocus && !focus_) || (i == kPid && !pid_)) continue;
    if (i > 0) text += "  ";
    const size_t width = columns(line[i]);
    const std::string space(i == kNotes || width > widths_[i] ? 0 : widths_[i] - width, ' ');
    const std::string_view colour = title                       ? kBold
                                    : i == kTime || i == kUnits ? kDim
                                    : i == kNotes               ? kWarning
                                                                : "";
    const std::string shown = colour.empty() ? line[i] : paint(colour, line[i]);
    text += kRight[i] ? space + shown : shown + space;
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text + '\n';
}

// The largest points of each family, in place of all; `more`: how many are left out behind a family's last.
std::vector<const Point*> selected(std::span<const Point> points, std::map<const Point*, size_t>& more) {
  std::vector<const Point*> out;
  for (size_t i = 0; i < points.size();) {
    std::vector<const Point*> family = {&points[i++]};
    const Series& first = *family[0]->series;
    if (first.family != 0)
      while (i < points.size() && points[i].series->family == first.family &&
             points[i].series->process == first.process)
        family.push_back(&points[i++]);
    const size_t kept = std::min(family.size(), kRowsOfAFamily);
    std::partial_sort(family.begin(), family.begin() + static_cast<std::ptrdiff_t>(kept), family.end(),
                      [](const Point* a, const Point* b) {
                        return number(a->value).total != number(b->value).total
                                   ? number(a->value).total > number(b->value).total
                                   : a < b;
                      });
    if (family.size() > kept) more[family[kept - 1]] = family.size() - kept;
    out.insert(out.end(), family.begin(), family.begin() + static_cast<std::ptrdiff_t>(kept));
  }
  return out;
}

Result<void> Table::sample(std::span<const Point> points, bool final) {
  std::vector<Line> lines;
  std::map<const Point*, size_t> more;
  pid_t last_pid = 0;
  for (const Point* shown : selected(points, more)) {
    const Point& point = *shown;
    const Series& series = *point.series;
    const bool first = std::exchange(last_pid, series.process) != series.process;
    focus_ = focus_ || !place_text(series).empty();
    if (first_pid_ == 0) first_pid_ = series.process;
    const bool another = series.process != first_pid_ && !pid_;
    pid_ = pid_ || another;
    if (another) rows_since_header_ = kRowsToAHeader;
    const std::string time = lines.empty() ? fmt::format("{:.1f} s", point.elapsed_s) : "";
    const std::string& name = series.name.empty() ? series.metric : series.name;
    lines.push_back({time, fmt::format("{}", series.process), printable(name), printable(place_text(series)),
                     value_text(series, number(point.value).total),
                     value_text(series, number(point.value).delta), rate_text(point),
                     is_time(series) ? "time" : printable(series.units), notes(point, first, final)});
    if (const auto* observed = std::get_if<Observed>(&point.value))
      lines.push_back({"", "", "", "", "", "", "", "", distribution_text(series, observed->of)});
    if (auto hidden = more.find(shown); hidden != more.end())
      lines.push_back({"", fmt::format("{}", series.process), fmt::format("({} more)", hidden->second), "",
                       "", "", "", "", ""});
  }
  std::string text;
  if (widen(lines) || rows_since_header_ >= kRowsToAHeader) {
    Line titles;
    std::copy(kTitles.begin(), kTitles.end(), titles.begin());
    text += render(titles, true);
    rows_since_header_ = 0;
  }
  for (const Line& line : lines) text += render(line, false);
  rows_since_header_ += lines.size();
  return sink_.write(text);
}

}  // namespace

std::string printable(std::string_view text) {
  return harmless(text);
}

size_t columns(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, std::not_fn(continues_character)));
}

std::unique_ptr<Consumer> make_table(Sink& sink, bool colour) {
  return std::make_unique<Table>(sink, colour);
}

}  // namespace mdl::output
