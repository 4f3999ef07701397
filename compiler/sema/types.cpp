#include "compiler/sema/types.h"

#include <iterator>

#include "format/manifest_tables.h"

namespace mdl::sema {
namespace {

using format::PointKind;

constexpr Member kMembers[] = {
    // owner, name, type, extension, supported
    {Kind::procedure, "name", {Kind::string}, false, true},
    {Kind::procedure, "entry", {Kind::point, Kind::integer, PointKind::entry}, false, true},
    {Kind::procedure, "return", {Kind::point, Kind::integer, PointKind::return_}, false, true},
    {Kind::procedure, "calls", {Kind::list, Kind::point}, false, false},
    {Kind::procedure, "module", {Kind::module}, true, true},
    {Kind::procedure, "loops", {Kind::list, Kind::point}, true, false},
    {Kind::procedure, "blocks", {Kind::list, Kind::point}, true, false},
    {Kind::module, "name", {Kind::string}, false, true},
    {Kind::module, "funcs", {Kind::list, Kind::procedure}, false, true},
};

// The elements of format::kListTypes.
constexpr Kind kListElements[] = {Kind::procedure, Kind::module, Kind::string, Kind::integer, Kind::floating};
static_assert(std::size(kListElements) == std::size(format::kListTypes));

}  // namespace

std::string_view noun(Kind kind) {
  constexpr std::string_view kNouns[] = {
      "an integer", "a string", "a floating-point number", "a procedure", "a module", "a point", "a list"};
  return kNouns[static_cast<size_t>(kind)];
}

const Member* find_member(Kind owner, std::string_view name) {
  for (const Member& member : kMembers)
    if (member.owner == owner && member.name == name) return &member;
  return nullptr;
}

std::vector<std::string_view> member_names(Kind owner) {
  std::vector<std::string_view> names;
  for (const Member& member : kMembers)
    if (member.owner == owner) names.push_back(member.name);
  return names;
}

std::optional<Kind> list_element(std::string_view name) {
  for (size_t i = 0; i < std::size(kListElements); i++)
    if (format::kListTypes[i] == name) return kListElements[i];
  return std::nullopt;
}

}  // namespace mdl::sema
