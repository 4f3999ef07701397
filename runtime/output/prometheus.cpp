#include "runtime/output/prometheus.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <set>
#include <vector>

#include "runtime/output/table.h"

namespace mdl::output {
namespace {

// [a-zA-Z_:][a-zA-Z0-9_:]*; an identifier of MDL may also begin with `$`.
std::string series_name(const Row& row) {
  constexpr std::string_view kTotal = "_total";
  std::string name = "mdl_" + row.metric;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (!row.level && !name.ends_with(kTotal)) name += kTotal;
  return name;
}

// Behind # HELP a quotation mark is itself, in a label's value it is not.
std::string escaped(const std::string& text, bool in_label) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '\\' || (in_label && c == '"')) out += '\\';
    out += c;
  }
  return out;
}

class Prometheus final : public Writer {
 public:
  explicit Prometheus(Sink& sink) : sink_(sink) {}
  Result<void> begin() override { return {}; }
  Result<void> sample(std::span<const Row> rows, bool) override {
    for (const Row& row : rows) {
      if (row.overhead >= 0) overheads_[row.pid] = row.overhead;
      Family& family = family_of(row);
      const std::string labels =
          fmt::format("{{pid=\"{}\",focus=\"{}\"}}", row.pid, escaped(row.focus, true));
      const auto [at, fresh] = family.places.try_emplace(labels, family.series.size());
      if (fresh) family.series.push_back({labels, 0});
      family.series[at->second].value = row.value;
      if (row.suspect)
        suspect_.insert(fmt::format("{{pid=\"{}\",metric=\"{}\",focus=\"{}\"}}", row.pid,
                                    escaped(row.metric, true), escaped(row.focus, true)));
    }
    return sink_.can_replace() ? sink_.replace(exposition()) : Result<void>{};
  }
  Result<void> end() override { return sink_.can_replace() ? Result<void>{} : sink_.write(exposition()); }

 private:
  struct Series {
    std::string labels;
    int64_t value = 0;
  };
  struct Family {
    std::string metric, name, head;
    std::vector<Series> series;  // in the order in which they came
    std::map<std::string, size_t> places;
  };

  Family& family_of(const Row& row) {
    std::string name = series_name(row);
    for (size_t i = 0; i < families_.size(); i++) {
      if (families_[i].metric == row.metric) return families_[i];
      // $a and _a: a series must not have values of both.
      if (families_[i].name == name) name.insert(4, "_"), i = SIZE_MAX;
    }
    const std::string head =
        fmt::format("# HELP {0} {1} ({2})\n# TYPE {0} {3}\n", name, escaped(row.name, false),
                    escaped(row.units, false), row.level ? "gauge" : "counter");
    return families_.emplace_back(Family{row.metric, name, head, {}, {}});
  }

  std::string exposition() const {
    std::string text;
    for (const Family& family : families_) {
      text += family.head;
      for (const Series& one : family.series)
        text += fmt::format("{}{} {}\n", family.name, one.labels, one.value);
    }
    if (!overheads_.empty())
      text +=
          "# HELP mdl_inject_overhead_ratio Part of the process's CPU time that its instrumentation takes\n"
          "# TYPE mdl_inject_overhead_ratio gauge\n";
    for (const auto& [pid, overhead] : overheads_)
      text += fmt::format("mdl_inject_overhead_ratio{{pid=\"{}\"}} {:.4f}\n", pid, overhead);
    if (!suspect_.empty())
      text +=
          "# HELP mdl_inject_suspect Values for which exits of functions were missed\n"
          "# TYPE mdl_inject_suspect gauge\n";
    for (const std::string& labels : suspect_) text += fmt::format("mdl_inject_suspect{} 1\n", labels);
    return text;
  }

  Sink& sink_;
  std::vector<Family> families_;  // in the order in which they came
  std::map<pid_t, double> overheads_;
  std::set<std::string> suspect_;  // labels
};

}  // namespace

std::unique_ptr<Writer> make_prometheus(Sink& sink) {
  return std::make_unique<Prometheus>(sink);
}

}  // namespace mdl::output
