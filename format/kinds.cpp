#include "format/kinds.h"

#include <array>
#include <cstddef>

namespace mdl::format {
namespace {

constexpr PointKindInfo kPoints[] = {
#define X(id, name, args, result) {name, args, result},
    MDL_POINT_KINDS(X)
#undef X
};

constexpr CellKindInfo kCells[] = {
#define X(id, name, size) {name, size},
    MDL_CELL_KINDS(X)
#undef X
};

constexpr std::string_view kAggregates[] = {"sum", "min", "max", "avg"};

constexpr std::string_view spelled(const PointKindInfo& row) {
  return row.name;
}
constexpr std::string_view spelled(const CellKindInfo& row) {
  return row.name;
}
constexpr std::string_view spelled(std::string_view row) {
  return row;
}

template <typename Kind, typename Row, size_t N>
std::optional<Kind> find(const Row (&table)[N], std::string_view wanted) {
  for (size_t i = 0; i < N; i++)
    if (spelled(table[i]) == wanted) return static_cast<Kind>(i);
  return std::nullopt;
}

}  // namespace

const PointKindInfo& info(PointKind kind) {
  return kPoints[static_cast<size_t>(kind)];
}
const CellKindInfo& info(CellKind kind) {
  return kCells[static_cast<size_t>(kind)];
}
std::string_view name(Aggregate value) {
  return kAggregates[static_cast<size_t>(value)];
}

std::optional<PointKind> point_kind(std::string_view wanted) {
  return find<PointKind>(kPoints, wanted);
}
std::optional<CellKind> cell_kind(std::string_view wanted) {
  return find<CellKind>(kCells, wanted);
}
std::optional<Aggregate> aggregate(std::string_view wanted) {
  return find<Aggregate>(kAggregates, wanted);
}

}  // namespace mdl::format
