// A request is a metric at a focus; binding it to a process yields what code goes where.
//
// bind() evaluates placement trees against an image: names to functions, conditions to
// decisions, cells to slots of the thread block. Its result is target independent and
// deterministic: snippets at points, in the order in which they must run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/image/image.h"
#include "runtime/plan/plan.h"

namespace mdl::focus {

// One resource per hierarchy: {"Code","redis-server","call"} is /Code/redis-server/call.
struct Focus {
  std::vector<std::vector<std::string>> resources;
  std::string text;  // canonical: "" for the whole program, else resources joined by ','
};

Result<Focus> parse_focus(const std::string& text);

struct RequestText {  // METRIC[@FOCUS] as typed
  std::string metric;
  std::string focus;
};
RequestText split_request(const std::string& text);

// A cell of the thread block. Cells are shared where they mean the same: one flag per
// (constraint, resource), one value per (metric, focus).
using CellId = uint32_t;

struct CellSlot {
  format::CellKind kind = format::CellKind::counter;
  std::string label;  // for --status and --explain: "procedure_calls@/Code/app/work", "procedure@..."
};

// One stencil at one point, with what its holes refer to.
struct BoundSnippet {
  uint32_t stencil = 0;              // index into Plan::stencils
  std::vector<CellId> cells;         // for StencilInfo::cells
  std::vector<CellId> guards;        // flags that must all be non-zero
  std::vector<int64_t> constants;    // for StencilInfo::constants
  std::vector<uint32_t> requests;    // indices of the requests that need it
};

struct BoundPoint {
  const image::Object* object = nullptr;
  const image::Function* function = nullptr;
  format::PointKind kind = format::PointKind::entry;  // entry, or return_ = all exits
  std::vector<BoundSnippet> snippets;  // in execution order
};

// Entry and return of `function` must both be patched or neither (decision 6), because
// `flag` is raised at one and lowered at the other; and threads that are inside the
// function when it is patched start with the flag raised once per active frame.
struct Balance {
  const image::Function* function = nullptr;
  CellId flag = 0;
  std::vector<uint32_t> requests;
};

struct BoundRequest {
  std::string metric;   // identifier
  std::string focus;    // canonical text
  const format::Metric* definition = nullptr;
  CellId value = 0;     // the base's cell
  std::vector<std::string> missing;  // listed names that the process does not have (--explain)
};

struct Binding {
  std::vector<CellSlot> cells;
  std::vector<BoundRequest> requests;
  std::vector<BoundPoint> points;    // at most one per (function, kind)
  std::vector<Balance> balances;
};

struct BindOptions {
  std::vector<std::string> metrics;  // METRIC[@FOCUS]; empty: every metric the process can have
  std::vector<std::string> foci;     // for metrics that name none; empty: the whole program
  std::string flavor;                // "" = unix
};

// Errors: unknown metric (with a did-you-mean), a focus that is no path, a resource that
// the process does not have (did-you-mean), a hierarchy that the metric has no constraint
// for (names the constraint path that is missing). The result points into plan and image.
Result<Binding> bind(const plan::Plan& plan, const image::Image& image, const BindOptions& options);

}  // namespace mdl::focus
