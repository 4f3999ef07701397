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
constexpr size_t kFewRows = 4;  // of a metric: they are all shown, in the order in which they were asked for
constexpr size_t kNameColumns = 60;
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
bool is_large_size(const Series& series, double value) {
  return (series.units == "Bytes" || series.units == "bytes") && std::abs(value) >= 1e6;
}
// Bytes from a million on: 3.456 GB.
std::string size_text(double bytes) {
  constexpr std::array<std::pair<double, std::string_view>, 5> kUnits = {
      {{1e18, "EB"}, {1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}}};
  for (const auto& [size, unit] : kUnits)
    if (std::abs(bytes) >= size) return fmt::format("{:.3f} {}", bytes / size, unit);
  return fmt::format("{:.0f} B", bytes);
}
std::string value_text(const Series& series, int64_t value) {
  const auto size = static_cast<double>(value);
  return is_time(series) ? duration(size) : is_large_size(series, size) ? size_text(size) : grouped(value);
}
std::string rate_text(const Point& point) {
  const std::optional<double> rate = number(point.value).rate;
  if (!rate) return "";
  if (!std::isfinite(*rate)) return "";
  return is_time(*point.series)                ? duration(*rate)
         : is_large_size(*point.series, *rate) ? size_text(*rate)
                                               : rate_number(*rate);
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

// Of the rows of one metric: those that are not shown.
struct Hidden {
  size_t more = 0, zeros = 0;
};
struct Selection {
  std::vector<const Point*> points;
  std::map<const Point*, Hidden> hidden;  // by the metric's last row that is shown
};

std::string hidden_text(const Hidden& hidden) {
  const std::string zeros = fmt::format("{} with 0", hidden.zeros);
  if (hidden.more == 0) return fmt::format("({})", zeros);
  return fmt::format("({} more{})", hidden.more, hidden.zeros == 0 ? "" : ", " + zeros);
}

// A mean has its fraction, unless its units are larger.
std::string total_text(const Point& point) {
  if (!is_known(point.value)) return "-";
  const auto* summary = std::get_if<Summary>(&point.value);
  if (!summary || !summary->mean()) return value_text(*point.series, number(point.value).total);
  if (is_time(*point.series)) return duration(*summary->mean());
  if (is_large_size(*point.series, *summary->mean())) return size_text(*summary->mean());
  return rate_number(*summary->mean());
}

bool is_zero(const Point& point) {
  if (const auto* summary = std::get_if<Summary>(&point.value)) return summary->count == 0;
  const auto* observed = std::get_if<Observed>(&point.value);
  return number(point.value).total == 0 && (observed == nullptr || observed->of.count() == 0);
}

// Of two points which comes first; those that are alike stay in their order.
bool is_before(const Point* a, const Point* b, std::string_view order) {
  const Number &left = number(a->value), &right = number(b->value);
  if (order == "name")
    if (const int names = place_text(*a->series).compare(place_text(*b->series)); names != 0)
      return names < 0;
  if (order == "rate" && left.rate.value_or(0) != right.rate.value_or(0))
    return left.rate.value_or(0) > right.rate.value_or(0);
  if (order == "delta" && left.delta != right.delta) return left.delta > right.delta;
  return left.total != right.total ? left.total > right.total : a < b;
}

// The largest points of each metric with many, in place of all.
Selection selected(std::span<const Point> points, const Look& look) {
  Selection out;
  for (size_t i = 0; i < points.size();) {
    std::vector<const Point*> rows = {&points[i++]};
    const Series& first = *rows[0]->series;
    while (i < points.size() && points[i].series->family == first.family &&
           points[i].series->process == first.process && points[i].series->metric == first.metric)
      rows.push_back(&points[i++]);
    const bool many = rows.size() > kFewRows;
    Hidden hidden;
    if (many && !look.all) {
      const size_t all = rows.size();
      const Point* const any = rows[0];
      std::erase_if(rows, [](const Point* one) { return is_zero(*one); });
      if (rows.empty()) rows.push_back(any);  // that it is 0 is an answer
      hidden.zeros = all - rows.size();
    }
    size_t kept = rows.size();
    if (look.top != 0 || !look.all) kept = std::min(kept, look.top != 0 ? look.top : kRowsOfAMetric);
    if (many || look.top != 0 || !look.sort.empty())
      std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(kept), rows.end(),
                        [&](const Point* a, const Point* b) { return is_before(a, b, look.sort); });
    hidden.more = rows.size() - kept;
    rows.resize(kept);
    if (hidden.more + hidden.zeros > 0) out.hidden[rows.back()] = hidden;
    out.points.insert(out.points.end(), rows.begin(), rows.end());
  }
  return out;
}

class Table final : public Consumer {
 public:
  Table(Sink& sink, const Look& look) : sink_(sink), look_(look), colour_(look.colour) {}
  Result<void> sample(std::span<const Point> points, bool final) override;

 private:
  std::string paint(std::string_view colour, const std::string& text) const {
    return colour_ && !text.empty() ? fmt::format("{}{}{}", colour, text, kPlain) : text;
  }
  std::string shown_name(const std::string& name) const {
    return look_.all ? printable(name) : shortened(printable(name), kNameColumns);
  }
  bool widen(const std::vector<Line>& lines);
  std::string render(const Line& line, bool title) const;

  Sink& sink_;
  const Look look_;
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

Result<void> Table::sample(std::span<const Point> points, bool final) {
  std::vector<Line> lines;
  pid_t last_pid = 0;
  const Selection selection = selected(points, look_);
  for (const Point* shown : selection.points) {
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
    lines.push_back(
        {time, process_text(series), shown_name(name), shown_name(place_text(series)), total_text(point),
         is_known(point.value) ? value_text(series, number(point.value).delta) : "", rate_text(point),
         is_time(series) ? "time" : printable(series.units), notes(point, first, final)});
    if (const auto* observed = std::get_if<Observed>(&point.value))
      lines.push_back({"", "", "", "", "", "", "", "", distribution_text(series, observed->of)});
    if (auto hidden = selection.hidden.find(shown); hidden != selection.hidden.end())
      lines.push_back({"", process_text(series), hidden_text(hidden->second), "", "", "", "", "", ""});
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

std::string shortened(const std::string& text, size_t most) {
  const size_t all = columns(text);
  if (all <= most || most < 3) return text;
  const size_t head = (most - 1) / 2, tail = most - 1 - head;
  std::string out;
  size_t at = 0;  // the column of the character that ends before the next one
  for (const char c : text) {
    if (!continues_character(c)) {
      ++at;
      if (at == head + 1) out += "\u2026";
    }
    if (at <= head || at > all - tail) out += c;
  }
  return out;
}

std::unique_ptr<Consumer> make_table(Sink& sink, const Look& look) {
  return std::make_unique<Table>(sink, look);
}

}  // namespace mdl::output
