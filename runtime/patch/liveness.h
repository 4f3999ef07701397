// Which registers must survive code inserted at an instruction.
//
// Everything is live unless proved dead (architecture, decision 3). Two proofs:
//   - on every path from the instruction the register is replaced before it is read. Calls,
//     returns, jumps out and everything not understood count as reading all registers;
//   - seen from the entry, at a way out, a scratch register (arch::Description::scratch) is dead when the
//     function itself changes it or calls code through a pointer: no caller can then rely on
//     finding its own value again, not even one compiled with -fipa-ra, which allocates registers
//     across a call by what the callee's code leaves alone. Seen from a way out it is not: there
//     it may hold a result of a convention of the program's own.
#pragma once

#include "runtime/image/code.h"

namespace mdl::patch {

class Liveness {
 public:
  // `code` must outlive this.
  explicit Liveness(const image::Code& code);
  // Registers and flags that may be live before the instruction at `address`, which is at the
  // function's entry or not.
  image::Registers before(uint64_t address, bool at_entry) const;

 private:
  const image::Code& code_;
  image::Registers free_at_exit_ = 0;
};

}  // namespace mdl::patch
