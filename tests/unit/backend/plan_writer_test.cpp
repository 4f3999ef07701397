// The file itself: sections, symbols, relocations and checksum as docs/plan-format.md says,
// read here with nothing but <elf.h>; the same bytes every time.
#include "backend/plan_writer.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "backend/mc_emitter.h"
#include "base/digest.h"
#include "compiler/ir/text.h"

namespace mdl::backend {
namespace {

constexpr const char* kSnippets = R"(
snippet calls_entry at entry temps 0 labels 0 from 0:1:1 {
  cell calls counter
  add_cell calls, 1
}
snippet $odd_return at return temps 2 labels 1 from 0:2:1 {
  cell other counter
  cell calls counter
  constant {"kind":"selected","number":2,"position":[0,0,0]}
  %0 = constant 0
  %1 = result
  %0 = add %0, %1
  store calls, %0
}
snippet empty_entry at entry temps 0 labels 0 from 0:3:1 {
}
)";

Program program() {
  auto parsed = ir::parse(kSnippets);
  EXPECT_TRUE(parsed) << parsed.error().text;
  return {{}, *parsed};
}

const Target& target() {
  return *find_target("x86_64");
}

std::vector<std::byte> written(const Program& program) {
  std::vector<RefusedSnippet> refusals;
  PlanText plan = make_plan(program, target(), refusals);
  EXPECT_TRUE(refusals.empty());
  auto bytes = write_plan(plan, target(), target().cpu);
  EXPECT_TRUE(bytes) << bytes.error().text;
  return *bytes;
}

// The object, taken apart.
struct Object {
  explicit Object(std::vector<std::byte> from) : bytes(std::move(from)) {
    header = at<Elf64_Ehdr>(0);
    Elf64_Shdr names = section(header.e_shstrndx);
    for (int i = 0; i < header.e_shnum; i++) sections[text(names, section(i).sh_name)] = section(i);
    Elf64_Shdr symtab = sections[".symtab"];
    for (size_t i = 0; i < symtab.sh_size / sizeof(Elf64_Sym); i++) {
      symbols.push_back(at<Elf64_Sym>(symtab.sh_offset + i * sizeof(Elf64_Sym)));
      symbol_names.push_back(text(section(static_cast<int>(symtab.sh_link)), symbols.back().st_name));
    }
    Elf64_Shdr rela = sections[".rela.text"];
    for (size_t i = 0; i < rela.sh_size / sizeof(Elf64_Rela); i++)
      relocations.push_back(at<Elf64_Rela>(rela.sh_offset + i * sizeof(Elf64_Rela)));
  }
  template <typename T>
  T at(size_t offset) const {
    T result{};
    std::memcpy(&result, bytes.data() + offset, sizeof result);
    return result;
  }
  Elf64_Shdr section(int index) const {
    return at<Elf64_Shdr>(header.e_shoff + static_cast<size_t>(index) * sizeof(Elf64_Shdr));
  }
  std::string text(const Elf64_Shdr& table, size_t offset) const {
    return reinterpret_cast<const char*>(bytes.data() + table.sh_offset + offset);
  }
  std::string contents(const std::string& name) {
    const Elf64_Shdr& s = sections[name];
    return std::string(reinterpret_cast<const char*>(bytes.data() + s.sh_offset), s.sh_size);
  }
  const Elf64_Sym& symbol(const std::string& name) const {
    auto found = std::find(symbol_names.begin(), symbol_names.end(), name);
    EXPECT_NE(found, symbol_names.end()) << name;
    return symbols[static_cast<size_t>(found - symbol_names.begin())];
  }

  std::vector<std::byte> bytes;
  Elf64_Ehdr header;
  std::map<std::string, Elf64_Shdr> sections;
  std::vector<Elf64_Sym> symbols;
  std::vector<std::string> symbol_names;
  std::vector<Elf64_Rela> relocations;
};

TEST(PlanWriter, IsARelocatableObjectWithFunctions) {
  Object object(written(program()));
  EXPECT_EQ(object.header.e_type, ET_REL);
  EXPECT_EQ(object.header.e_machine, EM_X86_64);
  for (const char* name : {"mdl.guard", "calls_entry", "$odd_return", "empty_entry"}) {
    const Elf64_Sym& symbol = object.symbol(name);
    EXPECT_EQ(ELF64_ST_TYPE(symbol.st_info), STT_FUNC) << name;
    EXPECT_EQ(ELF64_ST_BIND(symbol.st_info), STB_GLOBAL) << name;
    EXPECT_LE(symbol.st_value + symbol.st_size, object.sections[".text"].sh_size) << name;
  }
  EXPECT_EQ(object.symbol("calls_entry").st_size, 8u);  // addq $1, disp32(%r11)
  EXPECT_EQ(object.symbol("empty_entry").st_size, 0u);
  // No local labels, no file name: the null symbol is the only local one.
  EXPECT_EQ(object.sections[".symtab"].sh_info, 1u);
  EXPECT_EQ(object.sections.size(), 7u);  // with the null section
}

TEST(PlanWriter, HolesAreRelocationsAgainstReservedSymbols) {
  Object object(written(program()));
  std::vector<std::string> holes;
  for (const Elf64_Rela& r : object.relocations) {
    const std::string& symbol = object.symbol_names[ELF64_R_SYM(r.r_info)];
    EXPECT_EQ(object.symbol(symbol).st_shndx, SHN_UNDEF);
    holes.push_back(symbol + " " + std::to_string(ELF64_R_TYPE(r.r_info)) + " " + std::to_string(r.r_addend));
  }
  const std::string signed32 = " " + std::to_string(R_X86_64_32S) + " 0";
  const std::vector<std::string> expected = {
      "mdl_guard" + signed32, "mdl_next " + std::to_string(R_X86_64_PLT32) + " -4", "mdl_cell_0" + signed32,
      "mdl_const_0 " + std::to_string(R_X86_64_64) + " 0", "mdl_cell_1" + signed32};
  EXPECT_EQ(holes, expected);
  // addq $1, disp32(%r11): 49 83 83 disp32 01. The hole is the displacement.
  const std::string code = object.contents(".text").substr(object.symbol("calls_entry").st_value, 8);
  EXPECT_EQ(code, std::string("\x49\x83\x83\0\0\0\0\x01", 8));
  EXPECT_EQ(object.relocations[2].r_offset, object.symbol("calls_entry").st_value + 3);
  // je rel32: 0f 84, never the 8-bit form.
  EXPECT_EQ(object.contents(".text").substr(8, 6), std::string("\x0f\x84\0\0\0\0", 6));
}

TEST(PlanWriter, ManifestSaysWhatTheCodeDoes) {
  Object object(written(program()));
  auto manifest = format::read_manifest(object.contents(format::kManifestSection));
  ASSERT_TRUE(manifest) << manifest.error().text;
  EXPECT_EQ(manifest->target, "x86_64");
  EXPECT_EQ(manifest->features, (std::vector<std::string>{"counters", "entry-return"}));
  ASSERT_EQ(manifest->stencils.size(), 3u);
  const format::StencilInfo& calls = manifest->stencils[0];
  EXPECT_EQ(calls.cells, (std::vector<format::CellUse>{{"calls", format::CellKind::counter, true, true}}));
  EXPECT_EQ(calls.clobbers, std::vector<std::string>());
  EXPECT_TRUE(calls.writes_flags);
  EXPECT_EQ(calls.instructions, 1u);
  const format::StencilInfo& odd = manifest->stencils[1];
  EXPECT_EQ(odd.point, format::PointKind::return_);
  ASSERT_EQ(odd.constants.size(), 1u);
  EXPECT_EQ(odd.constants[0].number, 2);
  EXPECT_EQ(odd.cells[0], (format::CellUse{"other", format::CellKind::counter, false, false}));
  EXPECT_EQ(odd.cells[1], (format::CellUse{"calls", format::CellKind::counter, false, true}));
  EXPECT_FALSE(manifest->stencils[2].writes_flags);
  EXPECT_EQ(manifest->stencils[2].instructions, 0u);
}

TEST(PlanWriter, ChecksumCoversTheFile) {
  Object object(written(program()));
  const Elf64_Shdr& section = object.sections[format::kChecksumSection];
  ASSERT_EQ(section.sh_size, 32u);
  auto begin = object.bytes.begin() + static_cast<std::ptrdiff_t>(section.sh_offset);
  std::vector<std::byte> stored(begin, begin + 32);
  std::fill(begin, begin + 32, std::byte{0});
  auto digest = sha256(object.bytes);
  EXPECT_TRUE(std::equal(stored.begin(), stored.end(), digest.begin()));
  // FIPS 180-2, example B.1.
  const std::byte abc[] = {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  EXPECT_EQ(sha256(abc)[0], std::byte{0xba});
  EXPECT_EQ(sha256(abc)[31], std::byte{0xad});
}

TEST(PlanWriter, SameProgramSameBytes) {
  EXPECT_EQ(written(program()), written(program()));
}

TEST(PlanWriter, NamesTheFeaturesOfItsPoints) {
  Program calls = program();
  calls.snippets[0].point = format::PointKind::call_before;
  std::vector<RefusedSnippet> refusals;
  PlanText plan = make_plan(calls, target(), refusals);
  EXPECT_TRUE(refusals.empty());
  EXPECT_EQ(plan.manifest.features, (std::vector<std::string>{"calls", "counters", "entry-return"}));
}

TEST(PlanWriter, NamesTheFeaturesOfItsKeys) {
  const auto features = [](std::vector<format::KeyName> names) {
    Program of = program();
    format::Metric& metric = of.manifest.metrics.emplace_back();
    for (const format::KeyName name : names) metric.keys.push_back({"key", name});
    std::vector<RefusedSnippet> refusals;
    return make_plan(of, target(), refusals).manifest.features;
  };
  using enum format::KeyName;
  using testing::Contains;
  EXPECT_THAT(features({str, number}), Contains("text-keys"));
  EXPECT_THAT(features({str, number}), testing::Not(Contains("several-text-keys")));
  EXPECT_THAT(features({str, number, str}),
              testing::IsSupersetOf({"text-keys", "several-keys", "several-text-keys"}));
  for (const format::KeyName name : {file, socket, descriptor}) {
    EXPECT_THAT(features({name, number}), testing::IsSupersetOf({"descriptor-keys", "text-keys"}));
    EXPECT_THAT(features({name, str}), Contains("several-text-keys"));
    EXPECT_THAT(features({name}), testing::Not(Contains("lock-keys")));
  }
  EXPECT_THAT(features({mutex, fd}), testing::Not(Contains("descriptor-keys")));
  EXPECT_THAT(features({memory}), Contains("memory-keys"));
  EXPECT_THAT(features({mutex, fd}), testing::Not(Contains("memory-keys")));
  EXPECT_THAT(features({site}), Contains("site-keys"));
  EXPECT_THAT(features({mutex, fd}), testing::Not(Contains("site-keys")));
}

TEST(PlanWriter, DoesNotWriteWhatNoReaderAccepts) {
  Program wrong = program();
  wrong.manifest.lists = {{"twice", "procedure", {}, {}, false, {}},
                          {"twice", "procedure", {}, {}, false, {}}};
  std::vector<RefusedSnippet> refusals;
  auto bytes = write_plan(make_plan(wrong, target(), refusals), target(), target().cpu);
  ASSERT_FALSE(bytes);
  EXPECT_NE(bytes.error().text.find("two of its lists"), std::string::npos);
}

TEST(PlanWriter, UnknownProcessor) {
  EXPECT_TRUE(check_cpu(target().triple, "x86-64-v3", {}));
  EXPECT_FALSE(check_cpu(target().triple, "z80", {}));
  // A counter on aarch64 is one instruction of armv8.1-a.
  const Target& arm = *find_target("aarch64");
  EXPECT_TRUE(check_cpu(arm.triple, arm.cpu, arm.required));
  auto old = check_cpu(arm.triple, "cortex-a72", arm.required);
  ASSERT_FALSE(old);
  EXPECT_NE(old.error().text.find("cortex-a72 does not have \"lse\""), std::string::npos);
  EXPECT_EQ(native_cpu(arm.triple), "");
  std::vector<RefusedSnippet> refusals;
  auto bytes = write_plan(make_plan(program(), target(), refusals), target(), "z80");
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().status, Status::usage);
}

TEST(Assembler, QuotesTheLineItCannotRead) {
  auto bytes = assemble(target().triple, target().cpu, "\tfrobnicate %rax\n", {});
  ASSERT_FALSE(bytes);
  EXPECT_NE(bytes.error().text.find("frobnicate %rax"), std::string::npos);
}

}  // namespace
}  // namespace mdl::backend
