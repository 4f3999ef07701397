#include "runtime/arch/x86_64/disassembler.h"

#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <string>

namespace mdl::arch::x86_64 {

const Disassembler& Disassembler::instance() {
  static const Disassembler instance;
  return instance;
}

Disassembler::Disassembler() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86Disassembler();
  const char* const triple = "x86_64-linux-gnu";
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  registers_.reset(target->createMCRegInfo(triple));
  syntax_.reset(target->createMCAsmInfo(*registers_, triple, llvm::MCTargetOptions()));
  instructions_.reset(target->createMCInstrInfo());
  subtarget_.reset(target->createMCSubtargetInfo(triple, "", ""));
  context_ = std::make_unique<llvm::MCContext>(llvm::Triple(triple), syntax_.get(), registers_.get(),
                                               subtarget_.get());
  decoder_.reset(target->createMCDisassembler(*subtarget_, *context_));
}

uint64_t Disassembler::decode(std::span<const std::byte> bytes, uint64_t address, llvm::MCInst& inst) const {
  const llvm::ArrayRef data(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  uint64_t size = 0;
  const auto status = decoder_->getInstruction(inst, size, data, address, llvm::nulls());
  return status == llvm::MCDisassembler::Success ? size : 0;
}

}  // namespace mdl::arch::x86_64
