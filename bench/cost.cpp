// Compares what mdlc predicts for stencils with what they take on this CPU, in a loop and without the
// site's jumps. docs/benchmarks.md explains the table.
//
// The loop runs kCopies of a stencil, each on a block of its own, so that no execution waits for the last
// one's store: what the prediction assumes. Flags and timers are first put where the longest path needs
// them. The same loop without the stencil is subtracted.
#include <fmt/format.h>
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/plan/plan.h"

namespace {

using mdl::plan::Hole;
using mdl::plan::HoleKind;
using mdl::plan::Stencil;

// Blocks are not a power of two apart: they would share one set of the cache.
constexpr size_t kCopies = 16, kBlockBytes = 2048 + 192, kCodeBytes = 1 << 16;

constexpr int64_t kAnomalies = 0, kThread = 8, kFirstCell = 64, kCellBytes = 64;

alignas(4096) char blocks[kCopies][kBlockBytes];
int64_t variable = 0x0102030405060708;

int64_t cell_offset(size_t cell) {
  return kFirstCell + static_cast<int64_t>(cell) * kCellBytes;
}

// Machine code under construction; the bytes' assembly stands behind them.
class Code {
 public:
  Code()
      : memory_(static_cast<uint8_t*>(mmap(nullptr, kCodeBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Code() { munmap(memory_, kCodeBytes); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  void bytes(std::initializer_list<uint8_t> what) {
    for (uint8_t b : what) memory_[size_++] = b;
  }
  template <typename T>
  void number(T value) {
    std::memcpy(memory_ + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  uint8_t* here() { return memory_ + size_; }
  uint8_t* begin() { return memory_; }
  void skip(size_t size) { size_ += size; }

 private:
  uint8_t* memory_;
  size_t size_ = 0;
};

void put_stencil(Code& code, const Stencil& stencil) {
  uint8_t* at = code.here();
  std::memcpy(at, stencil.code.data(), stencil.code.size());
  for (const Hole& hole : stencil.holes) {
    int64_t value = 0;
    if (hole.kind == HoleKind::cell) value = cell_offset(hole.index);
    if (hole.kind == HoleKind::anomalies) value = kAnomalies;
    if (hole.kind == HoleKind::thread) value = kThread;
    if (hole.kind == HoleKind::constant) value = 1;
    if (hole.kind == HoleKind::symbol) value = static_cast<int64_t>(reinterpret_cast<uintptr_t>(&variable));
    value += hole.addend;
    std::memcpy(at + hole.offset, &value, hole.size);
  }
  code.skip(stencil.code.size());
}

// Where the longest path begins: a flag that is up and a timer that runs at an exit, neither at an entry.
void put_cells(Code& code, const Stencil& stencil) {
  using mdl::format::CellKind;
  const bool exit = stencil.info.point == mdl::format::PointKind::return_;
  for (size_t i = 0; i < stencil.info.cells.size(); i++) {
    const CellKind kind = stencil.info.cells[i].kind;
    if (kind == CellKind::counter) continue;
    const int64_t offset = cell_offset(i) + (kind == CellKind::flag ? 0 : 8);
    code.bytes({0x49, 0xc7, 0x83});  // movq $exit, offset(%r11)
    code.number(static_cast<int32_t>(offset));
    code.number(static_cast<int32_t>(exit));
  }
}

// void loop(uint64_t count): all registers but the stack pointer are the stencil's.
void put_loop(Code& code, const Stencil& stencil, bool with_stencil) {
  code.bytes({0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, 0x57});  // push rbx rbp r12-r15 rdi
  while (reinterpret_cast<uintptr_t>(code.here()) % 64 != 0) code.bytes({0x90});   // nop
  uint8_t* top = code.here();
  for (auto& block : blocks) {
    code.bytes({0x49, 0xbb});  // movabs $block, %r11
    code.number(reinterpret_cast<uintptr_t>(block));
    code.bytes({0xb8}), code.number(1);  // mov $1, %eax
    code.bytes({0xbf}), code.number(1);  // mov $1, %edi
    code.bytes({0xba}), code.number(1);  // mov $1, %edx
    put_cells(code, stencil);
    if (with_stencil) put_stencil(code, stencil);
  }
  code.bytes({0x48, 0xff, 0x0c, 0x24});  // decq (%rsp)
  code.bytes({0x0f, 0x85});              // jne top
  code.number(static_cast<int32_t>(top - (code.here() + 4)));
  code.bytes({0x5f, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3});  // pop, ret
}

double nanoseconds_of(void (*loop)(uint64_t), uint64_t count) {
  const auto start = std::chrono::steady_clock::now();
  loop(count);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// The least of several runs: what disturbs only ever adds.
double best(void (*loop)(uint64_t), uint64_t count, int repetitions) {
  double least = INFINITY;
  for (int i = 0; i < repetitions; i++) least = std::min(least, nanoseconds_of(loop, count));
  return least;
}

// A multiplication waits for the last one and takes three cycles on every x86-64 of the last 15 years.
void multiply(uint64_t count) {
  uint64_t x = count;
  for (uint64_t i = 0; i < count; i++)
    asm volatile("imulq %0, %0\n\timulq %0, %0\n\timulq %0, %0\n\timulq %0, %0" : "+r"(x));
}
double nanoseconds_per_cycle(int repetitions) {
  return best(multiply, 1000000, repetitions) / (1000000.0 * 4 * 3);
}

using Loop = void (*)(uint64_t);
double measure(const Stencil& stencil, uint64_t count, int repetitions) {
  Code with, without;
  put_loop(with, stencil, true);
  put_loop(without, stencil, false);
  const double a = best(reinterpret_cast<Loop>(with.begin()), count, repetitions);
  const double b = best(reinterpret_cast<Loop>(without.begin()), count, repetitions);
  return std::max(0.0, a - b) / static_cast<double>(count * kCopies);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Predicted and measured cost of the stencils of a plan");
  std::string path;
  uint64_t count = 100000;
  int repetitions = 15;
  bool check = false;
  app.add_option("PLAN", path)->required();
  app.add_option("--count", count);
  app.add_option("--repetitions", repetitions);
  app.add_flag("--check", check, "status 1 when a prediction is off by more than 30 % and more than 1 ns");
  CLI11_PARSE(app, argc, argv);

  auto plan = mdl::plan::read_plan_file(path);
  if (!plan) return fmt::print(stderr, "{}\n", plan.error().text), 1;
  const double cycle = nanoseconds_per_cycle(repetitions);
  fmt::print("{}: predicted for {}, {:.3f} ns per cycle here\n", path, plan->manifest.cpu, cycle);
  fmt::print("{:<36} {:>7} {:>12} {:>11}\n", "stencil", "cycles", "predicted ns", "measured ns");
  int wrong = 0;
  for (const Stencil& stencil : plan->stencils) {
    if (!stencil.info.routines.empty()) continue;  // system calls
    const double predicted = stencil.info.cycles / 100.0 * cycle;
    const double measured = measure(stencil, count, repetitions);
    const bool off = std::abs(predicted - measured) > std::max(1.0, 0.3 * measured);
    wrong += off;
    fmt::print("{:<36} {:>7.2f} {:>12.2f} {:>11.2f}{}\n", stencil.info.name, stencil.info.cycles / 100.0,
               predicted, measured, off ? "  off" : "");
  }
  return check && wrong ? 1 : 0;
}
