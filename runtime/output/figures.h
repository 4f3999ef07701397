// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/output/series.h"

namespace mdl::output {

std::string grouped(int64_t value);  // 1234567 as 1,234,567
bool is_time(const Series& series);

// All digits that fit a column: 1.234 ms, 3.456 GB, 1,234,567.
std::string value_text(const Series& series, int64_t value);
std::string rate_text(const Point& point);   // "" where it has none
std::string total_text(const Point& point);  // a mean with its fraction

// Three digits: 1.23 ms, 3.46 GB; numbers that are no time and no size whole, up to a billion.
std::string brief(const Series& series, double value);
std::string brief_rate(const Series& series, double rate);
std::string brief_count(double value);

bool is_zero(const Point& point);  // nothing was counted or observed

// Whether there are any but those that hold for all.
bool has_notes(const Point& point);
// `first`: of its process in this sample, where what holds for all of it is said.
std::string notes(const Point& point, bool first, bool final);

}  // namespace mdl::output
