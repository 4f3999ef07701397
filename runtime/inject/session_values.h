// What a journal says of where values are, as the readers of values want it.
#pragma once

#include "runtime/patch/journal.h"
#include "runtime/values/values.h"

namespace mdl::inject {

// One cell per request, in the journal's order.
inline values::BlockLayout block_layout(const patch::Journal& journal) {
  values::BlockLayout out;
  out.directory = journal.data.start + journal.layout.directory();
  out.slots = journal.layout.slots;
  out.blocks = journal.data.start + journal.layout.blocks();
  out.stride = journal.layout.stride;
  out.overflow_address = journal.data.start + patch::kHeaderOverflow;
  for (const patch::JournalRequest& request : journal.requests) {
    const bool child = request.of != focus::BoundRequest::kNone;
    out.cells.push_back({journal.kinds[request.value], journal.layout.cells[request.value], request.aggregate,
                         child ? journal.layout.cells[journal.requests[request.of].value] : 0});
  }
  return out;
}

}  // namespace mdl::inject
