// Debug information of a target: the parameters of its functions by name. What is asked for first is what is
// there.
#include <cstring>
#include <memory>

#include "runtime/image/elf.h"
#include "runtime/image/parameters.h"

using namespace mdl::image;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  mdl::Result<ElfFile> file = ElfFile::read(std::make_shared<BufferMemory>(bytes), size, "fuzz");
  if (!file) return 0;
  auto sections = read_debug_sections(*file, "fuzz");
  if (!sections) return 0;
  FileParameters parameters(std::move(*sections));
  size_t budget = 32;
  const SymbolTable table = file->symbols(2);  // SHT_SYMTAB
  for (const ElfSymbol& symbol : table.symbols) {
    if (symbol.type != 2 /* STT_FUNC */ || symbol.section == 0) continue;
    if (budget-- == 0) break;
    for (const char* name : {"count", "this", "none"}) (void)parameters.find(symbol.address, name);
  }
  return 0;
}
