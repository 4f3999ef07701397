#include "runtime/output/series.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "runtime/image/for_people.h"

namespace mdl::output {
namespace {

constexpr double kShortest = 0.001;  // seconds: over less than that a rate says nothing

template <typename Step>
Result<void> to_all(const std::vector<std::unique_ptr<Consumer>>& consumers, Step step) {
  Result<void> out;
  for (const auto& consumer : consumers)
    if (Result<void> done = step(*consumer); out) out = std::move(done);
  return out;
}

}  // namespace

const Number& number(const Value& value) {
  if (const auto* observed = std::get_if<Observed>(&value)) return observed->sum;
  if (const auto* summary = std::get_if<Summary>(&value)) return summary->number;
  if (const auto* unknown = std::get_if<Unknown>(&value)) return unknown->number;
  return std::get<Number>(value);
}

std::optional<double> Summary::mean() const {
  if (!sum || count == 0) return std::nullopt;
  return static_cast<double>(*sum) / static_cast<double>(count);
}

bool is_measured(const Value& value) {
  return !std::holds_alternative<Unknown>(value);
}

bool is_known(const Value& value) {
  const auto* summary = std::get_if<Summary>(&value);
  return is_measured(value) && (summary == nullptr || summary->count > 0);
}

std::string number_text(const Value& value) {
  const auto* summary = std::get_if<Summary>(&value);
  if (!is_known(value)) return "";
  return summary && summary->mean() ? fmt::format("{}", *summary->mean())
                                    : fmt::format("{}", number(value).total);
}

std::string key_text(const Series& series) {
  return fmt::format("{}", fmt::join(series.key, ", "));
}

std::string process_text(const Series& series) {
  return series.process == 0 ? "all" : std::to_string(series.process);
}

std::string Places::text(const Series& series) {
  const std::string key = !series.key.empty() && key_text(series).empty() ? "\"\"" : key_text(series);
  std::string focus = image::focus_for_people(series.focus);
  if (focus != series.focus && first_.try_emplace(focus, series.focus).first->second != series.focus)
    focus = image::focus_for_people(series.focus, true);
  if (series.key.empty() || focus.empty()) return focus + key;
  return focus + " [" + key + "]";
}

const Series& Feed::add(Series series) {
  series.id = static_cast<uint32_t>(series_.size());
  totals_.push_back(0);
  return series_.emplace_back(std::move(series));
}

Number Feed::next(const Series& series, int64_t total, std::optional<double> interval_s) {
  const int64_t before = std::exchange(totals_[series.id], total);
  Number out;
  out.total = total;
  out.delta = static_cast<int64_t>(static_cast<uint64_t>(total) - static_cast<uint64_t>(before));
  if (series.kind != Series::Kind::level && interval_s && *interval_s >= kShortest)
    out.rate = static_cast<double>(out.delta) / *interval_s;
  return out;
}

Result<void> Feed::begin() {
  return to_all(consumers_, [](Consumer& one) { return one.begin(); });
}

Result<void> Feed::give(std::span<const Point> points, bool final) {
  return to_all(consumers_, [&](Consumer& one) { return one.sample(points, final); });
}

Result<void> Feed::sample(std::span<const Point> points, bool final) {
  if (!keeps_) return give(points, final);
  kept_.push_back({{points.begin(), points.end()}, final});
  return {};
}

Result<void> Feed::hand_out(std::span<const Point> points) {
  Result<void> out;
  while (!kept_.empty()) {
    const Sample next = std::move(kept_.front());
    kept_.pop_front();
    if (Result<void> done = give(next.points, next.final); out) out = std::move(done);
  }
  if (!points.empty())
    if (Result<void> done = give(points, false); out) out = std::move(done);
  return out;
}

Result<void> Feed::look() {
  return to_all(consumers_, [](Consumer& one) { return one.look(); });
}

Result<void> Feed::end() {
  return to_all(consumers_, [](Consumer& one) { return one.end(); });
}

}  // namespace mdl::output
