#include "compiler/sema/hierarchy.h"

#include <fmt/format.h>

#include "compiler/support/suggest.h"

namespace mdl::sema {
namespace {

struct Hierarchy {
  std::string_view name;
  std::string_view shape;
  size_t depth;
  Kind components[2];
};

constexpr Hierarchy kHierarchies[] = {
    {"Code", "/Code/<module>/<function>", 2, {Kind::module, Kind::procedure}},
    {"Machine", "/Machine/<host>", 1, {Kind::string}},
    {"Process", "/Process/<pid>", 1, {Kind::integer}},
    {"Thread", "/Thread/<tid>", 1, {Kind::integer}},
    {"SyncObject", "/SyncObject/<kind>/<instance>", 2, {Kind::string, Kind::string}},
    {"Message", "/Message/<tag>", 1, {Kind::integer}},
    {"File", "/File/<name>", 1, {Kind::string}},
    {"Memory", "/Memory/<block>", 1, {Kind::integer}},
};

const Hierarchy* find(std::string_view name) {
  for (const Hierarchy& h : kHierarchies)
    if (h.name == name) return &h;
  return nullptr;
}

}  // namespace

std::optional<std::vector<Kind>> path_types(const ast::Path& path, bool is_default) {
  const Hierarchy* h = find(path.parts[0].text);
  size_t depth = path.parts.size() - 1;
  if (h == nullptr || depth > h->depth || (depth == 0 && !is_default)) return std::nullopt;
  std::vector<Kind> types(h->components, h->components + depth);
  if (h->name == "Message") types.insert(types.begin(), Kind::string);
  // The instances of one kind of synchronization object have its type: a message's is its tag.
  if (h->name == "SyncObject" && depth == 2 && path.parts[1].text == "Message") types[1] = Kind::integer;
  return types;
}

std::vector<std::string> path_parts(const ast::Path& path) {
  std::vector<std::string> parts;
  if (path.parts[0].text == "Message") parts.emplace_back("SyncObject");
  for (const ast::Name& part : path.parts) parts.push_back(part.text);
  return parts;
}

std::string path_hint(const ast::Path& path) {
  if (const Hierarchy* h = find(path.parts[0].text)) return fmt::format("this hierarchy is {}", h->shape);
  std::vector<std::string_view> names;
  for (const Hierarchy& h : kHierarchies) names.push_back(h.name);
  std::string near = did_you_mean(path.parts[0].text, names);
  return near.empty() ? fmt::format("a path begins with {}", one_of(names)) : near;
}

std::string path_text(const ast::Path& path) {
  std::string text;
  for (const ast::Name& part : path.parts) text += "/" + part.text;
  return text;
}

}  // namespace mdl::sema
