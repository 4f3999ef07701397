// Images of running programs of every kind, and of files that are damaged.
#include "runtime/image/image.h"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>

#include "runtime/image/elf.h"
#include "runtime/image/frames.h"
#include "runtime/image/object.h"
#include "tests/unit/runtime/image/program.h"

namespace mdl::image {
namespace {

using testing::Folder;
using testing::Program;

const Function* find(const Object& object, const std::string& name) {
  for (const Function& function : object.functions)
    if (function.name == name) return &function;
  return nullptr;
}

TEST(Maps, Lines) {
  Result<std::vector<Mapping>> maps = parse_maps(
      "55d0c0a00000-55d0c0a02000 r-xp 00001000 08:01 1234 /opt/with space/prog (deleted)\n"
      "7ffd0a000000-7ffd0a021000 rw-p 00000000 00:00 0\n"
      "7f0000000000-7f0000001000 rw-s 00000000 00:05 77                        /dev/zero\n"
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n");
  ASSERT_TRUE(maps);
  ASSERT_EQ(maps->size(), 4u);
  EXPECT_EQ((*maps)[0].start, 0x55d0c0a00000u);
  EXPECT_EQ((*maps)[0].end, 0x55d0c0a02000u);
  EXPECT_EQ((*maps)[0].offset, 0x1000u);
  EXPECT_EQ((*maps)[0].inode, 1234u);
  EXPECT_EQ((*maps)[0].path, "/opt/with space/prog (deleted)");
  EXPECT_TRUE((*maps)[0].read && (*maps)[0].execute && !(*maps)[0].write && !(*maps)[0].shared);
  EXPECT_EQ((*maps)[1].path, "");
  EXPECT_TRUE((*maps)[2].shared);
  EXPECT_EQ((*maps)[3].path, "[vsyscall]");
}

TEST(Maps, WhatIsNoLineIsRefused) {
  for (const char* text :
       {"x\n", "10-\n", "20-10 r-xp 0 0:0 0\n", "10-20 r-x", "10-20 r-xp zz 0:0 0\n", "\n"}) {
    Result<std::vector<Mapping>> maps = parse_maps(text);
    EXPECT_FALSE(maps) << text;
  }
  EXPECT_TRUE(parse_maps(""));
}

TEST(Maps, NoProcessIsSaid) {
  Result<Image> image = read_image(0x3fffffff);
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().text.find("there is no process 1073741823"), std::string::npos)
      << image.error().text;
}

struct How {
  std::string options;
  bool strip;
};
void PrintTo(const How& how, std::ostream* out) {
  *out << how.options << (how.strip ? ", stripped" : "");
}

class ImageOfBuild : public ::testing::TestWithParam<How> {
 protected:
  // The address that the program itself would print, by the linker's table.
  static uint64_t in_file(const std::string& path, const std::string& symbol) {
    std::string command = "nm -D " + path + " 2>/dev/null; nm " + path + " 2>/dev/null";
    FILE* pipe = popen(command.c_str(), "r");
    char line[4096];
    uint64_t found = 0;
    while (fgets(line, sizeof line, pipe)) {
      char name[4096], type;
      unsigned long long address;
      if (sscanf(line, "%llx %c %s", &address, &type, name) == 3 && symbol == name) found = address;
    }
    pclose(pipe);
    return found;
  }
};

TEST_P(ImageOfBuild, MainProgramAndItsFunctions) {
  Folder folder;
  std::string path = testing::build(folder, "g++", "functions.cc", GetParam().options);
  ASSERT_FALSE(HasFatalFailure());
  uint64_t address = in_file(path, "s_recursive");
  ASSERT_NE(address, 0u);
  if (GetParam().strip) testing::run("strip " + path);
  Program program({path});
  ASSERT_TRUE(program.continue_to(SIGSTOP));
  Result<Image> image = read_image(program.pid());
  ASSERT_TRUE(image) << image.error().text;
  const Object& main = image->objects.front();
  EXPECT_TRUE(main.is_main);
  EXPECT_EQ(main.name, "functions");
  EXPECT_EQ(main.path, path);
  EXPECT_EQ(main.build_id.size(), 40u);
  const Function* function = find(main, "s_recursive");
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(function->address, address + main.bias);
  EXPECT_GT(function->size, 8u);
  EXPECT_EQ(object_at(*image, function->address), &main);
  EXPECT_EQ(function_at(main, function->address + function->size - 1), function);
  EXPECT_NE(function_at(main, function->address + function->size), function);
  // The bytes are where the image says: the file's and the memory's agree.
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> bytes(function->size), live(function->size);
  Result<ElfFile> elf = ElfFile::read(std::make_shared<FileMemory>(open(path.c_str(), O_RDONLY | O_CLOEXEC)),
                                      std::filesystem::file_size(path), path);
  ASSERT_TRUE(elf);
  ASSERT_TRUE(LiveMemory(program.pid()).read(function->address, live));
  EXPECT_EQ(elf->at_address(address, function->size), live);
  for (const Range& unused : main.unused_text) {
    EXPECT_LT(unused.end - unused.start, 4096u);
    EXPECT_EQ(object_at(*image, unused.start), &main);
    EXPECT_EQ(function_at(main, unused.start), nullptr);
  }
  EXPECT_FALSE(main.unused_text.empty());
  EXPECT_FALSE(main.frames.empty());
  EXPECT_TRUE(std::is_sorted(main.functions.begin(), main.functions.end(),
                             [](const Function& a, const Function& b) { return a.address < b.address; }));
  bool has_loader = std::any_of(image->objects.begin(), image->objects.end(),
                                [](const Object& one) { return one.is_loader; });
  EXPECT_EQ(has_loader, GetParam().options.find("-static") == std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Builds, ImageOfBuild,
    ::testing::Values(How{"-O2", false}, How{"-O2 -rdynamic", true}, How{"-O2 -no-pie", false},
                      How{"-O2 -static", false}, How{"-O2 -static-pie", false},
                      How{"-O2 -Wl,-z,separate-code -Wl,-z,max-page-size=0x200000", false},
                      How{"-O2 -Wl,-z,noseparate-code", false}),
    [](const auto& info) { return "build" + std::to_string(info.index); });

TEST(ImageOf, DeletedAndReplacedFile) {
  Folder folder;
  std::string path = testing::build(folder, "g++", "functions.cc", "-O2");
  ASSERT_FALSE(HasFatalFailure());
  Program program({path});
  ASSERT_TRUE(program.continue_to(SIGSTOP));
  std::filesystem::remove(path);
  std::ofstream(path) << "something else";
  Result<Image> image = read_image(program.pid());
  // With privilege the mapped file itself is opened; without it the other file is noticed.
  if (!image) {
    EXPECT_NE(image.error().text.find("functions"), std::string::npos) << image.error().text;
    return;
  }
  EXPECT_EQ(image->objects.front().name, "functions");
  EXPECT_NE(find(image->objects.front(), "s_recursive"), nullptr);
}

TEST(ImageOf, NameIsTheOneItWasStartedBy) {
  Folder folder;
  std::string path = testing::build(folder, "g++", "functions.cc", "-O2");
  ASSERT_FALSE(HasFatalFailure());
  std::string link = folder.path() / "other-name";
  std::filesystem::create_symlink(path, link);
  Program program({link});
  ASSERT_TRUE(program.continue_to(SIGSTOP));
  Result<Image> image = read_image(program.pid());
  ASSERT_TRUE(image) << image.error().text;
  EXPECT_EQ(image->objects.front().name, "other-name");
  EXPECT_EQ(image->objects.front().aliases, std::vector<std::string>{"functions"});
}

TEST(ImageOf, LibrariesAliasesAndIndirectFunctions) {
  Result<Image> image = read_image(getpid());
  ASSERT_TRUE(image) << image.error().text;
  auto libc = std::find_if(image->objects.begin(), image->objects.end(),
                           [](const Object& one) { return one.name == "libc.so.6"; });
  ASSERT_NE(libc, image->objects.end());
  const Function* at = function_at(*libc, reinterpret_cast<uint64_t>(&getppid));
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(at->name, "getppid");
  // One address, several names.
  const Function* write = nullptr;
  for (const Function& function : libc->functions)
    if (matches(function, "write")) write = &function;
  ASSERT_NE(write, nullptr);
  EXPECT_TRUE(matches(*write, "__write"));
  EXPECT_TRUE(std::any_of(libc->functions.begin(), libc->functions.end(),
                          [](const Function& one) { return one.name == "memcpy" && one.is_ifunc; }));
  for (size_t i = 1; i < libc->functions.size(); ++i)
    EXPECT_LT(libc->functions[i - 1].address, libc->functions[i].address);
  EXPECT_NE(image->vdso_frames, nullptr);
}

// An object whose functions nobody looks at keeps those that have symbols; one that is wanted is as if it had been read
// whole at once.
TEST(ImageOf, FunctionsWithoutSymbolsWhereTheyAreWanted) {
  Result<Image> whole = read_image(getpid());
  Result<Image> image = read_image(getpid(), Depth::named);
  ASSERT_TRUE(whole && image);
  EXPECT_FALSE(*read_wanted(*image));
  ASSERT_EQ(image->objects.size(), whole->objects.size());
  const auto is_libc = [](const Object& one) { return one.name == "libc.so.6"; };
  const Object& libc = *std::ranges::find_if(image->objects, is_libc);
  EXPECT_NE(function_at(libc, reinterpret_cast<uint64_t>(&getppid)), nullptr);
  ASSERT_TRUE(*read_wanted(*image));
  EXPECT_FALSE(*read_wanted(*image));
  for (size_t i = 0; i < image->objects.size(); ++i) {
    const Object &one = image->objects[i], &other = whole->objects[i];
    EXPECT_LE(one.functions.named().size(), other.functions.size()) << one.name;
    if (!is_libc(one)) continue;
    ASSERT_EQ(one.functions.size(), other.functions.size());
    EXPECT_EQ(one.parts.size(), other.parts.size());
    for (size_t f = 0; f < one.functions.size(); ++f) {
      EXPECT_EQ(one.functions[f].name, other.functions[f].name);
      EXPECT_EQ(one.functions[f].aliases, other.functions[f].aliases);
      EXPECT_EQ(one.functions[f].address, other.functions[f].address);
    }
  }
  size_t before = 0, after = 0;
  for (const Object& one : image->objects) before += one.functions.named().size();
  want_all(*image);
  ASSERT_TRUE(*read_wanted(*image));
  for (size_t i = 0; i < image->objects.size(); ++i) {
    EXPECT_EQ(image->objects[i].functions.size(), whole->objects[i].functions.size());
    after += image->objects[i].functions.size();
  }
  EXPECT_GT(after, before);
}

TEST(Names, Demangled) {
  EXPECT_EQ(demangle("main").full, "main");
  EXPECT_EQ(demangle("_ZN2ns1fEi").full, "ns::f(int)");
  EXPECT_EQ(demangle("_ZN2ns1fEi").plain, "ns::f");
  EXPECT_EQ(demangle("_Z1gIiEvT_").full, "void g<int>(int)");
  EXPECT_EQ(demangle("_Z1gIiEvT_").plain, "g<int>");
  EXPECT_EQ(demangle("_Znot a name").full, "_Znot a name");
  EXPECT_EQ(demangle("_ZN1r4shop4Till3add17h0f78d65280625075E").plain, "r::shop::Till::add");
  EXPECT_EQ(demangle("_ZN1r4shop4Till3add17h0f78d65280625075E").full,
            "r::shop::Till::add::h0f78d65280625075");
  EXPECT_EQ(
      demangle("_ZN59_$LT$dyn$u20$core..any..Any$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE")
          .plain,
      "<dyn core::any::Any as core::fmt::Debug>::fmt");
  EXPECT_EQ(demangle("_RNvCsaT8vuFQyY2E_5crate4func").plain, demangle("_RNvCsaT8vuFQyY2E_5crate4func").full);
}

Function named(const std::string& name, std::vector<std::string> aliases = {}) {
  Function function;
  function.name = name;
  function.aliases = std::move(aliases);
  return function;
}

TEST(Names, Match) {
  EXPECT_TRUE(matches(named("f"), "f"));
  EXPECT_FALSE(matches(named("f"), "g"));
  EXPECT_TRUE(matches(named("x", {"y", "z"}), "z"));
  Function method = named("_ZN2ns5Class6methodEiPKc");
  EXPECT_TRUE(matches(method, "_ZN2ns5Class6methodEiPKc"));
  EXPECT_TRUE(matches(method, "ns::Class::method"));
  EXPECT_TRUE(matches(method, "ns::Class::method(int, char const*)"));
  EXPECT_FALSE(matches(method, "method"));
  EXPECT_FALSE(matches(method, "ns::Class::method(int)"));
  EXPECT_TRUE(matches(named("x", {"_ZN2ns5Class6methodEiPKc"}), "ns::Class::method"));
  EXPECT_TRUE(matches(named("_ZN2ns5ClassC1Ev"), "ns::Class::Class"));
  EXPECT_TRUE(matches(named("_ZN2ns5ClassD1Ev"), "ns::Class::~Class"));
  EXPECT_TRUE(matches(named("_ZN2ns5ClassplERKS0_"), "ns::Class::operator+"));
  EXPECT_TRUE(matches(named("_ZN12_GLOBAL__N_11fEv"), "(anonymous namespace)::f"));
  EXPECT_TRUE(matches(named("_ZNSsC1EPKcRKSaIcE"), demangle("_ZNSsC1EPKcRKSaIcE").plain));
  EXPECT_TRUE(matches(named("_Z1gIiEvT_"), "g<int>"));
  EXPECT_TRUE(matches(named("_Z1gIiEvT_"), "void g<int>(int)"));
}

// A file of two segments of code; the second one begins in the page in which the first one, of this size, ends.
Result<ElfFile> file_of_two_segments(uint64_t first_size) {
  std::vector<std::byte> bytes(0x4000);
  const Elf64_Ehdr header{
      .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
      .e_type = ET_DYN,
      .e_machine = EM_X86_64,
      .e_version = EV_CURRENT,
      .e_entry = 0,
      .e_phoff = sizeof(Elf64_Ehdr),
      .e_shoff = 0,
      .e_flags = 0,
      .e_ehsize = sizeof(Elf64_Ehdr),
      .e_phentsize = sizeof(Elf64_Phdr),
      .e_phnum = 2,
      .e_shentsize = 0,
      .e_shnum = 0,
      .e_shstrndx = 0};
  auto code = [](uint64_t offset, uint64_t address, uint64_t size) {
    return Elf64_Phdr{PT_LOAD, PF_R | PF_X, offset, address, address, size, size, 0x1000};
  };
  const Elf64_Phdr segments[] = {code(0, 0, first_size), code(first_size, first_size + 0x1000, 0x1800)};
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, segments, sizeof segments);
  return ElfFile::read(std::make_shared<BufferMemory>(std::move(bytes)), 0x4000, "a test");
}

Mapping code_mapping(uint64_t start, uint64_t end, uint64_t offset) {
  Mapping mapping;
  mapping.start = start;
  mapping.end = end;
  mapping.offset = offset;
  mapping.read = mapping.execute = true;
  return mapping;
}

TEST(Bias, OfAPageThatTwoSegmentsOfCodeMap) {
  Result<ElfFile> file = file_of_two_segments(0x2030);
  ASSERT_TRUE(file);
  const Mapping first = code_mapping(0x500000, 0x503000, 0),
                second = code_mapping(0x503000, 0x505000, 0x2000);
  const Mapping* both[] = {&first, &second};
  for (const Mapping* mapping : both) EXPECT_EQ(bias_of(*file, *mapping, both), 0x500000u);
  EXPECT_EQ(bias_of(*file, second), 0x500000u);
  // The same two of which the program has given the first one's last page other rights for a while.
  const Mapping head = code_mapping(0x500000, 0x502000, 0), tail = code_mapping(0x502000, 0x503000, 0x2000);
  const Mapping* pieces[] = {&head, &tail, &second};
  for (const Mapping* mapping : pieces) EXPECT_EQ(bias_of(*file, *mapping, pieces), 0x500000u);
}

TEST(Bias, OfTwoSegmentsInTheFirstPage) {
  Result<ElfFile> file = file_of_two_segments(0xef8);
  ASSERT_TRUE(file);
  const Mapping first = code_mapping(0x500000, 0x501000, 0), second = code_mapping(0x501000, 0x503000, 0);
  const Mapping* both[] = {&first, &second};
  for (const Mapping* mapping : both) EXPECT_EQ(bias_of(*file, *mapping, both), 0x500000u);
}

// The whole way from a file's bytes to functions and frames, on bytes that may be anything.
void read_all(std::vector<std::byte> bytes) {
  uint64_t size = bytes.size();
  Result<ElfFile> file = ElfFile::read(std::make_shared<BufferMemory>(std::move(bytes)), size, "a test");
  if (!file) {
    EXPECT_NE(file.error().text, "");
    return;
  }
  Mapping mapping;
  mapping.start = 0x400000;
  mapping.end = 0x500000;
  mapping.read = mapping.execute = true;
  uint64_t bias = bias_of(*file, mapping).value_or(0);
  Object object;
  const Mapping* mappings[] = {&mapping};
  describe(*file, mappings, bias, object);
  add_functions(*file, object);
  for (const Function& function : object.functions)
    EXPECT_TRUE(mapping.start <= function.address && function.address < mapping.end);
  if (!object.frame_table) return;
  for (const Fde& entry : object.frame_table->entries())
    (void)object.frame_table->row_at(entry, entry.start + 3);
}

class DamagedFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::build(folder_, "g++", "stacks.cc", "-O1 -g0 -s -rdynamic");
    std::ifstream file(path, std::ios::binary);
    std::vector<char> text((std::istreambuf_iterator<char>(file)), {});
    sound_.resize(text.size());
    std::memcpy(sound_.data(), text.data(), text.size());
    ASSERT_GT(sound_.size(), 4096u);
  }
  Folder folder_;
  std::vector<std::byte> sound_;
};

TEST_F(DamagedFile, CutOff) {
  for (size_t size = 0; size < sound_.size(); size += size < 1024 ? 7 : 311)
    read_all({sound_.begin(), sound_.begin() + static_cast<ptrdiff_t>(size)});
}

TEST_F(DamagedFile, BitsFlipped) {
  // Each byte of the headers, and a spread of the rest.
  uint64_t headers = 64 + 14 * 56;
  for (size_t at = 0; at < sound_.size(); at += at < headers || at + 2048 > sound_.size() ? 1 : 97) {
    for (std::byte value : {std::byte{0}, std::byte{0x7f}, std::byte{0xff}}) {
      std::vector<std::byte> bytes = sound_;
      bytes[at] = value;
      read_all(std::move(bytes));
    }
  }
}

TEST_F(DamagedFile, OtherFilesAreRefusedInWords) {
  auto refused = [](std::vector<std::byte> bytes) {
    uint64_t size = bytes.size();
    Result<ElfFile> file = ElfFile::read(std::make_shared<BufferMemory>(std::move(bytes)), size, "x.so");
    EXPECT_FALSE(file);
    return file ? std::string() : file.error().text;
  };
  EXPECT_NE(refused({}).find("only 0 bytes"), std::string::npos);
  EXPECT_NE(refused(std::vector<std::byte>(100)).find("magic number"), std::string::npos);
  std::vector<std::byte> narrow = sound_;
  narrow[4] = std::byte{1};  // ELFCLASS32
  EXPECT_NE(refused(narrow).find("32-bit"), std::string::npos);
  std::vector<std::byte> cut(sound_.begin(), sound_.begin() + 100);
  EXPECT_NE(refused(cut).find("program headers"), std::string::npos);
}

}  // namespace
}  // namespace mdl::image
