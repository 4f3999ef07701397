#include "runtime/image/variables.h"

#include <elf.h>

#include "runtime/image/object.h"

namespace mdl::image {

std::vector<NamedVariable> variables_of(const Image& image) {
  std::vector<NamedVariable> out;
  for (const Object& object : image.objects) {
    if (!object.problem.empty()) continue;
    const auto file = open_object(image, object);
    if (!file) continue;
    for (const uint32_t table : {SHT_SYMTAB, SHT_DYNSYM})
      for (const SymbolTable symbols = file->symbols(table); const ElfSymbol& one : symbols.symbols) {
        if (one.type != STT_OBJECT || one.section == SHN_UNDEF || one.section == SHN_ABS) continue;
        const uint64_t start = object.bias + one.address;
        out.push_back({{start, start + one.size}, std::string(one.name), &object});
      }
  }
  return out;
}

}  // namespace mdl::image
