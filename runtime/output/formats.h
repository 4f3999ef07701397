// The formats that --format may name: consumers of points that write them for people (table) or programs (the
// others). The contract of an ndjson line, which scripts rely on, is in docs/architecture.md.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/output/series.h"
#include "runtime/output/sink.h"

namespace mdl {
class Keys;
}

namespace mdl::output {

// What a key asks for about a line of the table, and when it asks again takes back.
struct Drill {
  enum class Kind : uint8_t { callees, callers, threads };
  Kind kind = Kind::callees;
  std::string metric, focus;  // the line's; without the metric where only the focus' function matters
  auto operator<=>(const Drill&) const = default;
};

// How people are shown values; the formats for programs have all of them, as they come.
struct Look {
  bool colour = false;
  bool all = false;       // also lines with 0 and those beyond `top`, and names whole
  size_t top = 0;         // lines of each metric; 0: kRowsOfAMetric
  std::string sort = {};  // one of kOrders; "": total, and the rate in place
  pid_t process = 0;      // that which was named, where it is one: lines of others have their id
  bool in_place = false;  // the table is drawn on a terminal, over itself
  Keys* keys = nullptr;   // of that terminal, where it has some
  // Asks; none: nothing can be asked. Where it can, each sample has all lines that there are.
  std::function<void(Drill)> drill = {};
};
inline constexpr size_t kFewRows =
    4;  // of a metric: they are all shown, in the order in which they were asked for
inline constexpr size_t kRowsOfAMetric = 20;
inline constexpr std::string_view kOrders[] = {"total", "rate", "delta", "name"};

struct Format {
  std::string_view name;
  std::unique_ptr<Consumer> (*make)(Sink& sink, const Look& look);  // the sink must outlive the consumer
};
std::span<const Format> formats();

// By name as on the command line; "" is a table on a terminal, else ndjson.
Result<Format> format_named(std::string_view name, bool terminal);
// "a, b or c", where `last` is "or".
std::string format_names(std::string_view last);

#define MDL_OUTPUT_FORMAT(name) std::unique_ptr<Consumer> make_##name(Sink& sink, const Look& look);
#include "runtime/output/formats.def"
#undef MDL_OUTPUT_FORMAT

}  // namespace mdl::output
