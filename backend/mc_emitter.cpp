// The pieces are put together as llvm-mc does it (llvm/tools/llvm-mc): parser -> streamer ->
// object writer, all in memory. LLVM reports through a diagnostic handler; nothing is
// printed and nothing is thrown.
#include "backend/mc_emitter.h"

#include <fmt/format.h>
#include <llvm/BinaryFormat/ELF.h>
#include <llvm/MC/MCAsmBackend.h>
#include <llvm/MC/MCCodeEmitter.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCObjectFileInfo.h>
#include <llvm/MC/MCObjectWriter.h>
#include <llvm/MC/MCParser/MCAsmParser.h>
#include <llvm/MC/MCParser/MCTargetAsmParser.h>
#include <llvm/MC/MCSectionELF.h>
#include <llvm/MC/MCStreamer.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <memory>

#include "backend/mc_machine.h"

namespace mdl::backend {
namespace {

void add_section(llvm::MCContext& context, llvm::MCStreamer& streamer, const DataSection& section) {
  streamer.switchSection(context.getELFSection(section.name, llvm::ELF::SHT_PROGBITS, 0));
  streamer.emitBytes(section.bytes);
}

}  // namespace

Result<void> check_cpu(std::string_view triple, std::string_view cpu,
                       std::span<const std::string_view> required) {
  Result<Machine> made = machine(triple, cpu);
  if (!made) return made.error();
  for (std::string_view feature : required)
    if (!made->cpu->checkFeatures(fmt::format("+{}", feature)))
      return Error{fmt::format("{} does not have \"{}\", which stencils for {} need", cpu, feature,
                               made->triple.getArchName().str()),
                   Status::usage};
  return {};
}

std::string native_cpu(std::string_view triple) {
  const llvm::Triple host(llvm::sys::getProcessTriple());
  if (llvm::Triple(llvm::StringRef(triple)).getArch() != host.getArch()) return "";
  return llvm::sys::getHostCPUName().str();
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

std::map<std::string, uint64_t> function_sizes(const std::vector<std::byte>& object) {
  llvm::StringRef data(reinterpret_cast<const char*>(object.data()), object.size());
  auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(data, "object"));
  if (!file) return llvm::consumeError(file.takeError()), std::map<std::string, uint64_t>();
  std::map<std::string, uint64_t> sizes;
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    auto name = symbol.getName();
    if (name) sizes[name->str()] = llvm::object::ELFSymbolRef(symbol).getSize();
    if (!name) llvm::consumeError(name.takeError());
  }
  return sizes;
}

}  // namespace mdl::backend
