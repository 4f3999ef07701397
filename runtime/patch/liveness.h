// Which registers must survive code inserted at an instruction.
//
// Everything is live unless proved dead (architecture, decision 3). Two proofs:
//   - on every path from the instruction the register is replaced before it is read. Calls,
//     returns, jumps out and everything not understood count as reading all registers;
//   - at a way out, a scratch register (arch::scratch_registers) is dead when the function
//     itself changes it or calls code outside its object: no caller can then rely on
//     finding its value again, not even one compiled with -fipa-ra, which allocates registers
//     across a call by what the callee's code leaves alone.
#pragma once

#include "runtime/image/code.h"

namespace mdl::patch {

class Liveness {
 public:
  // `code` must outlive this.
  explicit Liveness(const image::Code& code);
  // Registers and flags that may be live before the instruction at `address`.
  image::Registers before(uint64_t address) const;

 private:
  const image::Code& code_;
  image::Registers free_at_exit_ = 0;
};

}  // namespace mdl::patch
