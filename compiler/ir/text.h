// The text form of the IR: what `mdlc --emit=ir` prints, tests are written in, and parses
// back to an equal snippet.
//
//   snippet calls_entry at entry temps 2 labels 1 from 0:3:7 {
//     cell calls counter
//     %0 = arg 0
//     %1 = lt %0, -5
//     jump_zero %1, L0
//     add_cell calls, 1
//   L0:
//   }
//
// One instruction a line: `%dst =` where the operation defines one, the operation's name
// from ops.def, then its operands a and b (%temporary or a decimal number), and its field
// (a cell's name, a number, a label) first if it is a cell or a number, last if it is a
// label; a label itself is `L<n>:`. `temps` and `labels` are the sizes of the two index
// spaces, `from` is file:line:column. `#` starts a comment that goes to the line's end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "compiler/ir/ir.h"

namespace mdl::ir {

std::string print(const Snippet& snippet);
std::string print(const Inst& inst, const Snippet& snippet);

// Checks the syntax and that names resolve; the rest is the verifier's. The error names
// the line.
Result<std::vector<Snippet>> parse(std::string_view text);

}  // namespace mdl::ir
