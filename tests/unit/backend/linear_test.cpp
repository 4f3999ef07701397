// Compiling is linear in the number of metrics. Time would say so only on a quiet machine; what is counted
// here is the same each time: pieces of memory, and bytes, that the compiler asks for from source to plan.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "backend/cycles.h"
#include "backend/plan_writer.h"
#include "backend/target.h"
#include "compiler/parse/parse.h"
#include "compiler/passes/passes.h"
#include "compiler/sema/analyze.h"

namespace {

#ifdef MDL_SANITIZED
constexpr size_t kMost = 240;  // which takes as long
#else
constexpr size_t kMost = 2000;
#endif

struct Work {
  uint64_t pieces = 0, bytes = 0;
};
Work work;

}  // namespace

// Not inlined: GCC would see one of a pair and call it a mismatch.
[[gnu::noinline]] void* operator new(size_t size) {
  work.pieces++;
  work.bytes += size;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  work.pieces++;
  work.bytes += size;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace mdl::backend {
namespace {

std::string metrics(size_t count) {
  std::string text =
      "constraint code /Code/*/* is counter {\n"
      "  append preInsn $constraint[0].entry (* code += 1; *)\n"
      "  prepend preInsn $constraint[0].return (* code -= 1; *)\n}\n";
  for (size_t i = 0; i < count; i++) {
    if (i % 10 == 0)
      text += fmt::format("resourceList l{} is procedure {{ items {{ \"f{}\", \"g{}\" }}; }}\n", i, i, i);
    text += fmt::format(
        "metric m{0} {{ name \"M{0}\"; units ops; aggregateOperator sum; style EventCounter; flavor {{ unix "
        "}};\n"
        "  constraint code; counter t{0};\n"
        "  base is counter {{ foreach f in l{1} {{\n"
        "    append preInsn f.entry constrained (* t{0} = $arg[0] * {0}; if (t{0} > 3 && $arg[1] != 0) m{0} "
        "+= t{0}; *)\n"
        "    append preInsn f.return (* m{0} += $return / ($thread & 7 | 1) + {0}; *)\n"
        "  }} }}\n}}\n",
        i, i - i % 10);
  }
  return text;
}

Work compile(size_t count) {
  Sources sources;
  sources.add("input.mdl", metrics(count));
  const Work before = work;
  Diagnostics diagnostics;
  std::vector<ast::File> files;
  files.push_back(parse(sources[0], Standard::mdl26, diagnostics));
  Program program = analyze(files, sources, {}, diagnostics);
  EXPECT_EQ(diagnostics.errors(), 0u) << render_text(diagnostics, sources);
  EXPECT_TRUE(passes::run_passes(program, {}));
  const Target* target = find_target("x86_64");
  std::vector<RefusedSnippet> refusals;
  PlanText plan = make_plan(program, *target, refusals);
  EXPECT_TRUE(refusals.empty());
  EXPECT_EQ(plan.manifest.metrics.size(), count);
  EXPECT_TRUE(predict(plan, *target, target->cpu));
  EXPECT_TRUE(write_plan(plan, *target, target->cpu));
  return {work.pieces - before.pieces, work.bytes - before.bytes};
}

TEST(Linear, MemoryGrowsAsTheSourceDoes) {
  compile(100);  // what is made once
  const Work small = compile(kMost / 4), middle = compile(kMost / 2), large = compile(kMost);
  auto twice = [](uint64_t a, uint64_t b, uint64_t c) {
    return static_cast<double>(c - b) / static_cast<double>(b - a);
  };
  // 2 where it is linear, 4 where it is quadratic; containers that double in size move it a little.
  EXPECT_NEAR(twice(small.pieces, middle.pieces, large.pieces), 2.0, 0.1);
  EXPECT_NEAR(twice(small.bytes, middle.bytes, large.bytes), 2.0, 0.3);
  EXPECT_GT(large.pieces, kMost * 100);
}

}  // namespace
}  // namespace mdl::backend
