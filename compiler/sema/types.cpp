#include "compiler/sema/types.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

#include "format/manifest_tables.h"

namespace mdl::sema {
namespace {

using format::PointKind;

constexpr Member kMembers[] = {
    // owner, name, type, extension
    {Kind::procedure, "name", {Kind::string}, false},
    {Kind::procedure, "entry", {Kind::point, Kind::integer, PointKind::entry}, false},
    {Kind::procedure, "return", {Kind::point, Kind::integer, PointKind::return_}, false},
    {Kind::procedure, "calls", {Kind::list, Kind::point, PointKind::call_before}, false},
    {Kind::procedure, "module", {Kind::module}, true},
    {Kind::procedure, "loops", {Kind::list, Kind::loop}, true},
    {Kind::procedure, "blocks", {Kind::list, Kind::point, PointKind::block}, true},
    {Kind::module, "name", {Kind::string}, false},
    {Kind::module, "funcs", {Kind::list, Kind::procedure}, false},
    {Kind::loop, "enter", {Kind::point, Kind::integer, PointKind::loop_enter}, true},
    {Kind::loop, "exit", {Kind::point, Kind::integer, PointKind::loop_exit}, true},
    {Kind::loop, "start_iter", {Kind::point, Kind::integer, PointKind::loop_start}, true},
    {Kind::loop, "end_iter", {Kind::point, Kind::integer, PointKind::loop_end}, true},
};

// The elements of format::kListTypes.
constexpr Kind kListElements[] = {Kind::procedure, Kind::module, Kind::string, Kind::integer, Kind::floating};
static_assert(std::size(kListElements) == std::size(format::kListTypes));

}  // namespace

std::string_view noun(Kind kind) {
  constexpr std::string_view kNouns[] = {"an integer",  "a string", "a floating-point number",
                                         "a procedure", "a module", "a loop",
                                         "a point",     "a list"};
  return kNouns[static_cast<size_t>(kind)];
}

std::string noun(format::CellKind kind) {
  const std::string_view type = format::info(kind).type;
  if (type.empty()) return "a counter";  // flags, in code
  return fmt::format("{} {}", type.starts_with("hw") ? "an" : "a", type);
}

std::string_view noun(format::PointKind kind) {
  using enum format::PointKind;
  switch (kind) {
    case entry:
      return "an entry";
    case return_:
      return "a return";
    case call_before:
      return "a call";
    case call_after:
      return "the return from a call";
    case block:
      return "a block";
    case every:
      return "$points";
    default:
      return "a point of a loop";
  }
}

const Member* find_member(Kind owner, std::string_view name) {
  for (const Member& member : kMembers)
    if (member.owner == owner && member.name == name) return &member;
  return nullptr;
}

std::vector<std::string_view> member_names(Kind owner, bool with_extensions) {
  std::vector<std::string_view> names;
  for (const Member& member : kMembers)
    if (member.owner == owner && (with_extensions || !member.extension)) names.push_back(member.name);
  return names;
}

std::optional<std::string> shortest_float(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return fmt::format("{}", value + 0.0);  // -0 is 0
}

std::optional<Kind> list_element(std::string_view name) {
  for (size_t i = 0; i < std::size(kListElements); i++)
    if (format::kListTypes[i] == name) return kListElements[i];
  return std::nullopt;
}

}  // namespace mdl::sema
