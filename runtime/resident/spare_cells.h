// Cells of requests that come to a session while it runs.
//
// The data of a session stay where they are for as long as it lives, so a block has room for more cells than
// the first requests need. A cell that stays keeps its offset, because threads hold its value there. A new one
// gets room that no cell has. The room of a cell that goes is free from the change after its own. It is cleared in the
// stop in which its cell goes, when the last value has been read.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/plan/plan.h"
#include "runtime/process/target_memory.h"
#include "runtime/resident/layout.h"

namespace mdl::resident {

// For the requests of a plan that may come, or of any plan. What takes much of a block is there only where the plan has
// such cells. `distributions`: where one may come that is not kept by key.
SpareCells spare_cells_for(const plan::Plan& plan, bool distributions, bool any_plan);

// The layout of the same blocks for other cells. `kinds`: of the cells of `before`. `kept`: by the new cells'
// ids, which cell of `before` each of them is; none for a new one. An error where there is no room for all.
Result<Layout> change_cells(const Layout& before, std::span<const format::CellKind> kinds,
                            std::span<const focus::CellSlot> cells,
                            std::span<const std::optional<uint32_t>> kept);

// The words of a block that belong to a cell, with those of its anomalies: ranges of offsets.
std::vector<image::Range> words_of(const Layout& layout, uint32_t offset, format::CellKind kind);
// Nothing is known any more of calls that run by cells whose room is used again: a call that returns must not find what
// another one has left. No thread runs inside.
Result<void> forget_calls(const Layout& layout, uint64_t data, std::span<const uint32_t> cells,
                          const process::TargetMemory& memory);
// Clears these words in all blocks that threads have, and in those of the ended. No thread runs inside, and no
// copy of a block waits in the ring.
Result<void> clear_words(const Layout& layout, uint64_t data, const std::vector<image::Range>& words,
                         const process::TargetMemory& memory);

}  // namespace mdl::resident
