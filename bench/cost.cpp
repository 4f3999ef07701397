// Compares what mdlc predicts for stencils with what they take on this CPU, without the site's jumps, and
// measures the constants that predictions are made of. docs/benchmarks.md explains the tables.
//
// A prediction is the time of one more execution that waits for no earlier one. So a loop runs 48 copies of a
// stencil, each on cells of its own; the loop itself is a few per cent. Registers that the stencil destroys
// and reads are set anew in front of each copy, timers are put where the longest path begins; both are in the
// time measured, a fraction of a cycle. Conditions decide the path on what they read: all inputs are the same
// number, a few numbers are tried, and the dearest counts.
#include <fmt/format.h>
#include <getopt.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "runtime/arch/bytes.h"
#include "runtime/arch/resident.h"
#include "runtime/arch/target_data.h"
#include "runtime/plan/plan.h"

namespace {

using mdl::format::CellKind;
using mdl::format::Routine;
using mdl::plan::Hole;
using mdl::plan::HoleKind;
using mdl::plan::Stencil;

constexpr size_t kCopies = 48, kCodeBytes = 1 << 20, kBlockBytes = 1 << 16;
constexpr int64_t kAnomalies = 0, kThread = 8, kFirstCell = 64, kCellBytes = 64;
constexpr int64_t kRaised = int64_t{1} << 40;  // a flag that a copy lowers each time and that stays up
constexpr int kAttempts = 3;  // for a stencil that is off: something else may have been running
constexpr int32_t kInputs[] = {1, 0, -1, 5000};

alignas(4096) char block[kBlockBytes];
int64_t variable = 0x0102030405060708;
int64_t application() {
  return 1;
}

uint64_t address_of(const void* what) {
  return reinterpret_cast<uintptr_t>(what);
}

int64_t cell_offset(const Stencil& stencil, size_t cell, size_t copy) {
  return kFirstCell + static_cast<int64_t>(copy * stencil.info.cells.size() + cell) * kCellBytes;
}

// Machine code under construction, the resident routines at its beginning; the bytes' assembly stands behind
// them.
class Code {
 public:
  Code()
      : memory_(static_cast<uint8_t*>(mmap(nullptr, kCodeBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    static uint64_t header[mdl::kHeaderSize / 8];
    mdl::arch::ResidentParameters parameters;
    parameters.header = address_of(header);
    const mdl::arch::Bytes resident = mdl::arch::resident_code(parameters);
    std::memcpy(memory_, resident.data(), resident.size());
    size_ = (resident.size() + 63) / 64 * 64;
    start_ = here();
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
  void call(Routine routine) {
    bytes({0xe8});
    number(static_cast<int32_t>(memory_ + mdl::arch::routine_offset(routine) - (here() + 4)));
  }
  uint64_t routine(Routine routine) const { return address_of(memory_) + mdl::arch::routine_offset(routine); }
  uint8_t* here() { return memory_ + size_; }
  void skip(size_t size) { size_ += size; }
  void run(uint64_t count) const { reinterpret_cast<void (*)(uint64_t)>(start_)(count); }

 private:
  uint8_t* memory_;
  uint8_t* start_ = nullptr;
  size_t size_ = 0;
};

int64_t value_of(const Stencil& stencil, const Hole& hole, const Code& code, size_t copy, int32_t input) {
  switch (hole.kind) {
    case HoleKind::cell:
      return cell_offset(stencil, hole.index, copy);
    case HoleKind::anomalies:
      return kAnomalies;
    case HoleKind::thread:
      return kThread;
    case HoleKind::constant:
      return input;
    case HoleKind::symbol: {
      const bool function = stencil.info.symbols[hole.index].kind == mdl::format::SymbolKind::function;
      return static_cast<int64_t>(function ? reinterpret_cast<uintptr_t>(&application)
                                           : address_of(&variable));
    }
    case HoleKind::routine:
      return static_cast<int64_t>(code.routine(static_cast<Routine>(hole.index)));
    default:
      return 0;
  }
}

void put_stencil(Code& code, const Stencil& stencil, size_t copy, int32_t input) {
  uint8_t* at = code.here();
  std::memcpy(at, stencil.code.data(), stencil.code.size());
  for (const Hole& hole : stencil.holes) {
    int64_t value = value_of(stencil, hole, code, copy, input) + hole.addend;
    if (mdl::plan::is_pc_relative(hole.kind)) value -= static_cast<int64_t>(address_of(at + hole.offset));
    std::memcpy(at + hole.offset, &value, hole.size);
  }
  code.skip(stencil.code.size());
}

// mov $value, register (sign-extended), by its number
void put_move(Code& code, uint8_t reg, int32_t value) {
  code.bytes({static_cast<uint8_t>(reg < 8 ? 0x48 : 0x49), 0xc7, static_cast<uint8_t>(0xc0 | (reg & 7))});
  code.number(value);
}
struct Input {
  std::string_view name;
  uint8_t number;
};
constexpr Input kInputRegisters[] = {{"rax", 0}, {"rdi", 7}, {"rsi", 6}, {"rdx", 2},
                                     {"rcx", 1}, {"r8", 8},  {"r9", 9}};

void put_state(Code& code, const Stencil& stencil, size_t copy, int32_t input) {
  for (const Input& reg : kInputRegisters)
    for (const std::string& clobber : stencil.info.clobbers)
      if (clobber == reg.name) put_move(code, reg.number, input);
  for (size_t i = 0; i < stencil.info.cells.size(); i++) {
    if (!mdl::format::is_timer(stencil.info.cells[i].kind)) continue;
    code.bytes({0x49, 0xc7, 0x83});  // movq $depth, offset(%r11)
    code.number(static_cast<int32_t>(cell_offset(stencil, i, copy) + 8));
    code.number(static_cast<int32_t>(!stencil.info.cells[i].starts));
  }
}

// void loop(uint64_t count): all registers but the stack pointer are the body's.
void put_loop(Code& code, int32_t input, const std::function<void()>& body) {
  code.bytes({0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, 0x57});  // push rbx rbp r12-r15 rdi
  code.bytes({0x49, 0xbb});                                                        // movabs $block, %r11
  code.number(address_of(block));
  while (address_of(code.here()) % 64 != 0) code.bytes({0x90});  // nop
  uint8_t* top = code.here();
  for (const Input& reg : kInputRegisters) put_move(code, reg.number, input);
  body();
  code.bytes({0x48, 0xff, 0x0c, 0x24});  // decq (%rsp)
  code.bytes({0x0f, 0x85});              // jne top
  code.number(static_cast<int32_t>(top - (code.here() + 4)));
  code.bytes({0x5f, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3});  // pop, ret
}

struct Effort {
  double microseconds = 500;  // of one run
  int repetitions = 15;
};

double nanoseconds_of(const Code& code, uint64_t count) {
  const auto start = std::chrono::steady_clock::now();
  code.run(count);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + static_cast<ptrdiff_t>(of.size() / 2), of.end());
  return of[of.size() / 2];
}

// A loop of kCopies of something, with as many rounds as take the time of one run.
class Loop {
 public:
  Loop(int32_t input, const Effort& effort, const std::function<void(Code&, size_t)>& copy) {
    put_loop(code_, input, [&] {
      for (size_t i = 0; i < kCopies; i++) copy(code_, i);
    });
    nanoseconds_of(code_, 2);
    count_ = static_cast<uint64_t>(
        std::clamp(effort.microseconds * 1000 * 8 / nanoseconds_of(code_, 8), 4.0, 1e6));
  }
  // The nanoseconds of one copy.
  double run() const { return nanoseconds_of(code_, count_) / static_cast<double>(count_ * kCopies); }

 private:
  Code code_;
  uint64_t count_ = 0;
};

struct Time {
  double nanoseconds = 0;
  double cycle = 1;  // how long one was meanwhile
};

// Multiplications that wait for each other, of three cycles on every x86-64 of the last 15 years, are timed
// in turn with the copies: so what the processor's clock does in between drops out, and the middle one of
// many is one that nothing has disturbed.
Time time_of(int32_t input, const Effort& effort, const std::function<void(Code&, size_t)>& copy) {
  constexpr int kMultiplications = 8, kLatency = 3;
  const Loop wanted(input, effort, copy);
  const Loop known(3, {effort.microseconds / 4, 1}, [](Code& code, size_t) {
    for (int i = 0; i < kMultiplications; i++) code.bytes({0x48, 0x0f, 0xaf, 0xdb});  // imul %rbx, %rbx
  });
  std::vector<double> cycles, cycle;
  for (int i = 0; i < effort.repetitions; i++) {
    const double before = known.run(), took = wanted.run(), after = known.run();
    cycle.push_back((before + after) / (2 * kMultiplications * kLatency));
    cycles.push_back(took / cycle.back());
  }
  Time out;
  out.cycle = median(cycle);
  out.nanoseconds = median(cycles) * out.cycle;
  return out;
}

void reset_cells(const Stencil& stencil, int32_t input) {
  std::memset(block, 0, sizeof block);
  // The address that readAddress reads must be there: failing is quicker.
  const auto& routines = stencil.info.routines;
  const bool reads = std::find(routines.begin(), routines.end(), Routine::read) != routines.end();
  const int64_t counted = reads ? static_cast<int64_t>(address_of(&variable)) : input;
  for (size_t copy = 0; copy < kCopies; copy++)
    for (size_t i = 0; i < stencil.info.cells.size(); i++) {
      const CellKind kind = stencil.info.cells[i].kind;
      const int64_t value = kind == CellKind::flag ? kRaised : kind == CellKind::counter ? counted : 0;
      std::memcpy(block + cell_offset(stencil, i, copy), &value, sizeof value);
    }
}

// With cells of its own for each copy, or all on the same: then each waits for what the last one stored.
Time measure(const Stencil& stencil, const Effort& effort, bool chained = false) {
  Time most;
  for (int32_t input : kInputs) {
    reset_cells(stencil, input);
    const Time one = time_of(input, effort, [&](Code& code, size_t i) {
      put_state(code, stencil, chained ? 0 : i, input);
      put_stencil(code, stencil, chained ? 0 : i, input);
    });
    if (one.nanoseconds > most.nanoseconds) most = one;
  }
  return most;
}

// A call cell {busy, function, arguments}, with a function that does nothing.
Time measure_routine(Routine routine, const Effort& effort) {
  std::memset(block, 0, sizeof block);
  const uint64_t function = reinterpret_cast<uintptr_t>(&application);
  std::memcpy(block + kFirstCell + 8, &function, sizeof function);
  const uint64_t value = routine == Routine::read   ? address_of(&variable)
                         : routine == Routine::call ? address_of(block + kFirstCell)
                                                    : 0;
  return time_of(1, effort, [&](Code& code, size_t) {
    code.bytes({0x49, 0xba});  // movabs $value, %r10
    code.number(value);
    code.call(routine);
  });
}

double cycles_of_rdtsc(const Effort& effort) {
  const Time time = time_of(1, effort, [](Code& code, size_t) { code.bytes({0x0f, 0x31}); });
  return time.nanoseconds / time.cycle;
}
double cycles_of_division(const Effort& effort) {
  const Time time = time_of(1, effort, [](Code& code, size_t) {
    put_move(code, 0, 5000);
    put_move(code, 10, 7);
    code.bytes({0x48, 0x99, 0x49, 0xf7, 0xfa});  // cqto; idivq %r10
  });
  return time.nanoseconds / time.cycle;
}

bool is_off(double predicted, double measured) {
  return std::abs(predicted - measured) > std::max(1.0, 0.3 * measured);
}

// The time of a routine depends on the kernel and the machine, which a plan does not know: here it is
// measured, in cycles, so that the stencils around it can be judged.
std::map<Routine, double> measure_routines(const Effort& effort) {
  std::map<Routine, double> cycles;
  fmt::print("{:<36} {:>7} {:>12} {:>11}\n", "routine", "", "in plans, ns", "measured ns");
  for (Routine routine : {Routine::cpu, Routine::event, Routine::now, Routine::read, Routine::call}) {
    Time time = measure_routine(routine, effort);
    for (int attempt = 1; attempt < kAttempts; attempt++) {
      const Time again = measure_routine(routine, effort);
      if (again.nanoseconds / again.cycle < time.nanoseconds / time.cycle) time = again;
    }
    cycles[routine] = time.nanoseconds / time.cycle;
    fmt::print("{:<36} {:>7} {:>12} {:>11.1f}\n", mdl::format::info(routine).name, "",
               mdl::format::info(routine).nanoseconds, time.nanoseconds);
  }
  return cycles;
}

// The cycles of the routines that a stencil calls, as often as it does: where there are several kinds, in the
// plan's proportions.
double routine_cycles(const Stencil& stencil, const std::map<Routine, double>& measured) {
  double cycles = 0, in_plans = 0;
  for (Routine routine : stencil.info.routines)
    if (auto found = measured.find(routine); found != measured.end())
      cycles += found->second, in_plans += mdl::format::info(routine).nanoseconds;
  return in_plans == 0 ? 0 : stencil.info.routine_ns * cycles / in_plans;
}

void print_instructions(const Effort& effort) {
  fmt::print("\n{:<36} {:>15}\n{:<36} {:>15.1f}\n{:<36} {:>15.1f}\n", "instruction", "measured cycles",
             "rdtsc", cycles_of_rdtsc(effort), "cqto; idivq", cycles_of_division(effort));
}

// Some look at what only a process has: calls that were entered, and the C library's errno.
bool runs_here(const Stencil& stencil) {
  using enum Routine;
  return std::ranges::none_of(stencil.info.routines,
                              [](Routine routine) { return routine == error || routine >= enter; });
}

// The plan is what is left. --check: status 1 when a prediction is off by more than 30 % and more than 1 ns.
bool parse(int argc, char** argv, Effort& effort, bool& check) {
  const option known[] = {{"microseconds", required_argument, nullptr, 'm'},
                          {"repetitions", required_argument, nullptr, 'r'},
                          {"check", no_argument, nullptr, 'k'},
                          {}};
  for (int found = 0; (found = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
    if (found == 'm')
      effort.microseconds = static_cast<decltype(effort.microseconds)>(std::strtod(optarg, nullptr));
    else if (found == 'r')
      effort.repetitions = static_cast<decltype(effort.repetitions)>(std::strtol(optarg, nullptr, 10));
    else if (found == 'k')
      check = true;
    else
      return false;
  }
  return optind + 1 == argc;
}

}  // namespace

int main(int argc, char** argv) {
  Effort effort;
  bool check = false;
  if (!parse(argc, argv, effort, check)) {
    fmt::print(stderr, "usage: bench_cost PLAN [--microseconds N] [--repetitions N] [--check]\n");
    return 2;
  }
  auto plan = mdl::plan::read_plan_file(argv[optind]);
  if (!plan) return fmt::print(stderr, "{}\n", plan.error().text), 1;
  const std::map<Routine, double> routines = measure_routines(effort);
  fmt::print("\npredicted for {}\n{:<40} {:>7} {:>12} {:>11} {:>9} {:>8}\n", plan->manifest.cpu, "stencil",
             "cycles", "predicted ns", "measured ns", "same cell", "ns/cycle");
  int wrong = 0;
  for (const Stencil& stencil : plan->stencils) {
    if (!runs_here(stencil)) {
      fmt::print("{:<40} not run here\n", stencil.info.name);
      continue;
    }
    const Time chained = measure(stencil, effort, true);
    Time measured;
    double predicted = 0;
    bool off = true;
    for (int attempt = 0; attempt < kAttempts && off; attempt++) {
      measured = measure(stencil, effort);
      predicted = (stencil.info.cycles / 100.0 + routine_cycles(stencil, routines)) * measured.cycle;
      off = is_off(predicted, measured.nanoseconds);
    }
    wrong += off;
    fmt::print("{:<40} {:>7.2f} {:>12.2f} {:>11.2f} {:>9.2f} {:>8.3f}{}\n", stencil.info.name,
               stencil.info.cycles / 100.0, predicted, measured.nanoseconds, chained.nanoseconds,
               measured.cycle, off ? "  off" : "");
  }
  print_instructions(effort);
  return check && wrong ? 1 : 0;
}
