#include "compiler/support/foreign_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "format/kinds.h"

namespace mdl {
namespace {

struct Row {
  std::string_view word, instead;
};

constexpr std::string_view kSizes =
    "`hist VALUE at F` counts how often VALUE has which size; `latency F` how long the calls take";
constexpr std::string_view kDurations =
    "`latency F` has how long the calls take, with p50, p90, p99 and p999";
constexpr std::string_view kEvents =
    "there is no line for each call: `count F by caller` and `count F by str($arg[0])` add the calls up";
constexpr std::string_view kStacks =
    "stacks are not recorded; `by caller` has a line for each place that F is called from";
constexpr std::string_view kBusiest = "`mdl-inject top PID` finds the busiest functions";
constexpr std::string_view kMeans =
    "`avg VALUE at F` is the mean: `avg elapsed at F`, `avg $arg[0] at malloc`";

constexpr std::string_view kLeaks =
    "blocks are not followed; `sum $arg[0] at malloc by caller` and `count free by site($arg[0])` have who "
    "allocates, and what of it is freed";

constexpr std::string_view kRates = "each line has its rate per second: `count F`";

constexpr Row kVerbs[] = {
    {"rate", kRates},        {"freq", kRates},           {"throughput", kRates},   {"histogram", kSizes},
    {"lhist", kSizes},       {"quantize", kSizes},       {"p50", kDurations},      {"p90", kDurations},
    {"p99", kDurations},     {"percentile", kDurations}, {"duration", kDurations}, {"trace", kEvents},
    {"print", kEvents},      {"printf", kEvents},        {"probe", kEvents},       {"break", kEvents},
    {"stack", kStacks},      {"backtrace", kStacks},     {"profile", kBusiest},    {"record", kBusiest},
    {"sample", kBusiest},    {"mean", kMeans},           {"average", kMeans},      {"slow", kDurations},
    {"slowest", kDurations}, {"leak", kLeaks},           {"leaks", kLeaks},        {"memory", kLeaks},
};

constexpr std::string_view kIf = "a condition begins with 'if': `count F if $arg[0] > 1`";
constexpr std::string_view kJoined = "conditions are joined with && and ||";
constexpr std::string_view kWithin = "`within G` is only while G runs: `count malloc within parse`";
constexpr std::string_view kBy = "lines are told apart with 'by': `count F by caller`";
constexpr std::string_view kRate = "each line has its rate per second; lines are told apart with 'by'";
constexpr std::string_view kTop = "an option says how many lines the table shows: --top 10";
constexpr std::string_view kSort = "an option says what the table's lines are sorted by: --sort rate";
constexpr std::string_view kAt = "a value is taken 'at' a function: `sum $arg[0] at malloc`";

constexpr std::string_view kEvery = "an option says how much time is between lines: -i 5s";

constexpr Row kClauses[] = {
    {"where", kIf},      {"when", kIf},
    {"filter", kIf},     {"with", kIf},
    {"and", kJoined},    {"or", kJoined},
    {"in", kWithin},     {"under", kWithin},
    {"inside", kWithin}, {"during", kWithin},
    {"from", kWithin},   {"group", kBy},
    {"per", kRate},      {"limit", kTop},
    {"top", kTop},       {"order", kSort},
    {"sort", kSort},     {"of", kAt},
    {"for", kAt},        {"every", kEvery},
    {"each", kEvery},    {";", "each query is a word of its own: 'count malloc' 'count free'"},
};

constexpr std::string_view kResult = "the result of a call is `$return`: `int($return) < 0`";
constexpr std::string_view kThread = "`by thread` has a line for each thread in a query, and `$thread` is its id";
constexpr std::string_view kProcess =
    "each process has lines of its own: `-p NAME --every` measures all of a name, --all-children those below "
    "one";
constexpr std::string_view kFunction = "the function that was called is `by function`";
constexpr std::string_view kNow = "the time of a hit is `$now`, in nanoseconds";
constexpr std::string_view kElapsed =
    "how long a call took is `elapsed`, in nanoseconds: `if elapsed > 1000000`";
constexpr std::string_view kPath =
    "the file of a descriptor is `file($arg[0])`, the text at an address `str($arg[0])`, and a parameter "
    "`$args.path`";

constexpr std::string_view kArguments =
    "an argument is `$args.NAME` where debug information has it, or `$arg[0]`";
constexpr std::string_view kFailed =
    "a call of most functions of C has failed `if int($return) < 0`; `by errno` says why";
constexpr std::string_view kBytes =
    "`bytes by file` has what is read and written; what one call returns is `$return`";

constexpr Row kValues[] = {
    {"retval", kResult},    {"ret", kResult},       {"rc", kResult},        {"result", kResult},
    {"tid", kThread},       {"thread_id", kThread}, {"pid", kProcess},      {"process", kProcess},
    {"comm", kProcess},     {"stack", kStacks},     {"ustack", kStacks},    {"kstack", kStacks},
    {"backtrace", kStacks}, {"func", kFunction},    {"probe", kFunction},   {"nsecs", kNow},
    {"timestamp", kNow},    {"now", kNow},          {"duration", kElapsed}, {"latency", kElapsed},
    {"lat", kElapsed},      {"dur", kElapsed},      {"runtime", kElapsed},  {"filename", kPath},
    {"path", kPath},        {"args", kArguments},   {"failed", kFailed},    {"error", kFailed},
    {"err", kFailed},       {"errors", kFailed},    {"bytes", kBytes},      {"retcode", kResult},
};

constexpr std::string_view kSymbol = "the function or variable at an address is `symbol(VALUE)`";
constexpr std::string_view kText = "the text at an address is `str(VALUE)`";
constexpr std::string_view kPeer = "the peer of a socket is `socket(VALUE)`, of its descriptor";
constexpr std::string_view kSite = "the place that allocated a block of the heap is `site(VALUE)`";

constexpr Row kKeys[] = {
    {"sym", kSymbol}, {"usym", kSymbol},  {"ksym", kSymbol},    {"addr", kSymbol}, {"string", kText},
    {"text", kText},  {"ustring", kText}, {"copyinstr", kText}, {"ntop", kPeer},   {"peer", kPeer},
    {"ip", kPeer},    {"heap", kSite},    {"block", kSite},     {"alloc", kSite},  {"allocator", kSite},
};

template <size_t N>
std::string find(const Row (&rows)[N], std::string_view word) {
  const auto row = std::ranges::find(rows, word, &Row::word);
  return row == std::end(rows) ? "" : std::string(row->instead);
}

struct Unit {
  std::string_view name;
  double size;
  bool is_time;
};
constexpr Unit kUnits[] = {
    {"ns", 1, true},           {"us", 1e3, true},          {"ms", 1e6, true},        {"s", 1e9, true},
    {"k", 1024, false},        {"K", 1024, false},         {"kb", 1024, false},      {"KB", 1024, false},
    {"KiB", 1024, false},      {"m", 1048576, false},      {"M", 1048576, false},    {"mb", 1048576, false},
    {"MB", 1048576, false},    {"MiB", 1048576, false},    {"g", 1073741824, false}, {"G", 1073741824, false},
    {"GB", 1073741824, false}, {"GiB", 1073741824, false},
};

}  // namespace

std::string foreign_verb(std::string_view word) {
  return find(kVerbs, word);
}

std::string foreign_clause(std::string_view word) {
  return find(kClauses, word);
}

std::string foreign_key(std::string_view word) {
  return find(kKeys, word);
}

std::string foreign_value(std::string_view word) {
  if (word.starts_with('$')) word.remove_prefix(1);
  std::string_view digits = word;
  if (digits.starts_with("arg")) digits.remove_prefix(3);
  if (digits.size() == 1 && digits[0] >= '0' && digits[0] <= '5')
    return fmt::format("the arguments are `$arg[0]` to `$arg[5]`, and by name `$args.NAME`: `$arg[{}]`",
                       digits);
  if (const auto key = format::key_call(word);
      key && *key != format::KeyName::path && *key != format::KeyName::module)
    return fmt::format("`{0}` is of a value: `by {0}($arg[0])`", word);
  return find(kValues, word);
}

std::string option_of_time(std::string_view word, std::string_view time) {
  constexpr Row kOptions[] = {{"every", "-i"}, {"each", "-i"}, {"for", "-d"}, {"during", "-d"}, {"in", "-d"}};
  const std::string option = find(kOptions, word);
  return option.empty() ? "" : fmt::format("an option says that, behind the query: {} {}", option, time);
}

std::optional<PlainNumber> plain_number(std::string_view number) {
  constexpr double kLargest = 9e18;
  double value = 0;
  const char* end = number.data() + number.size();
  const auto [behind, problem] = std::from_chars(number.data(), end, value);
  if (problem != std::errc() || value < 0) return std::nullopt;
  const std::string_view name(behind, static_cast<size_t>(end - behind));
  const auto* const unit = std::ranges::find(kUnits, name, &Unit::name);
  const bool has_unit = unit != std::end(kUnits);
  if (has_unit) value *= unit->size;
  if ((!has_unit && !name.empty()) || value > kLargest) return std::nullopt;
  return PlainNumber{.value = static_cast<uint64_t>(std::llround(value)),
                     .has_unit = has_unit,
                     .is_time = has_unit && unit->is_time};
}

bool is_unit_of_time(std::string_view word) {
  return std::ranges::any_of(kUnits, [&](const Unit& unit) { return unit.is_time && unit.name == word; });
}

std::string without_unit(std::string_view number) {
  const auto plain = plain_number(number);
  if (!plain) return "";
  if (!plain->has_unit) return fmt::format("numbers are whole: write {}", plain->value);  // 1e6
  return fmt::format("numbers have no units{}: write {}", plain->is_time ? ", and times are nanoseconds" : "",
                     plain->value);
}

}  // namespace mdl
