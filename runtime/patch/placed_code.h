// The binding's code, for a session whose data has its place: cells become offsets in a thread's block,
// tables and routines addresses. From this the resident code and the trampolines are made.
#pragma once

#include <map>
#include <vector>

#include "runtime/arch/bytes.h"
#include "runtime/arch/point.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/stage.h"
#include "runtime/patch/tail_calls.h"
#include "runtime/patch/trampoline.h"

namespace mdl::patch {

class PlacedCode {
 public:
  // Only the layout and the places of data and tables are read of the stage, which has them.
  PlacedCode(const InsertInput& input, const Stage& stage);

  arch::Bytes resident_code() const;
  // `resident`: where the resident code lies.
  PointPieces pieces(const FunctionPlan& f, uint64_t resident) const;

 private:
  arch::Track placed(const focus::TrackedCells& track, uint64_t resident) const;
  arch::Keys placed(const FunctionPlan& f, uint32_t table, uint64_t resident) const;
  std::vector<arch::Piece> pieces(const FunctionPlan& f, const FunctionPlan::Point& point,
                                  uint64_t resident) const;
  std::vector<arch::Track> tracks() const;
  std::vector<uint64_t> tables() const;
  // Where anomalies of a snippet are counted.
  int64_t anomalies(const FunctionPlan& f, const focus::BoundSnippet& snippet) const;
  // Whether the function raises and lowers what `change` says.
  bool is_balanced(const FunctionPlan& f, focus::CellId change) const;

  const InsertInput& input_;
  const Stage& stage_;
  std::multimap<const image::Function*, focus::CellId> flags_;  // kept by a function's entry and exits
  std::vector<focus::TrackedCells> tracks_;                     // of the binding, by their flags
  std::map<focus::CellId, size_t> spans_;                       // where among these
  Endings endings_;
};

}  // namespace mdl::patch
