// Debug information of a target: the parameters of its functions by name, the types of their values, its
// source files, and the holders of inlined copies. What is asked for first is what is there. LLVM, which reads
// it, may crash in its own process; what comes back from there must be sound.
#include <cstring>
#include <memory>

#include "runtime/image/debug_info.h"
#include "runtime/image/elf.h"

using namespace mdl::image;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  mdl::Result<ElfFile> file = ElfFile::read(std::make_shared<BufferMemory>(bytes), size, "fuzz");
  if (!file) return 0;
  auto sections = read_debug_sections(*file, "fuzz");
  if (!sections) return 0;
  auto info = FileDebugInfo::open(std::move(*sections), /*seconds=*/5);
  if (!info) __builtin_trap();
  std::vector<uint64_t> entries;
  for (const ElfSymbol& symbol : file->symbols(2 /* SHT_SYMTAB */).symbols)
    if (symbol.type == 2 /* STT_FUNC */ && symbol.section != 0 && entries.size() < 32)
      entries.push_back(symbol.address);
  for (uint64_t entry : entries)
    for (int number = kResult; number <= 6; ++number) {
      const ValueType type = info->value_type({.entry = entry, .idle = 0}, number);
      const bool is_narrow = type.mask == 0xff || type.mask == 0xffff || type.mask == 0xffffffff;
      const bool has_its_sign = type.sign == 0 || type.sign == type.mask / 2 + 1;
      if (is_narrow ? !has_its_sign : type.mask != ~uint64_t{0} || type.sign != 0) __builtin_trap();
    }
  for (uint64_t entry : entries)
    for (const char* name : {"count", "this", "none"}) {
      const Parameter found = info->parameter({.entry = entry, .idle = 0}, name);
      if ((found.number >= 0) != found.why.empty() || found.number > 5) __builtin_trap();
    }
  for (const std::string& holder : info->holders("count"))
    if (holder.empty()) __builtin_trap();
  std::vector<FunctionSymbol> symbols;
  for (uint64_t entry : entries) symbols.emplace_back(entry, "count");
  if (info->ask_holders(symbols)) {
    const size_t answers = info->asked_holders().size();
    if (answers != 0 && answers != symbols.size()) __builtin_trap();
  }
  if (info->source_files(entries).size() != entries.size()) __builtin_trap();
  return 0;
}
