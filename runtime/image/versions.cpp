#include "runtime/image/versions.h"

#include <cstring>
#include <map>

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFTypes.h"

namespace mdl::image {
namespace {

using Types = llvm::object::ELF64LE;

const Section* section_of(const ElfFile& file, uint32_t type) {
  for (const Section& section : file.sections())
    if (section.type == type) return &section;
  return nullptr;
}

// A record at an offset; false when it is not all there.
template <typename T>
bool read(const std::vector<std::byte>& bytes, uint64_t at, T& into) {
  if (at > bytes.size() || sizeof into > bytes.size() - at) return false;
  std::memcpy(&into, bytes.data() + at, sizeof into);
  return true;
}

std::map<uint16_t, std::string> definitions(const ElfFile& file) {
  std::map<uint16_t, std::string> out;
  const Section* section = section_of(file, llvm::ELF::SHT_GNU_verdef);
  if (!section || section->link >= file.sections().size()) return out;
  const std::vector<std::byte> bytes = file.contents(*section);
  const std::vector<std::byte> strings = file.contents(file.sections()[section->link]);
  // Each record says how far the next one is; one that lies before it would be a loop.
  for (uint64_t at = 0;;) {
    Types::Verdef definition;
    Types::Verdaux first;
    if (!read(bytes, at, definition) || !read(bytes, at + definition.vd_aux, first)) break;
    if (first.vda_name < strings.size()) {
      const char* name = reinterpret_cast<const char*>(strings.data()) + first.vda_name;
      out.emplace(definition.vd_ndx, std::string(name, strnlen(name, strings.size() - first.vda_name)));
    }
    if (definition.vd_next == 0) break;
    at += definition.vd_next;
  }
  return out;
}

}  // namespace

SymbolVersions symbol_versions(const ElfFile& file) {
  SymbolVersions out;
  const Section* section = section_of(file, llvm::ELF::SHT_GNU_versym);
  if (section) out.names = definitions(file);
  if (out.names.empty()) return out;
  const std::vector<std::byte> bytes = file.contents(*section);
  out.each.reserve(bytes.size() / 2);
  constexpr uint16_t kHidden = 0x8000;  // not the default version of its name
  for (uint64_t at = 0; at + 2 <= bytes.size(); at += 2) {
    uint16_t index;
    std::memcpy(&index, bytes.data() + at, sizeof index);
    auto version = out.names.find(index & static_cast<uint16_t>(~kHidden));
    out.each.push_back(version == out.names.end() || index <= llvm::ELF::VER_NDX_GLOBAL ? std::string_view()
                                                                                        : version->second);
  }
  return out;
}

}  // namespace mdl::image
