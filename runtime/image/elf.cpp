#include "runtime/image/elf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFTypes.h"
#include "runtime/arch/description.h"

namespace mdl::image {
namespace {

using Types = llvm::object::ELF64LE;

// No section that is read here comes near this in a real program; a sparse file's may.
constexpr uint64_t kMaxContents = 1ull << 29;

// Bytes for each that is stored, and for any file: debug sections are packed by a factor of 4 and more, as are the
// files of some file systems.
constexpr uint64_t kMostTimes = 16, kAnyFile = uint64_t{4} << 20;
constexpr uint64_t kMostNotes = 1 << 20;  // of a segment
constexpr size_t kMostNeeded = 4096;
// Names of symbols share their ends, so that a table of strings has less than all of them together.
constexpr uint64_t kMostShared = 16;
// As the kernel's, of a program: 64 KiB of program headers.
constexpr uint16_t kMostSegments = 65536 / sizeof(Types::Phdr);

template <typename T>
std::span<const T> as_array(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

std::string_view string_at(std::span<const std::byte> strings, uint64_t at) {
  if (at >= strings.size()) return {};
  const char* text = reinterpret_cast<const char*>(strings.data()) + at;
  return {text, strnlen(text, strings.size() - at)};
}

constexpr uint64_t align_to(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

// The description of the note {"GNU", NT_GNU_BUILD_ID} among `notes`.
std::span<const std::byte> find_build_id(std::span<const std::byte> notes) {
  while (notes.size() >= sizeof(Types::Nhdr)) {
    Types::Nhdr header;
    std::memcpy(&header, notes.data(), sizeof header);
    uint64_t name = sizeof header;
    uint64_t description = align_to(name + header.n_namesz, 4);
    uint64_t end = align_to(description + header.n_descsz, 4);
    if (description > notes.size() || header.n_descsz > notes.size() - description) return {};
    bool is_gnu = header.n_namesz == 4 && std::memcmp(notes.data() + name, "GNU", 4) == 0;
    if (is_gnu && header.n_type == llvm::ELF::NT_GNU_BUILD_ID)
      return notes.subspan(description, header.n_descsz);
    notes = notes.subspan(std::min<uint64_t>(end, notes.size()));
  }
  return {};
}

}  // namespace

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case llvm::ELF::EM_X86_64:
      return "x86_64";
    case llvm::ELF::EM_386:
      return "i386";
    case llvm::ELF::EM_AARCH64:
      return "aarch64";
    case llvm::ELF::EM_ARM:
      return "arm";
    case llvm::ELF::EM_RISCV:
      return "riscv";
    default:
      return fmt::format("machine {}", machine);
  }
}

std::vector<std::byte> ElfFile::bytes_at(uint64_t offset, uint64_t size) const {
  if (size > std::min(kMaxContents, most_) || offset > size_ || size > size_ - offset) return {};
  std::vector<std::byte> bytes(size);
  if (!bytes_->read(offset, bytes)) return {};
  return bytes;
}

bool ElfFile::read_segments(uint64_t offset, uint16_t count, uint16_t entry_size) {
  if (entry_size != sizeof(Types::Phdr)) return count == 0;
  if (count > kMostSegments) return false;
  std::vector<std::byte> bytes = bytes_at(offset, uint64_t{count} * entry_size);
  if (bytes.empty()) return count == 0;
  for (const Types::Phdr& entry : as_array<Types::Phdr>(bytes))
    segments_.push_back(
        {entry.p_type, entry.p_flags, entry.p_offset, entry.p_filesz, entry.p_vaddr, entry.p_memsz});
  return true;
}

// Section headers may be missing or damaged: what a process runs by is its segments.
void ElfFile::read_sections(uint64_t offset, uint64_t count, uint16_t entry_size, uint32_t names) {
  if (offset == 0 || entry_size != sizeof(Types::Shdr)) return;
  std::vector<std::byte> bytes = bytes_at(offset, sizeof(Types::Shdr));
  if (bytes.empty()) return;
  // With 0xff00 sections and more, the first header holds the counts (gABI, "ELF Header").
  const Types::Shdr first = as_array<Types::Shdr>(bytes)[0];
  if (count == 0) count = first.sh_size;
  if (names == llvm::ELF::SHN_XINDEX) names = first.sh_link;
  if (count > size_ / sizeof(Types::Shdr)) return;
  bytes = bytes_at(offset, count * sizeof(Types::Shdr));
  std::span headers = as_array<Types::Shdr>(bytes);
  std::vector<std::byte> strings;
  if (names < headers.size()) strings = bytes_at(headers[names].sh_offset, headers[names].sh_size);
  for (const Types::Shdr& entry : headers)
    sections_.push_back({std::string(string_at(strings, entry.sh_name).substr(0, 64)), entry.sh_type,
                         entry.sh_flags, entry.sh_addr, entry.sh_offset, entry.sh_size, entry.sh_link});
}

// Why they cannot be those of a linker; "" where they can.
std::string ElfFile::problem_of_sections() const {
  std::vector<const Section*> stored;
  uint64_t total = 0;
  for (const Section& section : sections_) {
    const bool has_bytes = section.type != llvm::ELF::SHT_NULL && section.type != llvm::ELF::SHT_NOBITS;
    if (!has_bytes || section.size == 0 || section.offset > size_ || section.size > size_ - section.offset)
      continue;  // those that lie outside are not read
    stored.push_back(&section);
    total += section.size;
  }
  std::ranges::sort(stored, {}, &Section::offset);
  for (size_t i = 1; i < stored.size(); i++)
    if (stored[i - 1]->offset + stored[i - 1]->size > stored[i]->offset)
      return fmt::format("two of its sections, {} and {}, have the same bytes", stored[i - 1]->name,
                         stored[i]->name);
  if (total > most_) return fmt::format("its sections have {} bytes, and its file stores far less", total);
  return "";
}

Result<ElfFile> ElfFile::read(std::shared_ptr<const Memory> bytes, uint64_t size, const std::string& name,
                              uint64_t stored) {
  ElfFile file;
  file.stored_ = stored = std::min(stored, size);
  file.most_ = stored > (UINT64_MAX - kAnyFile) / kMostTimes ? UINT64_MAX : stored * kMostTimes + kAnyFile;
  file.bytes_ = std::move(bytes);
  file.size_ = size;
  std::vector<std::byte> start = file.bytes_at(0, sizeof(Types::Ehdr));
  if (start.empty()) return Error{fmt::format("{} is not an ELF file: it has only {} bytes", name, size)};
  Types::Ehdr header;
  std::memcpy(&header, start.data(), sizeof header);
  if (std::memcmp(header.e_ident, llvm::ELF::ElfMagic, 4) != 0)
    return Error{fmt::format("{} is not an ELF file: it does not start with its magic number", name)};
  if (header.e_ident[llvm::ELF::EI_CLASS] != llvm::ELF::ELFCLASS64 ||
      header.e_ident[llvm::ELF::EI_DATA] != llvm::ELF::ELFDATA2LSB)
    return Error{
        fmt::format("{} is for a 32-bit or big-endian machine; only 64-bit little-endian ones are "
                    "instrumented",
                    name)};
  file.machine_ = header.e_machine;
  file.entry_ = header.e_entry;
  if (!file.read_segments(header.e_phoff, header.e_phnum, header.e_phentsize))
    return Error{
        fmt::format("{} is damaged: its {} program headers at offset {:#x} are outside of its {} bytes", name,
                    unsigned{header.e_phnum}, uint64_t{header.e_phoff}, size)};
  file.read_sections(header.e_shoff, header.e_shnum, header.e_shentsize, header.e_shstrndx);
  if (const std::string problem = file.problem_of_sections(); !problem.empty())
    return Error{fmt::format("{} is damaged: {}", name, problem)};
  return file;
}

const Section* ElfFile::section(std::string_view name) const {
  for (const Section& section : sections_)
    if (section.name == name) return &section;
  return nullptr;
}

std::vector<std::byte> ElfFile::contents(const Section& section) const {
  return section.flags & llvm::ELF::SHF_COMPRESSED ? std::vector<std::byte>() : bytes_of(section);
}

std::vector<std::byte> ElfFile::bytes_of(const Section& section) const {
  if (section.type == llvm::ELF::SHT_NOBITS) return {};
  return bytes_at(section.offset, section.size);
}

SymbolTable ElfFile::symbols(uint32_t section_type) const {
  SymbolTable table;
  for (const Section& section : sections_) {
    if (section.type != section_type || section.link >= sections_.size()) continue;
    table.strings = contents(sections_[section.link]);
    std::vector<std::byte> bytes = contents(section);
    std::span entries = as_array<Types::Sym>(bytes);
    table.symbols.reserve(entries.size());
    uint64_t names = 0;
    for (const Types::Sym& entry : entries) {
      table.symbols.push_back({string_at(table.strings, entry.st_name), entry.st_value, entry.st_size,
                               entry.getType(), entry.getBinding(), entry.st_shndx});
      names += table.symbols.back().name.size();
      if (names > kMostShared * table.strings.size() + kAnyFile) return {};
    }
    break;
  }
  return table;
}

std::vector<Relocation> ElfFile::relocations() const {
  std::vector<Relocation> out;
  for (const Section& section : sections_) {
    if (section.type != llvm::ELF::SHT_RELA || !(section.flags & llvm::ELF::SHF_ALLOC)) continue;
    std::vector<std::byte> bytes = contents(section);
    for (const Types::Rela& entry : as_array<Types::Rela>(bytes))
      if (entry.getType(false) != arch::kMachine.relocations.relative)
        out.push_back({entry.r_offset, entry.getType(false), entry.getSymbol(false),
                       static_cast<uint64_t>(int64_t{entry.r_addend})});
  }
  return out;
}

// An even entry is the place of a pointer; an odd one says of the 63 words behind the last place which are
// some, too (the generic ABI, "Relative Relocation Table"). A place holds the pointer as it is in the file. In
// what a linker has made, places ascend and all of them lie in the file.
void ElfFile::add_packed_pointers(const Section& section, std::vector<uint64_t>& out) const {
  constexpr uint64_t kWord = sizeof(uint64_t), kWordsOfBitmap = 63;
  const size_t most = stored_ / kWord;  // of all sections: each is another word of the file
  uint64_t next = 0;
  const auto add = [&](uint64_t place) {
    const std::vector<std::byte> word = at_address(place, kWord);
    if (place < next || word.size() != kWord || out.size() >= most) return false;
    out.push_back(as_array<Types::Xword>(word)[0]);
    return true;
  };
  const std::vector<std::byte> bytes = contents(section);
  for (const uint64_t entry : as_array<Types::Xword>(bytes)) {
    if ((entry & 1) == 0) {
      if (!add(entry)) return;
      next = entry + kWord;
      continue;
    }
    for (uint64_t bits = entry >> 1; bits != 0; bits &= bits - 1)
      if (!add(next + kWord * static_cast<uint64_t>(std::countr_zero(bits)))) return;
    next += kWord * kWordsOfBitmap;
  }
}

std::vector<uint64_t> ElfFile::relocated_pointers() const {
  std::vector<uint64_t> out;
  for (const Section& section : sections_) {
    if (section.type == llvm::ELF::SHT_RELR && (section.flags & llvm::ELF::SHF_ALLOC))
      add_packed_pointers(section, out);
    if (section.type != llvm::ELF::SHT_RELA || !(section.flags & llvm::ELF::SHF_ALLOC)) continue;
    std::vector<std::byte> bytes = contents(section);
    for (const Types::Rela& entry : as_array<Types::Rela>(bytes))
      if (entry.getType(false) == arch::kMachine.relocations.relative)
        out.push_back(static_cast<uint64_t>(int64_t{entry.r_addend}));
  }
  return out;
}

std::vector<std::byte> ElfFile::at_address(uint64_t address, uint64_t size) const {
  for (const Segment& segment : segments_) {
    if (segment.type != llvm::ELF::PT_LOAD || address < segment.address) continue;
    uint64_t at = address - segment.address;
    if (at >= segment.file_size || segment.offset + at < segment.offset) continue;
    uint64_t offset = segment.offset + at;
    if (offset >= size_) return {};
    return bytes_at(offset, std::min({size, segment.file_size - at, size_ - offset}));
  }
  return {};
}

std::string ElfFile::soname() const {
  for (const Segment& segment : segments_) {
    if (segment.type != llvm::ELF::PT_DYNAMIC) continue;
    std::vector<std::byte> bytes = bytes_at(segment.offset, segment.file_size);
    uint64_t strings = 0, name = 0;
    for (const Types::Dyn& entry : as_array<Types::Dyn>(bytes)) {
      if (entry.getTag() == llvm::ELF::DT_NULL) break;
      if (entry.getTag() == llvm::ELF::DT_STRTAB) strings = entry.getPtr();
      if (entry.getTag() == llvm::ELF::DT_SONAME) name = entry.getVal();
    }
    if (name != 0) return std::string(string_at(at_address(strings + name, 256), 0));
    break;  // there is one
  }
  return {};
}

std::vector<std::string> ElfFile::needed() const {
  std::vector<std::string> out;
  for (const Segment& segment : segments_) {
    if (segment.type != llvm::ELF::PT_DYNAMIC) continue;
    std::vector<std::byte> bytes = bytes_at(segment.offset, segment.file_size);
    uint64_t strings = 0;
    std::vector<uint64_t> names;
    for (const Types::Dyn& entry : as_array<Types::Dyn>(bytes)) {
      if (entry.getTag() == llvm::ELF::DT_NULL) break;
      if (entry.getTag() == llvm::ELF::DT_STRTAB) strings = entry.getPtr();
      if (entry.getTag() == llvm::ELF::DT_NEEDED) names.push_back(entry.getVal());
    }
    names.resize(std::min(names.size(), kMostNeeded));
    for (uint64_t name : names) out.emplace_back(string_at(at_address(strings + name, 256), 0));
    break;  // there is one
  }
  return out;
}

std::string ElfFile::build_id() const {
  for (const Segment& segment : segments_) {
    if (segment.type != llvm::ELF::PT_NOTE || segment.file_size > kMostNotes) continue;
    std::vector<std::byte> notes = bytes_at(segment.offset, segment.file_size);
    std::string text;
    for (std::byte byte : find_build_id(notes)) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace mdl::image
