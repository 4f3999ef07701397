// LLVM's knowledge of a machine: shared by the parts of the backend that LLVM does, mc_emitter.cpp and
// cycles.cpp, and by nobody else.
#pragma once

#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>

#include <memory>
#include <string_view>

#include "base/result.h"

namespace mdl::backend {

// LLVM's objects for a target and CPU, for as long as they are used.
struct Machine {
  llvm::Triple triple;
  const llvm::Target* target = nullptr;
  llvm::MCTargetOptions options;
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> syntax;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCSubtargetInfo> cpu;
};

// Errors: LLVM has no assembler for the triple, or does not know the CPU.
Result<Machine> machine(std::string_view triple, std::string_view cpu);

}  // namespace mdl::backend
