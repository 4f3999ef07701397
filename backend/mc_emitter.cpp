// The pieces are put together as llvm-mc does it (llvm/tools/llvm-mc): parser -> streamer ->
// object writer, all in memory. LLVM reports through a diagnostic handler; nothing is
// printed and nothing is thrown.
#include "backend/mc_emitter.h"

#include <fmt/format.h>
#include <llvm/BinaryFormat/ELF.h>
#include <llvm/MC/MCAsmBackend.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCCodeEmitter.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCObjectFileInfo.h>
#include <llvm/MC/MCObjectWriter.h>
#include <llvm/MC/MCParser/MCAsmParser.h>
#include <llvm/MC/MCParser/MCTargetAsmParser.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSectionELF.h>
#include <llvm/MC/MCStreamer.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SHA256.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <memory>

namespace mdl::backend {
namespace {

// Those linked in; each target adds its three lines.
void initialize_targets() {
  static const bool done = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmParser();
    return true;
  }();
  (void)done;
}

// What is known of a target and CPU, for the length of one assembly.
struct Machine {
  llvm::Triple triple;
  const llvm::Target* target = nullptr;
  llvm::MCTargetOptions options;
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> syntax;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCSubtargetInfo> cpu;
};

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

void add_section(llvm::MCContext& context, llvm::MCStreamer& streamer, const DataSection& section) {
  streamer.switchSection(context.getELFSection(section.name, llvm::ELF::SHT_PROGBITS, 0));
  streamer.emitBytes(section.bytes);
}

}  // namespace

bool is_cpu(std::string_view triple, std::string_view cpu) {
  return bool(machine(triple, cpu));
}

Result<std::vector<std::byte>> assemble(std::string_view triple, std::string_view cpu,
                                        const std::string& text, const std::vector<DataSection>& sections) {
  Result<Machine> made = machine(triple, cpu);
  if (!made) return made.error();
  Machine& m = *made;

  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text, "stencils"), llvm::SMLoc());
  std::string complaint;
  auto keep_first = [](const llvm::SMDiagnostic& diagnostic, void* into) {
    auto& first = *static_cast<std::string*>(into);
    if (first.empty())
      first = fmt::format("{} in `{}`", diagnostic.getMessage().str(), diagnostic.getLineContents().str());
  };
  sources.setDiagHandler(keep_first, &complaint);

  llvm::MCContext context(m.triple, m.syntax.get(), m.registers.get(), m.cpu.get(), &sources);
  std::unique_ptr<llvm::MCObjectFileInfo> files(m.target->createMCObjectFileInfo(context, /*PIC=*/false));
  context.setObjectFileInfo(files.get());

  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  std::unique_ptr<llvm::MCAsmBackend> backend(m.target->createMCAsmBackend(*m.cpu, *m.registers, m.options));
  std::unique_ptr<llvm::MCCodeEmitter> encoder(m.target->createMCCodeEmitter(*m.instructions, context));
  std::unique_ptr<llvm::MCObjectWriter> writer = backend->createObjectWriter(out);
  std::unique_ptr<llvm::MCStreamer> streamer(m.target->createMCObjectStreamer(
      m.triple, context, std::move(backend), std::move(writer), std::move(encoder), *m.cpu));
  std::unique_ptr<llvm::MCAsmParser> parser(createMCAsmParser(sources, context, *streamer, *m.syntax));
  std::unique_ptr<llvm::MCTargetAsmParser> of_target(
      m.target->createMCAsmParser(*m.cpu, *parser, *m.instructions, m.options));
  parser->setTargetParser(*of_target);

  bool failed = parser->Run(/*NoInitialTextSection=*/false, /*NoFinalize=*/true);
  if (!failed) {
    for (const DataSection& section : sections) add_section(context, *streamer, section);
    streamer->finish();
  }
  if (failed || context.hadError()) return Error{fmt::format("internal error: assembler: {}", complaint)};
  std::vector<std::byte> object(bytes.size());
  std::transform(bytes.begin(), bytes.end(), object.begin(),
                 [](char c) { return static_cast<std::byte>(c); });
  return object;
}

std::span<std::byte> section_bytes(std::vector<std::byte>& object, std::string_view name) {
  llvm::StringRef data(reinterpret_cast<const char*>(object.data()), object.size());
  auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(data, "object"));
  if (!file) return llvm::consumeError(file.takeError()), std::span<std::byte>();
  for (const llvm::object::SectionRef& section : (*file)->sections()) {
    auto found = section.getName();
    auto bytes = section.getContents();
    bool wanted = found && bytes && *found == llvm::StringRef(name);
    if (!found) llvm::consumeError(found.takeError());
    if (!bytes) llvm::consumeError(bytes.takeError());
    if (wanted) return std::span(object).subspan(bytes->data() - data.data(), bytes->size());
  }
  return {};
}

std::array<std::byte, 32> sha256(std::span<const std::byte> bytes) {
  auto digest =
      llvm::SHA256::hash(llvm::ArrayRef(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  std::array<std::byte, 32> result;
  std::transform(digest.begin(), digest.end(), result.begin(),
                 [](uint8_t b) { return static_cast<std::byte>(b); });
  return result;
}

}  // namespace mdl::backend
