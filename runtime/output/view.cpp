#include "runtime/output/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/utf8.h"
#include "runtime/output/figures.h"
#include "runtime/output/table.h"

namespace mdl::output {
namespace {

constexpr size_t kMostBars = 12;  // lines of one distribution
constexpr size_t kNumberColumns = 12, kSpace = 2, kNarrow = 60, kLeastName = 20;
constexpr size_t kFrameLines = 3;  // head, titles, status
constexpr std::string_view kUtf8Levels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAsciiLevels[] = {"_", ".", ",", "-", "=", "+", "*", "#"};
constexpr size_t kLevels = std::size(kUtf8Levels);
constexpr std::string_view kCode = "/Code/";

// East Asian characters take two columns. Where one of these ranges takes one, the line only ends a little earlier.
size_t width_of(std::string_view character) {
  return character >= "\u1100" && (character < "\u2000" || character > "\u2bff") ? 2 : 1;
}

// /Code/OBJECT/, of a place in it.
std::string object_of(std::string_view place) {
  if (!place.starts_with(kCode)) return "";
  const size_t end = place.find('/', kCode.size());
  return end == place.npos ? "" : std::string(place.substr(0, end + 1));
}

std::string right(const std::string& text, size_t width) {
  const size_t have = columns(text);
  return have < width ? std::string(width - have, ' ') + text : text;
}
std::string left(const std::string& text, size_t width) {
  const size_t have = columns(text);
  return have < width ? text + std::string(width - have, ' ') : text;
}

std::string level_text(double part, bool utf8) {
  const auto level = static_cast<size_t>(std::clamp(part, 0.0, 1.0) * (kLevels - 1) + 0.5);
  return std::string(utf8 ? kUtf8Levels[level] : kAsciiLevels[level]);
}

std::string bar(double part, size_t width, bool utf8) {
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  constexpr size_t kEighth = 8;
  auto eighths = static_cast<size_t>(part * static_cast<double>(width * kEighth) + 0.5);
  if (part > 0) eighths = std::max<size_t>(eighths, 1);
  std::string out;
  for (size_t i = 0; i < eighths / kEighth; ++i) out += utf8 ? "█" : "#";
  if (utf8)
    out += kEighths[eighths % kEighth];
  else if (eighths % kEighth >= kEighth / 2 || eighths < kEighth)
    out += '#';
  return out;
}

// How many values of a distribution lie between powers of two.
struct Range {
  int64_t low = 0, high = 0;
  uint64_t count = 0;
};
std::vector<Range> ranges_of(const values::Distribution& of, size_t most) {
  std::vector<Range> out;
  for (const values::Bucket& bucket : of.buckets) {
    const values::BucketBounds bounds = values::bounds_of(bucket.index);
    while (out.empty() || bounds.low >= out.back().high) {
      const int64_t low = out.empty() ? bounds.low : out.back().high;
      int64_t high = 1;
      while (high <= low && high < INT64_MAX / 2) high *= 2;
      if (high <= low) high = INT64_MAX;
      out.push_back({out.empty() ? high / 2 : low, high, 0});
    }
    out.back().count += bucket.count;
  }
  // Neighbours together, until they fit.
  while (out.size() > std::max<size_t>(most, 1)) {
    std::vector<Range> wider;
    for (size_t i = 0; i < out.size(); i += 2) {
      wider.push_back(out[i]);
      if (i + 1 < out.size()) wider.back().high = out[i + 1].high, wider.back().count += out[i + 1].count;
    }
    out = std::move(wider);
  }
  return out;
}

// The next key of what was typed: a character, or a sequence of an arrow; "" where its end is missing.
std::string_view next_key(std::string_view typed) {
  if (typed.starts_with("\x1b[") || typed.starts_with("\x1bO")) {
    for (size_t i = 2; i < typed.size(); ++i)
      if (typed[i] >= '@' && typed[i] <= '~') return typed.substr(0, i + 1);
    return "";
  }
  return typed.substr(0, std::max<size_t>(utf8_length(typed), 1));
}

}  // namespace

View::View(const Look& look, bool utf8) : look_(look), utf8_(utf8) {
  const std::string_view order = look.sort.empty() ? "rate" : std::string_view(look.sort);
  order_ = static_cast<size_t>(std::ranges::find(kOrders, order) - std::begin(kOrders)) % std::size(kOrders);
}

View::Row& View::row_of(const Point& point, size_t at) {
  constexpr size_t kAhead = 8;  // of thousands, none is in a cache any more
  if (at + kAhead < known_.size()) {
    constexpr size_t kLine = 64;
    const auto* next = reinterpret_cast<const std::byte*>(&rows_[known_[at + kAhead]]);
    for (size_t line = 0; line < offsetof(Row, place); line += kLine) __builtin_prefetch(next + line, 1);
  }
  if (at < known_.size() && rows_[known_[at]].series == point.series) return rows_[known_[at]];
  const Series& series = *point.series;
  if (series.id >= rows_.size()) rows_.resize(series.id + 1);
  if (at >= known_.size()) known_.resize(at + 1);
  known_[at] = series.id;
  return rows_[series.id].series ? rows_[series.id] : new_row(series);
}

View::Row& View::new_row(const Series& series) {
  Row& row = rows_[series.id];
  row.series = &series;
  row.place = printable(places_.text(series));
  if (series.process != 0) processes_.insert(series.process);
  const auto [group_at, is_first] = group_of_.try_emplace(series.metric, groups_.size());
  if (is_first) {
    const std::string& name = series.name.empty() ? series.metric : series.name;
    groups_.push_back({printable(name), is_time(series) ? "time" : printable(series.units)});
    groups_.back().common = object_of(row.place);
  }
  Group& group = groups_[group_at->second];
  if (!row.place.starts_with(group.common)) group.common = "";
  group.rows.push_back(series.id);
  match(row);
  return row;
}

void View::take(std::span<const Point> points, bool final) {
  if (paused_ && !final) return;
  is_final_ = final;
  taken_++;
  for (size_t at = 0; at < points.size(); ++at) {
    const Point& point = points[at];
    Row& row = row_of(point, at);
    row.taken = taken_;
    const Number& value = number(point.value);
    const auto* summary = std::get_if<Summary>(&point.value);
    const auto* observed = std::get_if<Observed>(&point.value);
    const double count = observed ? static_cast<double>(observed->of.count()) : 0;
    const double time = point.elapsed_s - std::exchange(row.elapsed_s, point.elapsed_s);
    row.is_zero = is_zero(point);
    row.has_ranges = observed && !observed->of.buckets.empty();
    row.delta = observed ? count - row.total : static_cast<double>(value.delta);
    row.rate = !value.rate ? 0 : !observed ? *value.rate : time > 0 ? row.delta / time : 0;
    row.total = observed                     ? count
                : summary && summary->mean() ? *summary->mean()
                                             : static_cast<double>(value.total);
    const bool has_rate = row.series->kind != Series::Kind::level;
    row.past[row.samples++ % kPast] = static_cast<float>(has_rate ? row.delta : row.total);
    row.value = point.value;
    if (has_notes(point) || !row.notes.empty()) row.notes = notes(point, false, false);
    elapsed_s_ = point.elapsed_s;
    if (point.overhead >= 0) overhead_ = point.overhead;
  }
}

void View::match(Row& row) const {
  const std::string wanted = lower(filter_);
  row.matches = wanted.empty() || lower(row.place).find(wanted) != std::string::npos ||
                lower(row.series->metric).find(wanted) != std::string::npos;
}

void View::match_all() {
  first_ = 0;
  chosen_.reset(), shown_.clear();  // until others are shown
  for (Row& row : rows_)
    if (row.series) match(row);
}

bool View::obey(std::string_view typed) {
  told_.clear();
  unread_ += typed;
  while (!unread_.empty()) {
    const std::string key(next_key(unread_));
    if (key.empty()) return false;
    unread_.erase(0, key.size());
    if (typing_ ? obey_filter(key) : obey_key(key)) return true;
  }
  return false;
}

bool View::obey_filter(std::string_view key) {
  constexpr std::string_view kEscape = "\x1b", kDelete = "\x7f", kBackspace = "\b", kAll = "\x15";  // Ctrl-U
  if (key == "\n" || key == "\r" || key == kEscape) typing_ = false;
  if (key == kEscape || key == kAll) filter_.clear();
  if (key == kDelete || key == kBackspace) {
    while (!filter_.empty() && continues_character(filter_.back())) filter_.pop_back();
    if (!filter_.empty()) filter_.pop_back();
  }
  if (key.size() <= 4 && printable(key) == key) filter_ += key;
  match_all();
  return false;
}

bool View::obey_key(std::string_view key) {
  constexpr size_t kPage = 10;
  if (key == "q" || key == "Q") return true;
  if (key == "p" || key == " ") paused_ = !paused_;
  if (key == "s") order_ = (order_ + 1) % std::size(kOrders);
  if (key == "a") absolute_ = !absolute_;
  if (key == "/") typing_ = true;
  if (key == "\x1b") filter_.clear(), match_all();
  if (key == "\n" || key == "\r") drill(Drill::Kind::callees);
  if (key == "c") drill(Drill::Kind::callers);
  if (key == "t") drill(Drill::Kind::threads);
  const bool above = key == "k" || key == "\x1b[A" || key == "\x1bOA";
  const bool below = key == "j" || key == "\x1b[B" || key == "\x1bOB";
  if (look_.drill && (above || below)) return choose_line(below), false;
  const auto up = [&](size_t rows) { first_ -= std::min(first_, rows); };
  if (above) up(1);
  if (below) first_ = std::min(first_ + 1, rows_.size());
  if (key == "\x1b[5~") up(kPage);
  if (key == "\x1b[6~") first_ = std::min(first_ + kPage, rows_.size());
  if (key == "g" || key == "\x1b[H" || key == "\x1b[1~") first_ = 0;
  return false;
}

// The one below or above; from the first or last that is shown on, the lines move.
void View::choose_line(bool below) {
  if (shown_.empty()) return;
  const auto at = chosen_ ? std::ranges::find(shown_, *chosen_) : shown_.end();
  if (at == shown_.end())
    chosen_ = below ? shown_.front() : shown_.back();
  else if (below && at + 1 != shown_.end())
    chosen_ = *(at + 1);
  else if (!below && at != shown_.begin())
    chosen_ = *(at - 1);
  else
    first_ = below ? first_ + 1 : first_ - std::min<size_t>(first_, 1);
}

// No line is chosen where nothing can be asked.
void View::drill(Drill::Kind kind) const {
  if (!chosen_) return;
  const Series& series = *rows_[*chosen_].series;
  const bool is_of_metric = kind == Drill::Kind::threads || !series.focus.starts_with(kCode);
  look_.drill({kind, is_of_metric ? series.metric : "", series.focus});
}

// Chosen once, and not for each of thousands of rows.
std::function<bool(const View::Row*, const View::Row*)> View::order() const {
  const std::string_view order = kOrders[order_];
  if (order == "name")
    return [](const Row* a, const Row* b) { return a->place != b->place ? a->place < b->place : a < b; };
  double Row::*const by = order == "rate" ? &Row::rate : order == "delta" ? &Row::delta : &Row::total;
  return [by](const Row* a, const Row* b) {
    if (a->*by != b->*by) return a->*by > b->*by;
    return a->total != b->total ? a->total > b->total : a < b;
  };
}

View::Part View::part_of(const Group& group) const {
  Part part;
  part.group = &group;
  const bool hides = group.rows.size() > kFewRows && !look_.all;
  for (const uint32_t id : group.rows) {
    const Row& row = rows_[id];
    if (!row.matches || !is_there(row)) continue;
    if (hides && row.is_zero) {
      part.zeros++;
      continue;
    }
    part.rows.push_back(&row);
    if (row.has_ranges) part.row_lines = 2;
  }
  part.has_title = group.rows.size() > 1 || !rows_[group.rows[0]].place.empty();
  return part;
}

// With lines for each: what it needs, where all have room; else the large ones share what the small ones leave.
std::vector<View::Part> View::parts_in(size_t room) {
  std::vector<Part> parts;
  size_t least = 0;
  for (const Group& group : groups_)
    if (Part part = part_of(group); !part.rows.empty() || part.zeros > 0) {
      least += part.lines(part.rows.empty() ? 0 : 1);
      parts.push_back(std::move(part));
    }
  const bool moves_parts = least > room && parts.size() > 1;
  if (moves_parts) {
    first_ = std::min(first_, parts.size() - 1);
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(first_));
    size_t fit = 0;
    for (size_t used = 0; fit < parts.size(); ++fit)
      if (used += parts[fit].lines(parts[fit].rows.empty() ? 0 : 1); used > room && fit > 0) break;
    left_out_ = first_ + parts.size() - fit;
    parts.resize(fit);
  } else {
    left_out_ = 0;
  }
  const auto wanted = [&](const Part* part) {
    return part->lines(look_.top == 0 ? part->rows.size() : std::min(part->rows.size(), look_.top));
  };
  std::vector<Part*> open;
  for (Part& part : parts) open.push_back(&part);
  std::stable_sort(open.begin(), open.end(),
                   [&](const Part* a, const Part* b) { return wanted(a) < wanted(b); });
  size_t below = 0;  // that can be scrolled to
  for (size_t i = 0; i < open.size(); ++i) {
    open[i]->room = std::min(wanted(open[i]), room / (open.size() - i));
    room -= open[i]->room;
    below = std::max(below, choose(*open[i], moves_parts ? 0 : first_));
  }
  if (!moves_parts) first_ = std::min(first_, below);
  return parts;
}

// The first rows in order that have room, behind those that are skipped. How many may be skipped at most.
size_t View::choose(Part& part, size_t skip) const {
  const size_t title = part.has_title ? 1 : 0;
  const size_t fit = std::min(part.rows.size(), (part.room - std::min(part.room, title)) / part.row_lines);
  const size_t most = part.rows.size() - fit;
  skip = std::min(skip, most);
  const auto begin = part.rows.begin(), first = begin + static_cast<std::ptrdiff_t>(skip),
             end = first + static_cast<std::ptrdiff_t>(fit);
  std::partial_sort(begin, end, part.rows.end(), order());
  part.rows = {first, end};
  part.more = most;
  return most;
}

std::string View::sparkline(const Row& row) const {
  std::string out;
  const float most = *std::ranges::max_element(row.past);
  for (size_t i = 0; i < kPast; ++i) {
    const size_t back = kPast - i;  // samples ago, the last one 1
    out += row.samples < back ? " "
           : most <= 0        ? level_text(0, utf8_)
                              : level_text(row.past[(row.samples - back) % kPast] / most, utf8_);
  }
  return out;
}

std::string View::number_columns(const Row& row, size_t width) const {
  const Series& series = *row.series;
  const bool counts = std::holds_alternative<Observed>(row.value);
  const auto value = [&](double of) { return counts ? brief_count(of) : brief(series, of); };
  const std::string rate = !number(row.value).rate ? ""
                           : counts                ? brief_count(row.rate)
                                                   : brief_rate(series, row.rate);
  const std::string total = is_known(row.value) ? value(row.total) : "-";
  const std::string delta = is_measured(row.value) ? value(row.delta) : "";
  std::string out = right(absolute_ ? total : rate, kNumberColumns);
  if (width >= kNarrow)
    out += right(absolute_ ? delta : total, kNumberColumns + kSpace) + "  " + sparkline(row);
  return out + "  ";
}

std::string View::title(const Part& part) const {
  std::string out = fmt::format("{} ({})", part.group->title, part.group->units);
  if (part.more + part.zeros > 0) out += "  ";
  if (part.more > 0) out += fmt::format("{} more", grouped(static_cast<int64_t>(part.more)));
  if (part.more > 0 && part.zeros > 0) out += ", ";
  if (part.zeros > 0) out += fmt::format("{} with 0", grouped(static_cast<int64_t>(part.zeros)));
  return out;
}

View::Line View::row_line(const Row& row, const Part& part, size_t width) const {
  std::string text = number_columns(row, width);
  std::string name = part.has_title ? row.place.substr(std::min(part.group->common.size(), row.place.size()))
                                    : part.group->title;
  if (name.empty()) name = "(all)";
  if (processes_.size() > 1) name = fmt::format("{} {}", process_text(*row.series), name);
  const std::string said = row.notes.empty() ? "" : fmt::format("  [{}]", row.notes);
  const size_t used = columns(text) + columns(said);
  const size_t room = std::max(kLeastName, width > used ? width - used : 0);
  return {Line::Kind::plain, text + (look_.all ? name : shortened(name, room)) + said};
}

std::string View::quantiles(const Row& row, bool with_bars) const {
  const values::Distribution& of = std::get<Observed>(row.value).of;
  std::string out(kNumberColumns + kSpace, ' ');
  for (const Quantile& one : kQuantiles)
    out += fmt::format("{} {}  ", one.name, brief(*row.series, static_cast<double>(of.quantile(one.part))));
  out += fmt::format("max {}", brief(*row.series, static_cast<double>(of.quantile(1))));
  if (with_bars) return out;
  constexpr size_t kMostRanges = 24;
  const std::vector<Range> ranges = ranges_of(of, kMostRanges);
  const uint64_t most = std::ranges::max_element(ranges, {}, &Range::count)->count;
  out += "  ";
  for (const Range& range : ranges)
    out += level_text(static_cast<double>(range.count) / static_cast<double>(most), utf8_);
  return out;
}

void View::add_bars(const Row& row, size_t most, std::vector<Line>& to) const {
  constexpr size_t kBar = 40;
  const std::vector<Range> ranges = ranges_of(std::get<Observed>(row.value).of, most);
  const uint64_t largest = std::ranges::max_element(ranges, {}, &Range::count)->count;
  for (const Range& range : ranges) {
    const auto text = [&](int64_t value) { return brief(*row.series, static_cast<double>(value)); };
    to.push_back(
        {Line::Kind::plain,
         fmt::format("{} to {} {}  {}", right(text(range.low), kNumberColumns),
                     left(text(range.high), kNumberColumns - 1),
                     right(brief_count(static_cast<double>(range.count)), kNumberColumns),
                     bar(static_cast<double>(range.count) / static_cast<double>(largest), kBar, utf8_))});
  }
}

std::string View::header() const {
  std::string out = fmt::format("mdl-inject  {:.1f} s", elapsed_s_);
  if (processes_.size() == 1) out += fmt::format("  process {}", *processes_.begin());
  if (processes_.size() > 1) out += fmt::format("  {} processes", processes_.size());
  if (overhead_ >= 0) out += fmt::format("  overhead {:.1f} %", 100 * overhead_);
  out += fmt::format("  by {}", kOrders[order_]);
  if (!filter_.empty() || typing_) out += fmt::format("  with `{}`", filter_);
  if (is_final_) return out + "  final";
  return out + (paused_ ? "  PAUSED" : "");
}

std::string View::titles(size_t width) const {
  std::string out = right(absolute_ ? "TOTAL" : "RATE/S", kNumberColumns);
  if (width >= kNarrow)
    out += right(absolute_ ? "DELTA" : "TOTAL", kNumberColumns + kSpace) + "  " + left("LAST SAMPLES", kPast);
  return out + "  WHERE";
}

std::string View::status() const {
  std::string out = left_out_ > 0 ? fmt::format("({} more metrics)  ", left_out_) : "";
  if (typing_) return fmt::format("/{}_   Enter: done  Esc: all", filter_);
  if (is_final_) return out;
  if (!told_.empty()) return printable(told_);
  if (!look_.keys) return out + "Ctrl-C ends it";
  return out + fmt::format("q quit  p {}  s sort  / filter  a {}  arrows{}", paused_ ? "go on" : "pause",
                           absolute_ ? "per second" : "absolute",
                           look_.drill ? "  Enter callees  c callers  t threads" : " move");
}

// Cut at the width; in the characters that the terminal shows.
std::string View::fitting(std::string text, size_t width) const {
  std::string out;
  size_t used = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view character = rest.substr(0, std::max<size_t>(utf8_length(rest), 1));
    rest.remove_prefix(character.size());
    used += utf8_ ? width_of(character) : 1;
    if (used > width) break;
    out += utf8_ || character.size() == 1 ? character : character == "\u2026" ? "~" : "?";
  }
  return out;
}

std::vector<View::Line> View::lines(TerminalSize size) {
  const size_t width = std::max<size_t>(size.columns, 2) - 1, height = std::max<size_t>(size.rows, 2) - 1;
  const size_t room = height > kFrameLines ? height - kFrameLines : 1;
  const std::vector<Part> parts = parts_in(room);
  size_t spare = room;
  for (const Part& part : parts) spare -= std::min(spare, part.lines(part.rows.size()));
  std::vector<Line> out = {{Line::Kind::title, header()}, {Line::Kind::title, titles(width)}};
  shown_.clear();
  for (const Part& part : parts) {
    if (part.has_title) out.push_back({Line::Kind::title, title(part)});
    for (const Row* row : part.rows) {
      out.push_back(row_line(*row, part, width));
      shown_.push_back(row->series->id);
      if (chosen_ == row->series->id) out.back().kind = Line::Kind::chosen, out.back().text[0] = '>';
      if (!row->has_ranges) continue;
      const size_t bars = std::min(spare, kMostBars);
      out.push_back({Line::Kind::plain, quantiles(*row, bars > 1)});
      if (bars <= 1) continue;
      const size_t before = out.size();
      add_bars(*row, bars, out);
      spare -= out.size() - before;
    }
  }
  out.resize(std::min(out.size(), height - 1));
  out.push_back({Line::Kind::status, status()});
  for (Line& line : out) line.text = fitting(std::move(line.text), width);
  return out;
}

}  // namespace mdl::output
