// The open tables of a plan: kinds of points and of cells, and how threads fold.
// A new kind is a new line here; the compiler, the plan and the injector read the same table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace mdl::format {

// Points: where code can go. `args`: $arg is meaningful; `result`: $return is.
//          enumerator    name             args   result
#define MDL_POINT_KINDS(X)            \
  X(entry, "entry", true, false)      \
  X(return_, "return", false, true)   \
  X(call_before, "call", true, false) \
  X(call_after, "call_after", false, true)

enum class PointKind : uint8_t {
#define X(id, name, args, result) id,
  MDL_POINT_KINDS(X)
#undef X
};

struct PointKindInfo {
  std::string_view name;
  bool args;
  bool result;
};

// Cells: per-thread values. `size` in bytes. A flag is a counter that guards test and that never
// goes below zero; the injector keeps in its second word where the outermost frame that raised it lies.
//          enumerator  name       size
#define MDL_CELL_KINDS(X)  \
  X(counter, "counter", 8) \
  X(flag, "flag", 16)

enum class CellKind : uint8_t {
#define X(id, name, size) id,
  MDL_CELL_KINDS(X)
#undef X
};

struct CellKindInfo {
  std::string_view name;
  uint32_t size;
};

// How the threads of a process, and the processes of a run, combine.
enum class Aggregate : uint8_t { sum, min, max, avg };

const PointKindInfo& info(PointKind);
const CellKindInfo& info(CellKind);
std::string_view name(Aggregate);

std::optional<PointKind> point_kind(std::string_view name);
std::optional<CellKind> cell_kind(std::string_view name);
std::optional<Aggregate> aggregate(std::string_view name);

}  // namespace mdl::format
