// Messages between two mdl-inject that share a process: whole ones are what they were, others are nothing.
#include "runtime/session/guest_wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

namespace mdl::inject::guest_wire {
namespace {

Request request() {
  Request out;
  out.plan = std::string(
      "\x7f"
      "ELF\0plan",
      9);
  out.ids = {"calls", "count f if $arg[0] == '@'"};
  out.metrics = {"calls@/Code/a/f"};
  out.allow_reads = true;
  out.budget = 12.5;
  out.max_keys = 1 << 21;
  return out;
}

Points points() {
  Points out;
  out.final = true;
  output::Series series;
  series.kind = output::Series::Kind::distribution;
  series.metric = "latency", series.key = {"7", std::string("\xff\0", 2)};
  series.aggregate = std::nullopt;
  out.series.push_back(series);
  output::Point point;
  point.value = output::Observed{{5, 4, 3.25}, {5, {{3, 2}, {format::kHistogramBuckets - 1, 1}}}};
  point.anomalies_of = {{"f", 1, 2}};
  out.points.emplace_back(0u, point);
  point.value = output::Summary{{1, 0, std::nullopt}, 0, 9};
  out.points.emplace_back(0u, point);
  return out;
}

TEST(GuestWire, AMessageIsWhatItWas) {
  const auto same = unpack<Request>(pack(request()));
  ASSERT_TRUE(same);
  EXPECT_EQ(same->plan, request().plan);
  EXPECT_EQ(same->ids, request().ids);
  EXPECT_EQ(same->budget, 12.5);
  EXPECT_TRUE(same->allow_reads);
  EXPECT_FALSE(same->allow_calls);
  const auto values = unpack<Points>(pack(points()));
  ASSERT_TRUE(values);
  EXPECT_EQ(values->series[0].key, points().series[0].key);
  EXPECT_FALSE(values->series[0].aggregate);  // though it has one by itself
  EXPECT_EQ(std::get<output::Observed>(values->points[0].second.value).of.buckets,
            std::get<output::Observed>(points().points[0].second.value).of.buckets);
  EXPECT_EQ(std::get<output::Summary>(values->points[1].second.value).sum, 9);
  EXPECT_EQ(pack(*values), pack(points()));
}

TEST(GuestWire, AnyPartOfAMessageIsNone) {
  for (const std::string& whole : {pack(request()), pack(points())})
    for (size_t size = 0; size < whole.size(); size++) {
      EXPECT_FALSE(unpack<Request>(whole.substr(0, size)));
      EXPECT_FALSE(unpack<Points>(whole.substr(0, size)));
    }
  EXPECT_FALSE(unpack<Request>(pack(request()) + "x"));
}

TEST(GuestWire, WhatCannotBeIsNone) {
  auto wrong = points();
  std::get<output::Observed>(wrong.points[0].second.value).of.buckets[0].index = format::kHistogramBuckets;
  EXPECT_FALSE(unpack<Points>(pack(wrong)));
  wrong = points();
  wrong.series[0].kind = static_cast<output::Series::Kind>(3);
  EXPECT_FALSE(unpack<Points>(pack(wrong)));
  std::string bytes = pack(Farewell{});
  bytes[0] = 2;  // of a boolean
  EXPECT_FALSE(unpack<Farewell>(bytes));
  EXPECT_FALSE(unpack<Points>(std::string("\0\xff\xff\xff\xff", 5)));  // so many series that there are not
}

TEST(GuestWire, AnyBytesAreReadToTheirEnd) {
  std::mt19937 random(1);
  const std::string seeds[] = {pack(request()), pack(points()), pack(Hello{kProtocol, build_id()})};
  for (int turn = 0; turn < 20'000; turn++) {
    std::string bytes = seeds[random() % std::size(seeds)];
    for (unsigned changes = 1 + random() % 4; changes > 0; changes--)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (const auto one = unpack<Points>(bytes)) (void)pack(*one);
    (void)unpack<Request>(bytes), (void)unpack<Hello>(bytes);
  }
}

struct Lines {
  Lines() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    raw = ends[0];
    line.emplace(ends[1], 1000);
  }
  ~Lines() { close(raw); }
  void write(const std::string& bytes) const {
    EXPECT_EQ(::write(raw, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  int raw = -1;
  std::optional<Line> line;
};

std::string head(uint32_t size, Kind kind) {
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + static_cast<char>(kind);
}

TEST(GuestWire, AMessageComesInPieces) {
  Lines lines;
  const std::string first = head(5, Kind::refusal) + "hello", second = head(0, Kind::leave);
  for (const char byte : first) {
    EXPECT_FALSE(lines.line->next());
    lines.write({byte});
    EXPECT_TRUE(lines.line->receive());
  }
  lines.write(second);
  EXPECT_TRUE(lines.line->receive());
  const auto hello = lines.line->next(), leave = lines.line->next();
  ASSERT_TRUE(hello && leave);
  EXPECT_EQ(hello->fields, "hello");
  EXPECT_EQ(leave->kind, Kind::leave);
  EXPECT_FALSE(lines.line->next());
}

TEST(GuestWire, OneThatIsTooLongEndsTheLine) {
  Lines lines;
  lines.write(head(1001, Kind::request));
  EXPECT_TRUE(lines.line->receive());
  EXPECT_FALSE(lines.line->next());
  EXPECT_FALSE(lines.line->receive());
}

TEST(GuestWire, NobodyWaitsForAReader) {
  Lines lines;
  lines.line->send(Kind::points, std::string(size_t{4} << 20, 'x'));
  EXPECT_TRUE(lines.line->flush());
  EXPECT_TRUE(lines.line->has_more_to_send());
  close(lines.raw);
  lines.raw = -1;
  EXPECT_FALSE(lines.line->flush());
  EXPECT_FALSE(lines.line->receive());
}

TEST(GuestWire, ThisProgramHasABuild) {
  EXPECT_FALSE(build_id().empty());
}

}  // namespace
}  // namespace mdl::inject::guest_wire
