// What stands on a terminal that is drawn on in place: the rows, in which order, and what keys have changed of that.
// It knows no terminal but its size.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"
#include "runtime/output/formats.h"
#include "runtime/output/series.h"

namespace mdl::output {

class View {
 public:
  View(const Look& look, bool utf8);

  // The next values; while the view is paused only the last ones.
  void take(std::span<const Point> points, bool final);
  // Keys as a terminal sends them. True when the measurement is to end.
  bool obey(std::string_view typed);
  // An answer: it stands below until the next key.
  void tell(std::string_view text) { told_ = text; }

  struct Line {
    enum class Kind : uint8_t { plain, title, status, chosen };
    Kind kind = Kind::plain;
    std::string text;
  };
  // As many as fit, with a line below them, and not wider than the terminal.
  std::vector<Line> lines(TerminalSize size);

 private:
  static constexpr size_t kPast = 16;  // samples that are kept

  struct Row {
    // What each sample looks at stands together.
    const Series* series = nullptr;
    uint64_t taken = 0;  // the last one of View::taken_ that it was in
    bool matches = true;
    bool is_zero = true;
    bool has_ranges = false;                // it is a distribution of some values
    double total = 0, delta = 0, rate = 0;  // of a distribution: how many values
    double elapsed_s = 0;
    Value value;
    size_t samples = 0;
    std::array<float, kPast> past{};
    std::string place;  // where it is, for people
    std::string notes;
  };
  struct Group {  // of a metric
    std::string title, units;
    std::vector<uint32_t> rows = {};
    std::string common = {};  // how all of its places begin
  };
  // Of a group: what is shown, and what is not.
  struct Part {
    const Group* group = nullptr;
    std::vector<const Row*> rows;
    size_t zeros = 0, more = 0;
    bool has_title = false;
    size_t row_lines = 1;  // a distribution has a second one
    size_t room = 0;       // lines

    size_t lines(size_t of_rows) const { return (has_title ? 1 : 0) + of_rows * row_lines; }
  };

  // `at`: where the point stands in its sample.
  Row& row_of(const Point& point, size_t at);
  Row& new_row(const Series& series);
  void match(Row& row) const;
  void match_all();
  std::function<bool(const Row*, const Row*)> order() const;
  Part part_of(const Group& group) const;
  std::vector<Part> parts_in(size_t room);
  size_t choose(Part& part, size_t skip) const;
  std::string number_columns(const Row& row, size_t width) const;
  std::string sparkline(const Row& row) const;
  std::string title(const Part& part) const;
  Line row_line(const Row& row, const Part& part, size_t width) const;
  std::string quantiles(const Row& row, bool with_bars) const;
  void add_bars(const Row& row, size_t most, std::vector<Line>& to) const;
  std::string header() const;
  std::string titles(size_t width) const;
  std::string status() const;
  std::string fitting(std::string text, size_t width) const;

  bool obey_filter(std::string_view key);
  bool obey_key(std::string_view key);
  void choose_line(bool below);
  void drill(Drill::Kind kind) const;
  bool is_there(const Row& row) const { return !look_.drill || row.taken == taken_; }

  const Look look_;
  const bool utf8_;
  Places places_;
  std::vector<Row> rows_;  // by series
  // By its place in a sample, which has most of what the one before had: the series, which lie anywhere, are not read.
  std::vector<uint32_t> known_;
  std::vector<Group> groups_;
  std::map<std::string, size_t, std::less<>> group_of_;  // by the metric
  std::set<pid_t> processes_;
  double elapsed_s_ = 0, overhead_ = -1;
  bool is_final_ = false;

  size_t order_;  // of kOrders
  bool absolute_ = false, paused_ = false, typing_ = false;
  std::string filter_, told_;
  std::string unread_;  // the beginning of a key
  // What is above the first thing that is shown: rows of each metric, or metrics, where not all of them fit.
  size_t first_ = 0;
  size_t left_out_ = 0;             // metrics that do not fit
  uint64_t taken_ = 0;              // samples
  std::optional<uint32_t> chosen_;  // the series of the line that keys are about
  std::vector<uint32_t> shown_;     // the series of the lines, from the first one
};

}  // namespace mdl::output
