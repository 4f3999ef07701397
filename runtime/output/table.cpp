// Output for people: aligned columns, a header now and then.
#include "runtime/output/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/say.h"
#include "base/utf8.h"
#include "runtime/output/figures.h"
#include "runtime/output/formats.h"
#include "runtime/output/live.h"

namespace mdl::output {
namespace {

constexpr size_t kRowsToAHeader = 40;
constexpr size_t kNameColumns = 60;
constexpr std::string_view kBold = "\x1b[1m", kDim = "\x1b[2m", kWarning = "\x1b[33m", kPlain = "\x1b[0m";

enum Column { kTime, kPid, kMetric, kFocus, kValue, kDelta, kRate, kUnits, kNotes, kColumns };
constexpr std::array<std::string_view, kColumns> kTitles = {"TIME",  "PID",    "METRIC", "FOCUS", "TOTAL",
                                                            "DELTA", "RATE/S", "UNITS",  ""};
constexpr std::array<bool, kColumns> kRight = {true, true, false, false, true, true, true, false, false};

using Line = std::array<std::string, kColumns>;

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

// Of two points which comes first; those that are alike stay in their order.
bool is_before(const Point* a, const Point* b, std::string_view order, Places& places) {
  const Number &left = number(a->value), &right = number(b->value);
  if (order == "name")
    if (const int names = places.text(*a->series).compare(places.text(*b->series)); names != 0)
      return names < 0;
  if (order == "rate" && left.rate.value_or(0) != right.rate.value_or(0))
    return left.rate.value_or(0) > right.rate.value_or(0);
  if (order == "delta" && left.delta != right.delta) return left.delta > right.delta;
  return left.total != right.total ? left.total > right.total : a < b;
}

// The largest points of each metric with many, in place of all.
Selection selected(std::span<const Point> points, const Look& look, Places& places) {
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
                        [&](const Point* a, const Point* b) { return is_before(a, b, look.sort, places); });
    hidden.more = rows.size() - kept;
    rows.resize(kept);
    if (hidden.more + hidden.zeros > 0) out.hidden[rows.back()] = hidden;
    out.points.insert(out.points.end(), rows.begin(), rows.end());
  }
  return out;
}

class Table final : public Consumer {
 public:
  Table(Sink& sink, const Look& look)
      : sink_(sink), look_(look), colour_(look.colour), first_pid_(look.process) {}
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
  Places places_;
  bool colour_;
  bool focus_ = false;  // the column is there once a row has a focus
  bool pid_ = false;    // once there are rows of another process
  pid_t first_pid_;
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
  const Selection selection = selected(points, look_, places_);
  for (const Point* shown : selection.points) {
    const Point& point = *shown;
    const Series& series = *point.series;
    const bool first = std::exchange(last_pid, series.process) != series.process;
    const std::string place = places_.text(series);
    const bool has_place = !focus_ && !place.empty();
    focus_ = focus_ || has_place;
    if (first_pid_ == 0) first_pid_ = series.process;
    const bool another = series.process != first_pid_ && !pid_;
    pid_ = pid_ || another;
    if (another || has_place) rows_since_header_ = kRowsToAHeader;
    const std::string time = lines.empty() ? fmt::format("{:.1f} s", point.elapsed_s) : "";
    const std::string& name = series.name.empty() ? series.metric : series.name;
    lines.push_back({time, process_text(series), shown_name(name), shown_name(place), total_text(point),
                     is_known(point.value) ? value_text(series, number(point.value).delta) : "",
                     rate_text(point), is_time(series) ? "time" : printable(series.units),
                     notes(point, first, final)});
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
  if (look.in_place) return make_live(sink, look);
  return std::make_unique<Table>(sink, look);
}

}  // namespace mdl::output
