// ELF files that say of more than they hold.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/image/elf.h"

namespace mdl::image {
namespace {

constexpr uint64_t kSize = 1 << 16;

// The beginning of a file with these sections.
std::vector<std::byte> file_with(const std::vector<Elf64_Shdr>& sections) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64, header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = EM_X86_64, header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr), header.e_shnum = static_cast<uint16_t>(sections.size());
  std::vector<std::byte> bytes(kSize);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, sections.data(), sections.size() * sizeof(Elf64_Shdr));
  return bytes;
}

// What reading it says.
std::string problem_of(const std::vector<Elf64_Shdr>& sections, uint64_t stored = UINT64_MAX) {
  // Behind it, as a sparse file has it: nothing that is read here.
  auto file =
      ElfFile::read(std::make_shared<BufferMemory>(file_with(sections)), uint64_t{1} << 40, "evil", stored);
  return file ? "" : file.error().text;
}

Elf64_Shdr section(uint64_t offset, uint64_t size, uint32_t type = SHT_RELA) {
  Elf64_Shdr out{};
  out.sh_type = type, out.sh_offset = offset, out.sh_size = size;
  return out;
}

TEST(ElfCosts, SectionsBesideEachOtherAreRead) {
  EXPECT_EQ(problem_of({section(0x1000, 0x1000), section(0x2000, 0x100)}), "");
  EXPECT_EQ(problem_of({section(0x1000, 0x1000), section(0x1800, 0x1000, SHT_NOBITS)}), "");
}

TEST(ElfCosts, SectionsThatShareBytesAreRefused) {
  EXPECT_NE(problem_of({section(0x2000, 0x100), section(0x1000, 0x1001)}).find("have the same bytes"),
            std::string::npos);
}

TEST(ElfCosts, SectionsOfASparseFileAreRefused) {
  EXPECT_EQ(problem_of({section(0x1000, 20 << 20)}, 1 << 20), "");
  EXPECT_NE(problem_of({section(0x1000, 21 << 20)}, 1 << 20).find("stores far less"), std::string::npos);
}

// Each bit of a packed relocation is a pointer of eight bytes, and sections may name the same ones.
TEST(ElfCosts, PackedPointersAreNoMoreThanTheFileHas) {
  constexpr uint64_t kSections = 8, kBitmaps = 0x800, kFirst = 0x1000, kBegin = 0x100;
  std::vector<Elf64_Shdr> sections;
  for (uint64_t i = 0; i < kSections; ++i) {
    sections.push_back(section(kFirst + i * kBitmaps, kBitmaps, SHT_RELR));
    sections.back().sh_flags = SHF_ALLOC;
  }
  std::vector<std::byte> bytes = file_with(sections);
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD, segment.p_filesz = segment.p_memsz = kSize;
  const uint64_t at = sizeof(Elf64_Ehdr) + kSections * sizeof(Elf64_Shdr);
  auto* const header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
  header->e_phoff = at, header->e_phnum = 1, header->e_phentsize = sizeof segment;
  std::memcpy(bytes.data() + at, &segment, sizeof segment);
  for (const Elf64_Shdr& one : sections) {
    std::memset(bytes.data() + one.sh_offset, 0xff, kBitmaps);
    std::memcpy(bytes.data() + one.sh_offset, &kBegin, sizeof kBegin);
  }
  auto file = ElfFile::read(std::make_shared<BufferMemory>(std::move(bytes)), kSize, "evil", kSize);
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->relocated_pointers().size(), kSize / 8);
}

}  // namespace
}  // namespace mdl::image
