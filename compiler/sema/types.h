// The types of the binding-time language, and what their values have.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "format/kinds.h"

namespace mdl::sema {

enum class Kind : uint8_t { integer, string, floating, procedure, module, point, list };

struct Type {
  Kind kind = Kind::integer;
  Kind element = Kind::integer;                        // list
  format::PointKind point = format::PointKind::entry;  // point
};

// For messages: "an integer", "a procedure".
std::string_view noun(Kind kind);

// A member of a procedure or a module: `f.entry`.
struct Member {
  Kind owner;
  std::string_view name;
  Type type;
  bool extension;
  bool supported;  // else part of the language, but not of this version
};
const Member* find_member(Kind owner, std::string_view name);
std::vector<std::string_view> member_names(Kind owner);

// The element of a resource list by its type's name, one of format::kListTypes.
std::optional<Kind> list_element(std::string_view name);

}  // namespace mdl::sema
