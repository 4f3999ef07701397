#include "compiler/sema/types.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

#include "format/manifest_tables.h"

namespace mdl::sema {
namespace {

using format::PointKind;

// Points that the classic language does not have.
bool is_extension(const format::PointKindInfo& point) {
  return point.owner != format::PointOwner::procedure ||
         (point.feature != "entry-return" && point.feature != "calls");
}

void add_points(std::vector<Member>& members, Kind owner, format::PointOwner of, bool extensions) {
  for (size_t i = 0; i < format::kPointKinds; i++) {
    const auto kind = static_cast<PointKind>(i);
    const format::PointKindInfo& point = format::info(kind);
    if (point.owner != of || is_extension(point) != extensions) continue;
    const Type type =
        point.many ? Type{Kind::list, Kind::point, kind} : Type{Kind::point, Kind::integer, kind};
    members.push_back({owner, point.field, type, extensions});
  }
}

// In the order in which hints name them.
std::vector<Member> make_members() {
  std::vector<Member> out = {{Kind::procedure, "name", {Kind::string}, false}};
  add_points(out, Kind::procedure, format::PointOwner::procedure, false);
  out.push_back({Kind::procedure, "module", {Kind::module}, true});
  out.push_back({Kind::procedure, "loops", {Kind::list, Kind::loop}, true});
  add_points(out, Kind::procedure, format::PointOwner::procedure, true);
  out.push_back({Kind::module, "name", {Kind::string}, false});
  out.push_back({Kind::module, "funcs", {Kind::list, Kind::procedure}, false});
  add_points(out, Kind::loop, format::PointOwner::loop, true);
  return out;
}

const std::vector<Member>& members() {
  static const std::vector<Member> all = make_members();
  return all;
}

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
  return fmt::format("{} {}", type.starts_with("hw") || type.starts_with("a") ? "an" : "a", type);
}

std::string_view noun(format::PointKind kind) {
  return format::info(kind).noun;
}

const Member* find_member(Kind owner, std::string_view name) {
  for (const Member& member : members())
    if (member.owner == owner && member.name == name) return &member;
  return nullptr;
}

std::vector<std::string_view> member_names(Kind owner, bool with_extensions) {
  std::vector<std::string_view> names;
  for (const Member& member : members())
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
