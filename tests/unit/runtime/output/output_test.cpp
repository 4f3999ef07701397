// Each format, byte for byte, and what happens when the output cannot be written.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "runtime/output/formats.h"
#include "runtime/output/table.h"

namespace mdl::output {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A point, with what its series says.
struct Row {
  uint64_t time_ns = 0;
  double elapsed_s = 0;
  pid_t pid = 0;
  std::string metric, name, focus;
  int64_t value = 0, delta = 0;
  std::optional<double> rate;
  std::string units;
  uint64_t refused = 0;
  bool complete = true;
  uint64_t anomalies = 0;
  double overhead = -1;
  bool suspect = false, level = false, unknown = false;
  values::Distribution observed = {};  // where it has buckets, the value is a distribution
  std::vector<std::string> key = {};
};

// The points of rows. Two rows of one series have its id.
class Points {
 public:
  std::vector<Point> of(const std::vector<Row>& rows) {
    std::vector<Point> out;
    for (const Row& row : rows)
      out.push_back({&series_of(row),
                     row.time_ns,
                     row.elapsed_s,
                     value_of(row),
                     row.refused,
                     row.complete,
                     row.suspect,
                     row.anomalies,
                     {},
                     row.overhead});
    return out;
  }

 private:
  const Series& series_of(const Row& row) {
    for (const Series& one : series_)
      if (one.process == row.pid && one.metric == row.metric && one.focus == row.focus &&
          one.key == row.key && one.name == row.name && one.units == row.units)
        return one;
    Series& made = series_.emplace_back(Series{static_cast<uint32_t>(series_.size()), kind_of(row),
                                               row.metric, row.name, row.focus, row.pid, row.units, 0});
    made.key = row.key;
    return made;
  }
  static Series::Kind kind_of(const Row& row) {
    if (!row.observed.buckets.empty()) return Series::Kind::distribution;
    return row.level ? Series::Kind::level : Series::Kind::total;
  }
  static Value value_of(const Row& row) {
    const Number number{row.value, row.delta, row.rate};
    if (row.unknown) return Unknown{};
    if (row.observed.buckets.empty()) return number;
    return Observed{number, row.observed};
  }
  std::deque<Series> series_;
};

Row row() {
  Row r;
  r.time_ns = 1'700'000'000'000'000'001;
  r.elapsed_s = 1.0000004;
  r.pid = 42;
  r.metric = "procedure_calls";
  r.name = "Procedure calls";
  r.focus = "/Code/app/work";
  r.value = 1234567;
  r.delta = 1000;
  r.rate = 999.99951;
  r.units = "Calls";
  return r;
}

std::unique_ptr<Consumer> writer_of(std::string_view format, Sink& sink, const Look& look = {}) {
  return format_named(format, false)->make(sink, look);
}

// What is written for these samples; the last is final.
std::string written(std::string_view format, const std::vector<std::vector<Row>>& samples,
                    const Look& look = {}) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::string text;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(got));
  });
  {
    Sink sink(ends[1], "pipe", true);
    const auto writer = writer_of(format, sink, look);
    Points points;
    EXPECT_TRUE(writer->begin());
    for (size_t i = 0; i < samples.size(); ++i)
      EXPECT_TRUE(writer->sample(points.of(samples[i]), i + 1 == samples.size()));
    EXPECT_TRUE(writer->end());
    EXPECT_TRUE(sink.close());
  }
  reader.join();
  close(ends[0]);
  return text;
}

TEST(Ndjson, IsTheContract) {
  Row other = row();
  other.focus = "";
  other.refused = 3;
  other.complete = false;
  other.anomalies = 2;
  other.value = -1;
  EXPECT_EQ(written("ndjson", {{row()}, {other}}),
            R"({"time_ns":1700000000000000001,"elapsed_s":1.0,"pid":42,"metric":"procedure_calls",)"
            R"("focus":"/Code/app/work","value":1234567,"delta":1000,"rate":1000.0,"units":"Calls",)"
            R"("refused":0,"final":false})"
            "\n"
            R"({"time_ns":1700000000000000001,"elapsed_s":1.0,"pid":42,"metric":"procedure_calls",)"
            R"("focus":"","value":-1,"delta":1000,"rate":1000.0,"units":"Calls","refused":3,"final":true,)"
            R"("complete":false,"anomalies":2})"
            "\n");
}

TEST(Ndjson, KeepsWholeNumbers) {
  Row r = row();
  r.value = INT64_MAX;
  r.delta = INT64_MIN;
  r.anomalies = UINT64_MAX;
  const auto line = nlohmann::json::parse(written("ndjson", {{r}}));
  EXPECT_EQ(line["value"].get<int64_t>(), INT64_MAX);
  EXPECT_EQ(line["delta"].get<int64_t>(), INT64_MIN);
  EXPECT_EQ(line["anomalies"].get<uint64_t>(), UINT64_MAX);
}

TEST(Ndjson, ParsesWhateverTheNamesAre) {
  Row r = row();
  r.focus = "/Code/app/\"\\\n\x01\xff\xc3\x28";
  r.rate = 0.0 / 1 + std::numeric_limits<double>::infinity();
  const std::string text = written("ndjson", {{r}});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_TRUE(nlohmann::json::accept(text)) << text;
}

TEST(Json, IsOneDocument) {
  const auto document = nlohmann::json::parse(written("json", {{row(), row()}, {row()}}));
  ASSERT_EQ(document.size(), 3u);
  EXPECT_EQ(document[1]["final"], false);
  EXPECT_EQ(document[2]["final"], true);
  EXPECT_EQ(document[0]["metric"], "procedure_calls");
  EXPECT_EQ(written("json", {}), "[\n]\n");
}

TEST(Csv, QuotesWhatMustBe) {
  Row r = row();
  r.focus = "/Code/app/f(int, \"x\")";
  r.overhead = 0.03124;
  r.suspect = true;
  EXPECT_EQ(
      written("csv", {{row()}, {r}}),
      "time_ns,elapsed_s,pid,metric,focus,value,delta,rate,units,refused,final,complete,anomalies,"
      "overhead,suspect,key\r\n"
      "1700000000000000001,1,42,procedure_calls,/Code/app/work,1234567,1000,1000,Calls,0,false,true,0,,"
      "false,\r\n"
      "1700000000000000001,1,42,procedure_calls,\"/Code/app/f(int, \"\"x\"\")\",1234567,1000,1000,Calls,0,"
      "true,true,0,0.0312,true,\r\n");
}

TEST(Output, WhatIsSuspectIsMarkedInEveryFormat) {
  Row r = row();
  r.suspect = true;
  EXPECT_EQ(nlohmann::json::parse(written("ndjson", {{r}}))["suspect"], true);
  EXPECT_FALSE(nlohmann::json::parse(written("ndjson", {{row()}})).contains("suspect"));
  EXPECT_THAT(written("table", {{r}}), HasSubstr("suspect"));
  EXPECT_THAT(written("table", {{row()}}), Not(HasSubstr("suspect")));
  EXPECT_THAT(written("prometheus", {{r}, {row()}}),
              HasSubstr("# TYPE mdl_inject_suspect gauge\n"
                        "mdl_inject_suspect{metric=\"procedure_calls\",pid=\"42\",focus=\"/Code/app/work\","
                        "object=\"app\",function=\"work\"} 1\n"));
  EXPECT_THAT(written("prometheus", {{row()}}), Not(HasSubstr("suspect")));
}

// 0 is a number that nobody has counted.
TEST(Output, WhatIsNotKnownIsToldInEveryFormat) {
  Row r = row();
  r.unknown = true, r.refused = 2, r.focus = "/Code/app/tiny";
  for (const char* format : {"ndjson", "json"}) {
    auto line = nlohmann::json::parse(written(format, {{r}}));
    if (line.is_array()) line = line[0];
    for (const char* key : {"value", "delta"}) EXPECT_EQ(line.at(key), 0) << format << key;
    EXPECT_EQ(line.at("measured"), false);
    EXPECT_EQ(line["refused"], 2);
  }
  EXPECT_THAT(written("csv", {{r}}), HasSubstr(",procedure_calls,/Code/app/tiny,,,,Calls,2,true,"));
  EXPECT_EQ(written("table", {{row(), r}}),
            " TIME  METRIC           FOCUS               TOTAL  DELTA  RATE/S  UNITS\n"
            "1.0 s  Procedure calls  /Code/app/work  1,234,567  1,000   1,000  Calls  final\n"
            "       Procedure calls  /Code/app/tiny          -                 Calls  2 refused, final\n");
  EXPECT_THAT(written("prometheus", {{row(), r}}),
              AllOf(HasSubstr("function=\"work\"} 1234567\n"), Not(HasSubstr("tiny"))));
  EXPECT_EQ(written("influx", {{r}}), "");
}

TEST(Table, AlignsColumns) {
  Row small = row();
  small.name = "Puts";
  small.focus = "";
  small.value = 7;
  small.delta = -7;
  small.rate = -3.45;
  small.refused = 2;
  small.anomalies = 1;
  EXPECT_EQ(written("table", {{row(), small}, {row(), small}}),
            " TIME  METRIC           FOCUS               TOTAL  DELTA  RATE/S  UNITS\n"
            "1.0 s  Procedure calls  /Code/app/work  1,234,567  1,000   1,000  Calls\n"
            "       Puts                                     7     -7    -3.5  Calls  2 refused, 1 anomaly\n"
            "1.0 s  Procedure calls  /Code/app/work  1,234,567  1,000   1,000  Calls  final\n"
            "       Puts                                     7     -7    -3.5  Calls  2 refused, 1 anomaly, "
            "final\n");
}

TEST(Table, SaysOnceASampleWhatTheInstrumentationTakes) {
  Row r = row(), child = row();
  r.overhead = 0.1234, child.overhead = 0, child.pid = 43;
  const std::string text = written("table", {{r, r, child}, {r, r}});
  EXPECT_THAT(text, HasSubstr("Calls  overhead 12.3 %\n"));
  EXPECT_THAT(text, HasSubstr("Calls  overhead 0.0 %\n"));
  EXPECT_THAT(text, HasSubstr("Calls  overhead 12.3 %, final\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '%'), 3);
}

TEST(Prometheus, SaysWhatTheInstrumentationTakes) {
  Row r = row();
  EXPECT_THAT(written("prometheus", {{r}}), Not(HasSubstr("overhead")));
  r.overhead = 0.12344;
  EXPECT_THAT(
      written("prometheus", {{r, r}}),
      HasSubstr("# TYPE mdl_inject_overhead_ratio gauge\nmdl_inject_overhead_ratio{pid=\"42\"} 0.1234\n"));
}

TEST(Table, WithoutAFocusThereIsNoColumnForIt) {
  Row r = row();
  r.focus = "";
  EXPECT_THAT(written("table", {{r}}), Not(HasSubstr("FOCUS")));
}

TEST(Table, LinesOfAnotherProcessHaveItsId) {
  Look look;
  look.process = row().pid;
  EXPECT_THAT(written("table", {{row()}}, look), Not(HasSubstr("PID")));
  look.process = row().pid + 1;  // a child of it is the first one that has a line
  EXPECT_THAT(written("table", {{row()}}, look), HasSubstr("  PID  "));
}

TEST(Table, FunctionsThatReadAlikeAreToldApart) {
  Row complete = row(), base = row(), deleting = row();
  complete.focus = "/Code/app/_ZN4shop6BasketD1Ev";
  base.focus = "/Code/app/_ZN4shop6BasketD2Ev";
  deleting.focus = "/Code/app/_ZN4shop6BasketD0Ev";
  const std::string text = written("table", {{complete, base, deleting}});
  EXPECT_THAT(text, HasSubstr("/Code/app/shop::Basket::~Basket()  "));
  EXPECT_THAT(text, HasSubstr("/Code/app/shop::Basket::~Basket() (base)  "));
  EXPECT_THAT(text, HasSubstr("/Code/app/shop::Basket::~Basket() (deleting)  "));
}

TEST(Table, RepeatsTheHeaderWhenAColumnGrows) {
  Row larger = row();
  larger.value *= 1000000;
  const std::string text = written("table", {{row()}, {larger}, {larger}});
  size_t headers = 0;
  for (size_t at = text.find("METRIC"); at != std::string::npos; at = text.find("METRIC", at + 1)) ++headers;
  EXPECT_EQ(headers, 2u);
}

TEST(Table, RepeatsTheHeaderWhenAColumnComes) {
  Row without = row(), with = row();
  without.focus = "", with.focus = "/";
  const std::string text = written("table", {{without}, {with}, {without}});
  EXPECT_EQ(text.find("FOCUS"), text.rfind("FOCUS"));
  EXPECT_THAT(text, HasSubstr("FOCUS"));
}

TEST(Table, ColoursOnlyWhenAsked) {
  EXPECT_THAT(written("table", {{row()}}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(written("table", {{row()}}, {.colour = true}), HasSubstr("\x1b[1mMETRIC\x1b[0m"));
}

TEST(Table, NamesDoNotReachTheTerminalAsTheyAre) {
  Row r = row();
  r.focus = "/Code/app/\x1b]0;owned\x07";
  r.name = "a\nb";
  const std::string text = written("table", {{r}});
  EXPECT_THAT(text, HasSubstr("/Code/app/?]0;owned?"));
  EXPECT_THAT(text, HasSubstr("a?b"));
  EXPECT_EQ(printable("\xc2\x9b"
                      "1m \xc3\xa4 \xff \xe2\x82"),
            "?1m \xc3\xa4 ? ??");
  EXPECT_EQ(columns("\xc3\xa4 \xe2\x82\xac"), 3u);
}

// Functions f0, f1, ... of one metric with these totals.
std::vector<Row> functions(const std::vector<int64_t>& totals) {
  std::vector<Row> out;
  for (const int64_t total : totals) {
    Row& one = out.emplace_back(row());
    one.focus = "f" + std::to_string(out.size() - 1), one.value = total, one.delta = total, one.rate = -total;
  }
  return out;
}

std::vector<std::string> order_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("  f");
    out.push_back(at != std::string::npos               ? line.substr(at + 2, 2)
                  : line.find('(') != std::string::npos ? line.substr(line.find('('))
                                                        : "");
  }
  return out;
}

TEST(Table, TheLargestComeFirstAndZerosAreCounted) {
  using testing::ElementsAre;
  const std::vector<Row> rows = functions({0, 5, 0, 7, 6, 1});
  EXPECT_THAT(order_of(written("table", {rows})), ElementsAre("", "f3", "f4", "f1", "f5", "(2 with 0)"));
  std::vector<Row> some = rows;
  some[2].unknown = true;  // that is no 0
  EXPECT_THAT(order_of(written("table", {some})),
              ElementsAre("", "f3", "f4", "f1", "f5", "f2", "(1 with 0)"));
  EXPECT_THAT(order_of(written("table", {rows}, {.top = 2})),
              ElementsAre("", "f3", "f4", "(2 more, 2 with 0)"));
  EXPECT_THAT(order_of(written("table", {rows}, {.all = true})),
              ElementsAre("", "f3", "f4", "f1", "f5", "f0", "f2"));
  EXPECT_THAT(order_of(written("table", {rows}, {.sort = "rate"})),
              ElementsAre("", "f5", "f1", "f4", "f3", "(2 with 0)"));
  EXPECT_THAT(order_of(written("table", {rows}, {.all = true, .top = 3, .sort = "name"})),
              ElementsAre("", "f0", "f1", "f2", "(3 more)"));
  EXPECT_THAT(order_of(written("table", {functions({0, 0, 0, 0, 0})})), ElementsAre("", "f0", "(4 with 0)"));
  // What was asked for one by one stays as it was asked for.
  EXPECT_THAT(order_of(written("table", {functions({0, 1, 2})})), ElementsAre("", "f0", "f1", "f2"));
}

TEST(Table, LongNamesLoseTheirMiddle) {
  EXPECT_EQ(shortened("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(shortened("abcdefgh", 7), "abc\u2026fgh");
  EXPECT_EQ(shortened("abcdefgh", 6), "ab\u2026fgh");
  EXPECT_EQ(shortened("\u00e4\u00f6\u00fc\u00df\u00c4\u00d6", 5), "\u00e4\u00f6\u2026\u00c4\u00d6");
  Row r = row();
  r.focus = "/Code/app/" + std::string(100, 'n') + "::last";
  EXPECT_THAT(written("table", {{r}}), HasSubstr("n\u2026n"));
  EXPECT_THAT(written("table", {{r}}), HasSubstr("n::last  "));
  EXPECT_THAT(written("table", {{r}}, {.all = true}), HasSubstr(r.focus));
  EXPECT_THAT(written("csv", {{r}}), HasSubstr(r.focus));
}

TEST(Table, BytesHaveTheUnitThatSuitsThem) {
  Row r = row();
  r.units = "Bytes", r.value = 3'456'789'012, r.delta = 999'999, r.rate = 1.5e6;
  const std::string text = written("table", {{r}});
  EXPECT_THAT(text, HasSubstr("3.457 GB  999,999  1.500 MB  Bytes"));
}

TEST(Formats, ByName) {
  EXPECT_EQ(format_named("", true)->name, "table");
  EXPECT_EQ(format_named("", false)->name, "ndjson");
  for (const Format& format : formats()) EXPECT_EQ(format_named(format.name, true)->make, format.make);
  EXPECT_THAT(format_names("or"), StartsWith("table, ndjson, json, csv"));
  EXPECT_THAT(format_names("or"), EndsWith(fmt::format(" or {}", formats().back().name)));
  const auto none = format_named("xml", true);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text,
              StartsWith("there is no output format `xml`; there are table, ndjson, json"));
  EXPECT_EQ(none.error().status, Status::usage);
}

TEST(Output, ASampleArrivesAtOnce) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  Sink sink(ends[1], "pipe", true);
  const auto writer = writer_of("ndjson", sink);
  ASSERT_TRUE(writer->begin());
  Points points;
  ASSERT_TRUE(writer->sample(points.of({row(), row()}), false));
  char buffer[65536];
  const ssize_t got = read(ends[0], buffer, sizeof buffer);
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::count(buffer, buffer + got, '\n'), 2);
  close(ends[0]);
}

TEST(Output, AFullPipeIsWaitedFor) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const std::string large(1 << 20, 'x');
  size_t received = 0;
  std::thread reader([&] {
    char buffer[8192];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) received += static_cast<size_t>(got);
  });
  Sink sink(ends[1], "pipe", true);
  EXPECT_TRUE(sink.write(large));
  EXPECT_TRUE(sink.close());
  reader.join();
  EXPECT_EQ(received, large.size());
  close(ends[0]);
}

TEST(Output, ErrorsAreReported) {
  const auto old = std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  for (const std::string_view format : {"ndjson", "json", "csv", "table"}) {
    Sink gone(dup(ends[1]), "the pipe", true);
    const auto writer = writer_of(format, gone);
    Points points;
    const auto begun = writer->begin();
    const auto sampled = writer->sample(points.of({row()}), true);
    ASSERT_FALSE(sampled);
    EXPECT_THAT(sampled.error().text, HasSubstr("the pipe: Broken pipe"));
    EXPECT_EQ(static_cast<bool>(begun), format == "ndjson" || format == "table");
  }
  close(ends[1]);
  std::signal(SIGPIPE, old);

  auto full = Sink::open("/dev/full");
  ASSERT_TRUE(full) << full.error().text;
  const auto written = full->write("x");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().text, HasSubstr("/dev/full: No space left on device"));

  const auto nowhere = Sink::open("/nonexistent/directory/file");
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().text, HasSubstr("No such file"));
}

TEST(Output, Files) {
  const std::string path = testing::TempDir() + "mdl-output-test.ndjson";
  std::ofstream(path) << "old content that is longer than what comes";
  auto sink = Sink::open(path);
  ASSERT_TRUE(sink) << sink.error().text;
  EXPECT_FALSE(sink->is_terminal());
  EXPECT_TRUE(sink->write("new\n"));
  EXPECT_TRUE(sink->close());
  EXPECT_TRUE(sink->close());
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  EXPECT_EQ(content.str(), "new\n");
  std::remove(path.c_str());
  auto standard = Sink::open("");
  ASSERT_TRUE(standard);
  EXPECT_TRUE(standard->close());  // does not close the descriptor
  EXPECT_EQ(fcntl(STDOUT_FILENO, F_GETFD) >= 0, true);
}

// Values 3, 3, 3 and some from 128 up to 129.
Row distribution() {
  Row r = row();
  r.metric = "sizes", r.name = "Sizes", r.units = "bytes", r.value = 137, r.delta = 137;
  r.observed = {137, {{3, 3}, {128, 1}}};
  return r;
}

TEST(Distributions, Ndjson) {
  EXPECT_EQ(written("ndjson", {{distribution()}}),
            R"({"time_ns":1700000000000000001,"elapsed_s":1.0,"pid":42,"metric":"sizes",)"
            R"("focus":"/Code/app/work","value":137,"delta":137,"rate":1000.0,"units":"bytes",)"
            R"("refused":0,"final":true,"count":4,"sum":137,"min":3,"max":129,"p50":3,"p90":129,"p99":129,)"
            R"("p999":129,"buckets":[[4,3],[130,1]]})"
            "\n");
}

TEST(Distributions, Table) {
  EXPECT_THAT(written("table", {{distribution()}}),
              HasSubstr("\n         4 values: p50 3, p90 129, p99 129, p999 129, max 129\n"));
  Row r = distribution();
  r.units = "ns";
  EXPECT_THAT(written("table", {{r}}), HasSubstr("p50 3 ns, p90 129 ns"));
}

// The bounds are the same in each sample, whatever was observed: a power of two each.
TEST(Distributions, Prometheus) {
  const std::string labels = "{pid=\"42\",focus=\"/Code/app/work\",object=\"app\",function=\"work\"";
  std::string expected = "# HELP mdl_sizes_bytes Sizes (bytes)\n# TYPE mdl_sizes_bytes histogram\n";
  for (int power = 0; power < 48; power++)
    expected += "mdl_sizes_bytes_bucket" + labels + ",le=\"" + std::to_string((int64_t{1} << power) - 1) +
                "\"} " +
                (power < 2   ? "0"
                 : power < 8 ? "3"
                             : "4") +
                "\n";
  expected += "mdl_sizes_bytes_bucket" + labels + ",le=\"+Inf\"} 4\n" + "mdl_sizes_bytes_sum" + labels +
              "} 137\n" + "mdl_sizes_bytes_count" + labels + "} 4\n";
  EXPECT_EQ(written("prometheus", {{distribution()}}), expected);
}

TEST(Influx, IsALineAPoint) {
  Row other = row();
  other.metric = "$calls, all=1", other.focus = "", other.rate.reset(), other.complete = false;
  EXPECT_EQ(written("influx", {{row(), other}, {distribution()}}),
            "procedure_calls,pid=42,focus=/Code/app/work value=1234567i,delta=1000i,rate=999.99951 "
            "1700000000000000001\n"
            "$calls\\,\\ all\\=1,pid=42 value=1234567i,delta=1000i,complete=false 1700000000000000001\n"
            "sizes,pid=42,focus=/Code/app/work value=137i,delta=137i,rate=999.99951,count=4i,p50=3i,p90=129i,"
            "p99=129i,p999=129i 1700000000000000001\n");
}

// A tag without a value makes the line no line.
TEST(Influx, TheEmptyTextAsAKeyHasNoTag) {
  Row empty = row(), both = row();
  empty.focus = both.focus = "", empty.key = {""}, both.key = {"", "main+0x2f"};
  EXPECT_THAT(written("influx", {{empty, both}}),
              AllOf(StartsWith("procedure_calls,pid=42 value="),
                    HasSubstr("\nprocedure_calls,pid=42,key=\\,\\ main+0x2f value=")));
  EXPECT_THAT(written("csv", {{empty, both}}), AllOf(HasSubstr(",\r\n"), HasSubstr(",\", main+0x2f\"\r\n")));
}

// The format holds a metric's name once and a series once, without times: the latest values, at the end.
TEST(Prometheus, APipeGetsTheLastSample) {
  Row first = row(), other = row(), again = row(), level = row();
  other.metric = "$io_wait", other.name = "Wait \\ \"I/O\"", other.units = "ns", other.focus = "";
  again.focus = "/Code/app/f(char\n\"x\")";
  level.metric = "deepest", level.name = "Depth", level.level = true;
  Row later = first, same = other;
  later.value = 1234568;
  same.metric = "_io_wait", same.value = 8;
  EXPECT_EQ(written("prometheus", {{first, other, again, level}, {later, same}}),
            "# HELP mdl_procedure_calls_total Procedure calls (Calls)\n"
            "# TYPE mdl_procedure_calls_total counter\n"
            "mdl_procedure_calls_total{pid=\"42\",focus=\"/Code/app/work\",object=\"app\",function=\"work\"} "
            "1234568\n"
            "mdl_procedure_calls_total{pid=\"42\",focus=\"/Code/app/"
            "f(char?\\\"x\\\")\",object=\"app\",function=\"f(char?\\\"x\\\")\"} 1234567\n"
            "# HELP mdl_io_wait_seconds_total Wait \\\\ \"I/O\" (seconds)\n"
            "# TYPE mdl_io_wait_seconds_total counter\n"
            "mdl_io_wait_seconds_total{pid=\"42\",focus=\"\"} 0.001234567\n"
            "# HELP mdl_deepest Depth (Calls)\n"
            "# TYPE mdl_deepest gauge\n"
            "mdl_deepest{pid=\"42\",focus=\"/Code/app/work\",object=\"app\",function=\"work\"} 1234567\n"
            "# HELP mdl__io_wait_seconds_total Wait \\\\ \"I/O\" (seconds)\n"
            "# TYPE mdl__io_wait_seconds_total counter\n"
            "mdl__io_wait_seconds_total{pid=\"42\",focus=\"\"} 0.000000008\n");
}

TEST(Prometheus, AFileAlwaysHoldsOneSample) {
  const std::string folder = testing::TempDir() + "mdl-prometheus", path = folder + "/mdl.prom";
  std::filesystem::create_directory(folder);
  std::ofstream(path) << "old";
  std::filesystem::permissions(path, std::filesystem::perms(0640));
  const auto held = [&] {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  auto sink = Sink::open(path);
  ASSERT_TRUE(sink);
  const auto writer = writer_of("prometheus", *sink);
  Points points;
  for (const int64_t value : {1, 22, 333}) {
    Row r = row();
    r.value = value;
    ASSERT_TRUE(writer->sample(points.of({r}), false));
    EXPECT_EQ(held(), fmt::format("# HELP mdl_procedure_calls_total Procedure calls (Calls)\n"
                                  "# TYPE mdl_procedure_calls_total counter\n"
                                  "mdl_procedure_calls_total{{pid=\"42\",focus=\"/Code/app/"
                                  "work\",object=\"app\",function=\"work\"}} {}\n",
                                  value));
  }
  EXPECT_TRUE(writer->end());
  EXPECT_TRUE(sink->close());
  EXPECT_THAT(held(), HasSubstr(" 333\n"));
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0640));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

// Words, units and labels as promtool wants them (output_test.py has its rules).
TEST(Prometheus, NamesAndUnits) {
  const auto page = [](const std::string& metric, const std::string& units, int64_t value,
                       const std::string& focus = "", bool level = false) {
    Row r = row();
    r.metric = metric, r.units = units, r.value = value, r.focus = focus, r.level = level;
    const std::string text = written("prometheus", {{r}});
    return text.substr(text.rfind('\n', text.size() - 2) + 1);
  };
  const std::string whole = "{pid=\"42\",focus=\"\"} ";
  EXPECT_EQ(page("count malloc if $arg[0] > 4096", "Calls", 3),
            "mdl_count_malloc_if_arg_0_4096_total" + whole + "3\n");
  EXPECT_EQ(page("lookupKeyRead", "Calls", 3), "mdl_lookup_key_read_total" + whole + "3\n");
  EXPECT_EQ(page("wait_ns", "ns", -1500), "mdl_wait_seconds_total" + whole + "-0.0000015\n");
  EXPECT_EQ(page("wait", "ns", 2'000'000'000), "mdl_wait_seconds_total" + whole + "2\n");
  EXPECT_EQ(page("cost", "Picoseconds", 70), "mdl_cost_seconds_total" + whole + "0.00000000007\n");
  EXPECT_EQ(page("written", "Bytes", 10), "mdl_written_bytes_total" + whole + "10\n");
  EXPECT_EQ(page("io_bytes_read", "Bytes", 10), "mdl_io_bytes_read_total" + whole + "10\n");
  EXPECT_EQ(page("t_s", "Calls", 1), "mdl_ts_total" + whole + "1\n");
  EXPECT_EQ(page("t_b_gauge", "Calls", 1), "mdl_tbgauge_total" + whole + "1\n");
  EXPECT_EQ(page("lines_count", "Lines", 1, "", true), "mdl_linescount" + whole + "1\n");
  EXPECT_EQ(page("inject_suspect", "Lines", 1, "", true), "mdl__inject_suspect" + whole + "1\n");
  EXPECT_EQ(page("calls", "Calls", 1, "/Code/app/f(int, int),/Thread/7"),
            "mdl_calls_total{pid=\"42\",focus=\"/Code/app/f(int, int),/Thread/7\",object=\"app\","
            "function=\"f(int, int)\",thread=\"7\"} 1\n");
  EXPECT_EQ(page("calls", "Calls", 1, "/Code/app"),
            "mdl_calls_total{pid=\"42\",focus=\"/Code/app\",object=\"app\"} 1\n");
}

// A maximum has none; nor has a first sample.
TEST(Output, ARateThatMeansNothingIsLeftOut) {
  Row r = row();
  r.rate.reset();
  const auto line = nlohmann::json::parse(written("ndjson", {{r}}));
  ASSERT_TRUE(line.contains("rate"));
  EXPECT_TRUE(line["rate"].is_null());
  EXPECT_THAT(written("csv", {{r}}), HasSubstr(",1234567,1000,,Calls,"));
  EXPECT_THAT(written("table", {{r}}), HasSubstr("1,234,567  1,000          Calls"));
}

TEST(Table, TimesHaveTheUnitThatSuitsThem) {
  Row time = row();
  time.units = "ns", time.value = 1'234'567'890, time.delta = 98'765, time.rate = 12;
  const std::string text = written("table", {{time}});
  EXPECT_THAT(text, HasSubstr("1.235 s"));
  EXPECT_THAT(text, HasSubstr("98.765 us"));
  EXPECT_THAT(text, HasSubstr("12 ns"));
}

}  // namespace
}  // namespace mdl::output
