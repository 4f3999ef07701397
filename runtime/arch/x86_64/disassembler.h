// LLVM's disassembler for x86_64 and the tables that it is made from; made once, then only read.
#pragma once

#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace mdl::arch::x86_64 {

class Disassembler {
 public:
  static const Disassembler& instance();

  // The size of the instruction at the start of `bytes`; 0 when there is none.
  uint64_t decode(std::span<const std::byte> bytes, uint64_t address, llvm::MCInst& inst) const;
  const llvm::MCRegisterInfo& registers() const { return *registers_; }
  const llvm::MCInstrInfo& instructions() const { return *instructions_; }

 private:
  Disassembler();

  std::unique_ptr<llvm::MCRegisterInfo> registers_;
  std::unique_ptr<llvm::MCAsmInfo> syntax_;
  std::unique_ptr<llvm::MCInstrInfo> instructions_;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget_;
  std::unique_ptr<llvm::MCContext> context_;
  std::unique_ptr<llvm::MCDisassembler> decoder_;
};

}  // namespace mdl::arch::x86_64
