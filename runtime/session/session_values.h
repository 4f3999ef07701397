// The places of values in a journal, as the readers of values want them.
#pragma once

#include "runtime/resident/journal.h"
#include "runtime/values/values.h"

namespace mdl::inject {

// One cell per request, in the journal's order.
inline values::BlockLayout block_layout(const resident::Journal& journal) {
  const resident::Layout& layout = journal.layout;
  values::BlockLayout out;
  out.directory = journal.data.start + layout.directory();
  out.slots = layout.slots;
  out.blocks = journal.data.start + layout.blocks();
  out.stride = layout.stride;
  out.overflow_address = journal.data.start + kHeaderOverflow;
  out.confined_address = journal.data.start + kHeaderConfined;
  out.borrowed_address = journal.data.start + kHeaderBorrowed;
  out.ring = journal.data.start + layout.ring();
  out.ring_entries = layout.ended;
  out.ended_address = journal.data.start + kHeaderEnded;
  out.timers = layout.timers, out.calls = layout.calls, out.sums = layout.sums;
  out.cells_end = layout.cells_end;
  out.extremes_end = layout.extremes_end;
  out.anomalies = layout.anomalies, out.anomalies_end = layout.anomalies_end;
  out.ticks_per_second = journal.ticks_per_second;
  out.identified = layout.thread_at != 0;
  out.keeps_hit_time = layout.keeps_hit_time;
  for (const resident::JournalRequest& request : journal.requests) {
    values::CellPlace cell{journal.kinds[request.value], layout.cells[request.value], request.aggregate,
                           request.event};
    if (request.thread != focus::kAllThreads)
      cell.whose = request.thread == focus::kEachThread ? values::Whose::each : values::Whose::one;
    cell.thread = static_cast<uint64_t>(request.thread);
    if (request.of != focus::BoundRequest::kNone) {
      const uint32_t base = journal.requests[request.of].value;
      cell.base = layout.cells[base];
      cell.base_kind = journal.kinds[base];
    }
    out.cells.push_back(cell);
  }
  return out;
}

}  // namespace mdl::inject
