// An ELF file as bytes that are not trusted: its headers, and its sections on demand.
//
// Only what is asked for is read (a program may be 100 MB), always through Memory, so that a
// file that shrinks meanwhile is an error and never a signal. Every offset and size is checked
// against the file's size. The layouts are LLVM's (llvm/Object/ELFTypes.h); its ELFFile is
// not used because it wants the whole file in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/image/memory.h"

namespace mdl::image {

struct Segment {
  uint32_t type = 0;
  uint32_t flags = 0;
  uint64_t offset = 0, file_size = 0;
  uint64_t address = 0, memory_size = 0;
};

struct Section {
  std::string name;
  uint32_t type = 0;
  uint64_t flags = 0;
  uint64_t address = 0, offset = 0, size = 0;
  uint32_t link = 0;
  bool is_linkage_table() const { return name.starts_with(".plt") || name.starts_with(".iplt"); }
};

struct ElfSymbol {
  std::string_view name;  // into the string table of SymbolTable
  uint64_t address = 0, size = 0;
  uint8_t type = 0, binding = 0;
  uint16_t section = 0;  // as in st_shndx
};

struct Relocation {  // with an addend, as all 64-bit machines have them
  uint64_t address = 0;
  uint32_t type = 0;
  uint32_t symbol = 0;  // index into the dynamic symbols, 0 = none
  uint64_t addend = 0;
};

struct SymbolTable {
  std::vector<std::byte> strings;
  std::vector<ElfSymbol> symbols;
};

class ElfFile {
 public:
  // `name` is for error texts. `stored`: how many bytes the file takes on its disk: a sparse file may say of any
  // size. Refuses what is not a 64-bit little-endian ELF file, and what would cost more than such a file can:
  // sections that share bytes, or that have many times what is stored.
  static Result<ElfFile> read(std::shared_ptr<const Memory> bytes, uint64_t size, const std::string& name,
                              uint64_t stored = UINT64_MAX);
  // The most that may be made of it, once it is unpacked.
  uint64_t most_bytes() const { return most_; }
  uint64_t stored_bytes() const { return stored_; }  // on its disk

  uint16_t machine() const { return machine_; }  // EM_...
  uint64_t entry() const { return entry_; }      // 0 when there is none
  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<Section>& sections() const { return sections_; }
  const Section* section(std::string_view name) const;

  // Empty when the section has no bytes in the file or they cannot be read.
  std::vector<std::byte> contents(const Section& section) const;
  // The same, of a compressed section as they are in the file.
  std::vector<std::byte> bytes_of(const Section& section) const;
  // The symbols of the first section of this type (SHT_SYMTAB, SHT_DYNSYM); empty when there is none.
  SymbolTable symbols(uint32_t section_type) const;
  // The relocations of the sections that are loaded, without those that only add the file's place in memory
  // (relative ones).
  std::vector<Relocation> relocations() const;
  // Addresses in the file that the loader moves with it: what relative relocations, also packed ones, make of
  // its data.
  std::vector<uint64_t> relocated_pointers() const;
  // The bytes at a virtual address of the file, clipped to what its segment has in the file.
  std::vector<std::byte> at_address(uint64_t address, uint64_t size) const;
  // DT_SONAME, "" when there is none.
  std::string soname() const;
  // DT_NEEDED: the sonames of libraries that are loaded with this file, and not unloaded before it.
  std::vector<std::string> needed() const;
  // Lower-case hex, "" when there is none.
  std::string build_id() const;

 private:
  std::vector<std::byte> bytes_at(uint64_t offset, uint64_t size) const;
  void add_packed_pointers(const Section& section, std::vector<uint64_t>& out) const;
  bool read_segments(uint64_t offset, uint16_t count, uint16_t entry_size);
  void read_sections(uint64_t offset, uint64_t count, uint16_t entry_size, uint32_t names);
  std::string problem_of_sections() const;

  std::shared_ptr<const Memory> bytes_;
  uint64_t size_ = 0;
  uint64_t most_ = 0, stored_ = 0;
  uint16_t machine_ = 0;
  uint64_t entry_ = 0;
  std::vector<Segment> segments_;
  std::vector<Section> sections_;
};

// "x86_64", "aarch64", ... or "machine N" for error texts.
std::string machine_name(uint16_t machine);

}  // namespace mdl::image
