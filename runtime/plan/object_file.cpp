#include "runtime/plan/object_file.h"

#include <fmt/format.h>
#include <llvm/Object/ELF.h>
#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/digest.h"
#include "format/manifest.h"

namespace mdl::plan {

Error reject(std::string text) {
  return {"not a usable plan: " + std::move(text) + "; compile it again with mdlc", Status::plan_rejected};
}

namespace {

using Elf = llvm::object::ELFFile<llvm::object::ELF64LE>;
using Section = Elf::Elf_Shdr;

Error reject_read(const char* what, llvm::Error error) {
  return reject(fmt::format("{}: {}", what, llvm::toString(std::move(error))));
}

// The sections that a plan has. Others (string tables, notes) are of no interest.
struct Sections {
  const Section* text = nullptr;
  const Section* manifest = nullptr;
  const Section* checksum = nullptr;
  const Section* signature = nullptr;  // not in every plan
  const Section* symbols = nullptr;
  const Section* relocations = nullptr;  // of .text
  uint32_t text_index = 0;
};

Result<void> check_header(const Elf& elf) {
  const auto& header = elf.getHeader();
  if (!header.checkMagic()) return reject("it is not an ELF file");
  if (header.getFileClass() != llvm::ELF::ELFCLASS64 || header.getDataEncoding() != llvm::ELF::ELFDATA2LSB)
    return reject("it is not a 64-bit little-endian ELF file");
  if (header.e_type != llvm::ELF::ET_REL) return reject("it is not an ELF relocatable object");
  return {};
}

Result<void> take(const Section*& slot, const Section& section, const std::string& name) {
  if (slot) return reject(fmt::format("it has two sections `{}`", name));
  slot = &section;
  return {};
}

Result<Sections> find_sections(const Elf& elf) {
  auto table = elf.sections();
  if (!table) return reject_read("its section table", table.takeError());
  auto names = elf.getSectionStringTable(*table);
  if (!names) return reject_read("its section names", names.takeError());
  Sections found;
  for (const Section& section : *table) {
    auto read = elf.getSectionName(section, *names);
    if (!read) return reject_read("the name of a section", read.takeError());
    const std::string name = read->str();
    Result<void> taken;
    if (name == ".text") {
      taken = take(found.text, section, name);
      found.text_index = static_cast<uint32_t>(&section - table->begin());
    } else if (name == format::kManifestSection) {
      taken = take(found.manifest, section, name);
    } else if (name == format::kChecksumSection) {
      taken = take(found.checksum, section, name);
    } else if (name == format::kSignatureSection) {
      taken = take(found.signature, section, name);
    } else if (section.sh_type == llvm::ELF::SHT_SYMTAB) {
      taken = take(found.symbols, section, name);
    }
    if (!taken) return taken.error();
  }
  if (!found.manifest) return reject(fmt::format("it has no section `{}`", format::kManifestSection));
  if (!found.checksum) return reject(fmt::format("it has no section `{}`", format::kChecksumSection));
  if (!found.text) return reject("it has no section `.text`");
  if (!found.symbols) return reject("it has no symbol table");
  for (const Section& section : *table) {
    if (section.sh_type == llvm::ELF::SHT_REL && section.sh_info == found.text_index)
      return reject("its relocations have no addends");
    if (section.sh_type != llvm::ELF::SHT_RELA || section.sh_info != found.text_index) continue;
    if (auto taken = take(found.relocations, section, ".rela.text"); !taken) return taken.error();
  }
  return found;
}

Result<std::span<const std::byte>> contents(const Elf& elf, const Section& section, const char* what) {
  if (section.sh_type == llvm::ELF::SHT_NOBITS)
    return reject(fmt::format("{} has no bytes in the file", what));
  auto bytes = elf.getSectionContents(section);
  if (!bytes) return reject_read(what, bytes.takeError());
  return std::as_bytes(std::span(bytes->data(), bytes->size()));
}

// The stored digest, in hex.
Result<std::string> check_digest(const Elf& elf, const Section& section, std::span<const std::byte> file) {
  auto stored = contents(elf, section, "the checksum");
  if (!stored) return stored.error();
  if (stored->size() != sizeof(Digest))
    return reject(fmt::format("its checksum has {} bytes, not {}", stored->size(), sizeof(Digest)));
  std::vector<std::byte> plain(file.begin(), file.end());
  std::memset(plain.data() + section.sh_offset, 0, sizeof(Digest));
  const Digest digest = sha256(plain);
  if (!std::equal(digest.begin(), digest.end(), stored->begin()))
    return reject("its checksum does not match: the file is damaged");
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

// The key that signed the file, when one did. A signature that does not fit is an error, whoever asks.
Result<std::optional<format::PublicKey>> check_signature(const Elf& elf, const Sections& sections,
                                                         std::span<const std::byte> file) {
  if (!sections.signature) return std::optional<format::PublicKey>();
  auto stored = contents(elf, *sections.signature, "its signature");
  if (!stored) return stored.error();
  if (stored->size() != format::kSignatureSectionBytes)
    return reject(
        fmt::format("its signature has {} bytes, not {}", stored->size(), format::kSignatureSectionBytes));
  format::PublicKey key;
  std::memcpy(key.bytes.data(), stored->data(), key.bytes.size());
  std::vector<std::byte> plain(file.begin(), file.end());
  constexpr size_t kBytes = format::kSignatureSectionBytes - sizeof key.bytes;
  std::memset(plain.data() + sections.signature->sh_offset + sizeof key.bytes, 0, kBytes);
  std::memset(plain.data() + sections.checksum->sh_offset, 0, sizeof(Digest));
  if (!format::is_signed(plain, key, stored->subspan<sizeof key.bytes, kBytes>()))
    return reject(
        fmt::format("its signature, of {}, does not fit: it was changed after it was signed", name(key)));
  return std::optional(key);
}

Result<std::vector<ObjectSymbol>> read_symbols(const Elf& elf, const Sections& sections) {
  auto table = elf.symbols(sections.symbols);
  if (!table) return reject_read("its symbol table", table.takeError());
  auto names = elf.getStringTableForSymtab(*sections.symbols);
  if (!names) return reject_read("its symbol names", names.takeError());
  std::vector<ObjectSymbol> symbols;
  for (const auto& entry : *table) {
    auto name = entry.getName(*names);
    if (!name) return reject_read("the name of a symbol", name.takeError());
    ObjectSymbol symbol;
    symbol.name = name->str();
    symbol.defined = entry.st_shndx != llvm::ELF::SHN_UNDEF;
    symbol.in_text =
        symbol.defined && entry.st_shndx < llvm::ELF::SHN_LORESERVE && entry.st_shndx == sections.text_index;
    symbol.function = entry.getType() == llvm::ELF::STT_FUNC;
    symbol.offset = entry.st_value;
    symbol.size = entry.st_size;
    symbols.push_back(std::move(symbol));
  }
  return symbols;
}

Result<std::vector<ObjectRelocation>> read_relocations(const Elf& elf, const Sections& sections,
                                                       size_t symbol_count) {
  std::vector<ObjectRelocation> relocations;
  if (!sections.relocations) return relocations;
  auto table = elf.relas(*sections.relocations);
  if (!table) return reject_read("its relocations", table.takeError());
  for (const auto& entry : *table) {
    const uint32_t symbol = entry.getSymbol(false);
    if (symbol >= symbol_count) return reject("a relocation refers to a symbol that is not there");
    relocations.push_back({entry.r_offset, entry.getType(false), symbol, entry.r_addend});
  }
  return relocations;
}

}  // namespace

Result<ObjectFile> read_object(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxPlanBytes)
    return reject(fmt::format("it has {} bytes, more than the limit of {}", bytes.size(), kMaxPlanBytes));
  const llvm::StringRef view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto copy = llvm::MemoryBuffer::getMemBufferCopy(view, "plan");
  const llvm::StringRef aligned = copy->getBuffer();
  auto elf = Elf::create(aligned);
  if (!elf) return reject_read("it is too short for an ELF file", elf.takeError());
  if (auto header = check_header(*elf); !header) return header.error();
  auto sections = find_sections(*elf);
  if (!sections) return sections.error();
  const auto file = std::as_bytes(std::span(aligned.data(), aligned.size()));
  auto digest = check_digest(*elf, *sections->checksum, file);
  if (!digest) return digest.error();

  auto signer = check_signature(*elf, *sections, file);
  if (!signer) return signer.error();
  auto text = contents(*elf, *sections->text, "its code");
  if (!text) return text.error();
  auto manifest = contents(*elf, *sections->manifest, "its manifest");
  if (!manifest) return manifest.error();
  auto symbols = read_symbols(*elf, *sections);
  if (!symbols) return symbols.error();
  auto relocations = read_relocations(*elf, *sections, symbols->size());
  if (!relocations) return relocations.error();

  ObjectFile object;
  object.machine = elf->getHeader().e_machine;
  object.checksum = std::move(*digest);
  object.signer = *signer;
  object.text.assign(text->begin(), text->end());
  object.manifest.assign(reinterpret_cast<const char*>(manifest->data()), manifest->size());
  object.symbols = std::move(*symbols);
  object.relocations = std::move(*relocations);
  return object;
}

}  // namespace mdl::plan
