#include "backend/mc_machine.h"

#include <fmt/format.h>
#include <llvm/Support/TargetSelect.h>

namespace mdl::backend {
namespace {

// Those linked in; each target adds its three lines.
void initialize_targets() {
  static const bool done = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmParser();
    LLVMInitializeRISCVTargetInfo();
    LLVMInitializeRISCVTargetMC();
    LLVMInitializeRISCVAsmParser();
    return true;
  }();
  (void)done;
}

}  // namespace

Result<Machine> machine(std::string_view triple, std::string_view cpu) {
  initialize_targets();
  Machine m;
  m.triple = llvm::Triple(llvm::StringRef(triple));
  std::string error;
  m.target = llvm::TargetRegistry::lookupTarget(m.triple.str(), error);
  if (!m.target) return Error{fmt::format("LLVM has no assembler for {}: {}", triple, error)};
  m.registers.reset(m.target->createMCRegInfo(m.triple.str()));
  m.syntax.reset(m.target->createMCAsmInfo(*m.registers, m.triple.str(), m.options));
  m.instructions.reset(m.target->createMCInstrInfo());
  // Asking for a CPU that does not exist makes LLVM print; so it is asked whether it does first.
  m.cpu.reset(m.target->createMCSubtargetInfo(m.triple.str(), "", ""));
  if (!m.cpu->isCPUStringValid(cpu))
    return Error{fmt::format("\"{}\" is no CPU of {}", cpu, triple), Status::usage};
  m.cpu.reset(m.target->createMCSubtargetInfo(m.triple.str(), cpu, ""));
  return m;
}

}  // namespace mdl::backend
