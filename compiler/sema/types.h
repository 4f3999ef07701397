// The types of the binding-time language, and what their values have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/kinds.h"

namespace mdl::sema {

enum class Kind : uint8_t { integer, string, floating, procedure, module, loop, point, list };

struct Type {
  Kind kind = Kind::integer;
  Kind element = Kind::integer;                        // list
  format::PointKind point = format::PointKind::entry;  // point, list of points; a call is call_before
};

// For messages: "an integer", "a procedure"; "a counter", "a wallTimer"; "an entry", "a call".
std::string_view noun(Kind kind);
std::string noun(format::CellKind kind);
std::string_view noun(format::PointKind kind);

// A member of a procedure, a module or a loop: `f.entry`.
struct Member {
  Kind owner;
  std::string_view name;
  Type type;
  bool extension;
};
const Member* find_member(Kind owner, std::string_view name);
std::vector<std::string_view> member_names(Kind owner, bool with_extensions = true);

// A floating-point number as a plan has it, in lists and expressions: equal ones have one text.
std::optional<std::string> shortest_float(std::string_view text);

// The element of a resource list by its type's name, one of format::kListTypes.
std::optional<Kind> list_element(std::string_view name);

}  // namespace mdl::sema
