// Reading plans: a good one in full, and each way to be damaged, foreign or hostile.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "runtime/plan/object_file.h"
#include "runtime/plan/plan.h"
#include "tests/unit/runtime/plan/plan_builder.h"

namespace mdl::plan {
namespace {

using test::Object;
using testing::HasSubstr;

Object good() {
  return test::object_of(test::small_manifest(), test::small_stencils());
}

std::string why(const std::vector<std::byte>& bytes) {
  const auto plan = read_plan(bytes);
  if (plan) return "";
  EXPECT_EQ(plan.error().status, Status::plan_rejected);
  return plan.error().text;
}
std::string why(const Object& object) {
  return why(write(object));
}

TEST(PlanReader, ReadsAGoodPlan) {
  const auto plan = read_plan(write(good()));
  ASSERT_TRUE(plan) << plan.error().text;
  ASSERT_EQ(plan->stencils.size(), 3u);
  EXPECT_EQ(plan->manifest.metrics[0].id, "calls");
  const auto expected = test::small_stencils();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plan->stencils[i].info, expected[i].info);
    EXPECT_EQ(plan->stencils[i].code, expected[i].code);
    ASSERT_EQ(plan->stencils[i].holes.size(), expected[i].holes.size());
  }
  const Hole& anomalies = plan->stencils[2].holes[2];
  EXPECT_EQ(anomalies.kind, HoleKind::anomalies);
  EXPECT_EQ(anomalies.offset, expected[2].holes[2].offset);
  ASSERT_EQ(plan->guard.holes.size(), 2u);
  EXPECT_EQ(plan->guard.holes[0].kind, HoleKind::guard);
  EXPECT_EQ(plan->guard.holes[1].kind, HoleKind::next);
  EXPECT_EQ(plan->guard.holes[1].addend, -4);
}

TEST(PlanReader, ReadsAConstantOf8Bytes) {
  auto stencils = test::small_stencils();
  stencils[0] = test::stencil("calls_entry", "49 ba [const1:8] 4d 01 93 [cell0]");
  stencils[0].info.cells = {{"calls", format::CellKind::counter, false, true}};
  const auto plan = read_plan(write(test::object_of(test::small_manifest(), stencils)));
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(plan->stencils[0].holes[0].size, 8);
  EXPECT_EQ(plan->stencils[0].holes[0].index, 1u);
}

TEST(PlanReader, NoticesAnyFlippedBit) {
  const std::vector<std::byte> bytes = write(good());
  for (size_t at = 0; at < bytes.size(); at += 7) {
    std::vector<std::byte> damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    EXPECT_NE(why(damaged), "") << at;
  }
}

TEST(PlanReader, NoticesAnyTruncation) {
  const std::vector<std::byte> bytes = write(good());
  for (size_t size = 0; size < bytes.size(); size += 5)
    EXPECT_NE(why({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)}), "") << size;
}

// Beyond the checksum: every header and table mangled, with a checksum that is right.
TEST(PlanReader, SurvivesMangledTables) {
  const std::vector<std::byte> bytes = write(good());
  std::mt19937 random(1);
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::byte> mangled = bytes;
    for (int change = 0; change < 3; ++change) {
      const size_t at = random() % mangled.size();
      mangled[at] = static_cast<std::byte>(random());
    }
    test::seal(mangled);
    const auto plan = read_plan(mangled);
    if (!plan) {
      EXPECT_EQ(plan.error().status, Status::plan_rejected);
    }
  }
}

TEST(PlanReader, RefusesOtherFiles) {
  EXPECT_NE(why(std::vector<std::byte>{}), "");
  EXPECT_THAT(why(std::vector<std::byte>(4096)), HasSubstr("not an ELF file"));
  Object object = good();
  object.type = ET_EXEC;
  EXPECT_THAT(why(object), HasSubstr("relocatable"));
  object = good();
  object.machine = EM_AARCH64;
  EXPECT_THAT(why(object), HasSubstr("machine 183"));
  format::Manifest manifest = test::small_manifest();
  manifest.target = "aarch64";
  object = test::object_of(manifest, test::small_stencils());
  EXPECT_THAT(why(object), HasSubstr("it is for aarch64, and this mdl-inject is for x86_64"));
  EXPECT_THAT(why(object), HasSubstr("mdlc --target=x86_64"));
}

TEST(PlanReader, NeedsEachSection) {
  const std::vector<std::byte> bytes = write(good());
  for (const char* name : {".text", ".mdl.manifest", ".mdl.checksum"}) {
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    // The section's name is in .shstrtab, the file's last section.
    text[text.rfind(std::string(1, '\0') + name + std::string(1, '\0')) + 1] = 'x';
    std::vector<std::byte> renamed(bytes.size());
    std::memcpy(renamed.data(), text.data(), text.size());
    test::seal(renamed);
    EXPECT_THAT(why(renamed), HasSubstr(std::string("no section `") + name)) << name;
  }
}

TEST(PlanReader, RefusesABadManifest) {
  Object object = good();
  object.manifest = "{";
  EXPECT_NE(why(object), "");
  object.manifest = "";
  EXPECT_NE(why(object), "");
}

TEST(PlanReader, NeedsEachStencilsCode) {
  Object object = good();
  object.symbols[0].name = "another";
  EXPECT_THAT(why(object), HasSubstr("`calls_entry` has no code"));
  object = good();
  object.symbols[0].type = STT_OBJECT;
  EXPECT_THAT(why(object), HasSubstr("`calls_entry` has no code"));
  object = good();
  object.symbols[0].section = 0;
  EXPECT_THAT(why(object), HasSubstr("`calls_entry` has no code"));
  for (const uint16_t section : {3, 200, SHN_ABS & 0xffff, SHN_XINDEX & 0xffff}) {
    object = good();
    object.symbols[0].section = section;
    EXPECT_THAT(why(object), HasSubstr("not in `.text`"));
  }
  object = good();
  object.symbols[3].name = "guard";
  EXPECT_THAT(why(object), HasSubstr("`mdl.guard` has no code"));
  object = good();
  object.symbols.push_back(object.symbols[0]);
  EXPECT_THAT(why(object), HasSubstr("two functions"));
}

TEST(PlanReader, BoundsEachStencil) {
  Object object = good();
  object.symbols[3].size += 1;
  EXPECT_THAT(why(object), HasSubstr("reaches out of"));
  object = good();
  object.symbols[0].offset = UINT64_MAX - 3;
  EXPECT_THAT(why(object), HasSubstr("reaches out of"));
  object = good();
  object.symbols[0].size = 65537;
  EXPECT_THAT(why(object), HasSubstr("limit"));
  object = good();
  object.symbols[0].size += 1;
  EXPECT_THAT(why(object), HasSubstr("overlap"));
}

TEST(PlanReader, ChecksRelocations) {
  const auto with = [](auto change) {
    Object object = good();
    change(object.relocations[0]);  // of calls_entry: the displacement of its cell
    return why(object);
  };
  using R = test::Relocation;
  EXPECT_THAT(with([](R& r) { r.symbol = "printf"; }), HasSubstr("not a reserved symbol"));
  EXPECT_THAT(with([](R& r) { r.symbol = "calls_entry"; }), HasSubstr("not a reserved symbol"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_cell_"; }), HasSubstr("not a reserved symbol"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_cell_00"; }), HasSubstr("not a reserved symbol"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_cell_-1"; }), HasSubstr("not a reserved symbol"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_cell_4294967296"; }), HasSubstr("not a reserved symbol"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_cell_1"; }), HasSubstr("cell 1 is not declared"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_const_0"; }), HasSubstr("constant 0 is not declared"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_guard"; }), HasSubstr("only the guard"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_next"; }), HasSubstr("does not fit"));
  EXPECT_THAT(with([](R& r) { r.type = R_X86_64_PC32; }), HasSubstr("does not fit"));
  EXPECT_THAT(with([](R& r) { r.type = R_X86_64_GOTPCREL; }), HasSubstr("no plan may use"));
  EXPECT_THAT(with([](R& r) { r.type = R_X86_64_64; }), HasSubstr("not inside a stencil"));
  EXPECT_THAT(with([](R& r) { r.addend = 8; }), HasSubstr("adds to the offset"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_symbol_0"; }), HasSubstr("symbol 0 is not declared"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_symbol_left_0"; }), HasSubstr("symbol 0 is not declared"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_symbol_up_0"; }), HasSubstr("not a reserved symbol"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_routine_cpu"; }), HasSubstr("routine `cpu` is not declared"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_routine_fly"; }), HasSubstr("not a reserved symbol"));
  EXPECT_THAT(with([](R& r) { r.symbol = "mdl_thread", r.type = R_X86_64_8; }), HasSubstr("wrong size"));
  EXPECT_THAT(with([](R& r) { r.offset = 5; }), HasSubstr("not inside a stencil"));
  EXPECT_THAT(with([](R& r) { r.offset = UINT64_MAX; }), HasSubstr("not inside a stencil"));
  EXPECT_THAT(with([](R& r) { r.offset = 2; }), HasSubstr("a hole changes"));
  Object object = good();
  object.relocations.push_back(object.relocations[0]);
  EXPECT_THAT(why(object), HasSubstr("overlap"));
  object = good();
  object.relocations.erase(object.relocations.begin());
  EXPECT_THAT(why(object), HasSubstr("fixed displacement"));
  object = good();
  object.relocations.back().addend = 0;  // of the guard's `next`
  EXPECT_THAT(why(object), HasSubstr("addend must be -4"));
  object = good();
  object.relocations.pop_back();
  EXPECT_THAT(why(object), HasSubstr("guard"));
}

TEST(PlanReader, VerifiesEachStencil) {
  auto stencils = test::small_stencils();
  stencils[1].code[2] = std::byte{0x82};  // add qword ptr [r10 + flag], 1
  EXPECT_THAT(why(test::object_of(test::small_manifest(), stencils)),
              HasSubstr("stencil `procedure_entry` is not admissible"));
}

TEST(PlanReader, ReadsFiles) {
  const std::string path = testing::TempDir() + "mdl-plan-reader-test.bin";
  const std::vector<std::byte> bytes = write(good());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const auto plan = read_plan_file(path);
  EXPECT_TRUE(plan) << plan.error().text;
  std::ofstream(path, std::ios::binary) << "no plan";
  const auto bad = read_plan_file(path);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().text, HasSubstr(path));
  EXPECT_EQ(bad.error().status, Status::plan_rejected);
  std::remove(path.c_str());
  const auto none = read_plan_file(path);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text, HasSubstr("No such file"));
  EXPECT_EQ(none.error().status, Status::failed);
  EXPECT_FALSE(read_plan_file("/"));
}

}  // namespace
}  // namespace mdl::plan
