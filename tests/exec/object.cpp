#include "tests/exec/object.h"

#include <fmt/format.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>

namespace mdl::exec {
namespace {

Error failed(llvm::Error error) {
  return Error{llvm::toString(std::move(error))};
}

}  // namespace

Result<std::map<std::string, Function>> read_functions(const std::vector<std::byte>& bytes) {
  const llvm::StringRef data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto object = llvm::object::ELF64LEObjectFile::create(llvm::MemoryBufferRef(data, "object"));
  if (!object) return failed(object.takeError());
  std::map<std::string, Function> functions;
  std::map<uint64_t, std::pair<uint64_t, Function*>> by_address;  // where each begins; its end
  for (const llvm::object::ELFSymbolRef symbol : object->symbols()) {
    auto type = symbol.getType();
    if (!type || *type != llvm::object::SymbolRef::ST_Function) continue;
    auto name = symbol.getName();
    auto section = symbol.getSection();
    auto at = symbol.getAddress();
    if (!name || !section || !at) return Error{"a symbol that cannot be read"};
    auto text = (*section)->getContents();
    if (!text) return failed(text.takeError());
    Function& function = functions[name->str()];
    const auto* begin = reinterpret_cast<const std::byte*>(text->data()) + *at;
    function.code.assign(begin, begin + symbol.getSize());
    by_address[*at] = {*at + symbol.getSize(), &function};
  }
  for (const auto& section : object->sections())
    for (const llvm::object::ELFRelocationRef relocation : section.relocations()) {
      auto after = by_address.upper_bound(relocation.getOffset());
      auto name = relocation.getSymbol()->getName();
      auto addend = relocation.getAddend();
      if (after == by_address.begin() || !name || !addend) return Error{"a relocation that cannot be read"};
      const auto& [begin, place] = *std::prev(after);
      place.second->relocations.push_back({relocation.getOffset() - begin,
                                           static_cast<uint32_t>(relocation.getType()), name->str(),
                                           *addend});
    }
  return functions;
}

}  // namespace mdl::exec
