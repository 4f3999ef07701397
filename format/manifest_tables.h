// The manifest's words: what the writer spells and the reader admits, each table once.
// Private to format/: manifest_writer.cpp and manifest_reader.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "format/manifest.h"

namespace mdl::format {

// The parts that each kind of expression carries. Rows are in the order of ExprKind.
struct ExprShape {
  std::string_view name;
  bool text;
  bool number;
  uint8_t operands;
};

inline constexpr ExprShape kExprShapes[] = {
    {"string", true, false, 0},      {"integer", false, true, 0},  {"list", true, false, 0},
    {"procedures", false, false, 0}, {"modules", false, false, 0}, {"machine", false, false, 0},
    {"start", false, false, 0},      {"exit", false, false, 0},    {"global_id", false, false, 0},
    {"points", false, false, 0},     {"cost", false, false, 0},    {"variable", true, false, 0},
    {"selected", false, true, 0},    {"field", true, false, 1},    {"binary", true, false, 2},
    {"unary", true, false, 1},       {"parameter", true, true, 1}, {"value_type", true, true, 1},
};
static_assert(std::size(kExprShapes) == static_cast<size_t>(ExprKind::value_type) + 1);

inline const ExprShape& shape(ExprKind kind) {
  return kExprShapes[static_cast<size_t>(kind)];
}

inline constexpr std::string_view kPlacementKinds[] = {"block", "foreach", "if", "insert"};
inline constexpr std::string_view kOrders[] = {"append", "prepend"};
inline constexpr std::string_view kWhens[] = {"pre", "post"};
inline constexpr std::string_view kListTypes[] = {"procedure", "module", "string", "int", "float"};
inline constexpr std::string_view kUnitsTypes[] = {"normalized", "unnormalized", "sampled"};
inline constexpr std::string_view kStyles[] = {"EventCounter", "SampledFunction"};
inline constexpr std::string_view kModes[] = {"developer", "normal"};
inline constexpr std::string_view kSymbolKinds[] = {"variable", "function"};
inline constexpr std::string_view kOtherFields[] = {"name", "module", "loops", "funcs"};  // of no point kind
inline constexpr std::string_view kBinaryOperators[] = {"==", "!=", "<", "<=", ">", ">=", "&&", "||", "+",
                                                        "-",  "*",  "/", "%",  "&", "|",  "^",  "<<", ">>"};
inline constexpr std::string_view kRegisterValues[] = {"$arg[0]", "$arg[1]", "$arg[2]", "$arg[3]",
                                                       "$arg[4]", "$arg[5]", "$return"};
inline constexpr std::string_view kUnaryOperators[] = {"-", "!", "~"};

// Placement trees and expressions nest at most this deep, so that readers may recurse.
inline constexpr uint32_t kMaxDepth = 64;
inline constexpr size_t kMaxCells = 4096;  // of one metric, constraint or stencil

// $constraint[n]: a path has few components.
inline constexpr int64_t kMaxSelected = 15;

}  // namespace mdl::format
