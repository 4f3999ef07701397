#include "runtime/arch/x86_64/hit_time.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace mdl::arch {
namespace {

constexpr uint8_t kOneShift = 12;
constexpr double kOne = 1 << kOneShift;  // of the part that lies outside, of what is between
constexpr double kMostScale = 1.5, kRoutineScale = 4;

constexpr uint8_t at(uint64_t offset) {  // as the displacement of an operand in the block
  return static_cast<uint8_t>(offset);
}

// rdx = the counter; rax is lost.
void emit_rdtsc(Emitter& e) {
  e.bytes({0x0f, 0x31});              // rdtsc
  e.bytes({0x48, 0xc1, 0xe2, 0x20});  // shl $32, %rdx
  e.bytes({0x48, 0x09, 0xc2});        // or %rax, %rdx
}

// A function with an entry and a return, bare or with a trampoline at each, and who calls it again and again.
class Rig {
 public:
  Rig() {
    constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;
    void* where = mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, kPrivate, -1, 0);
    if (where == MAP_FAILED) return;
    base_ = static_cast<uint8_t*>(where);
    const auto block = reinterpret_cast<uint64_t>(base_) + kPage + 64;
    std::memcpy(base_ + kPage + 8, &block, sizeof block);  // one slot, which is ours
    uint64_t thread_pointer = 0;
    asm("mov %%fs:0, %0" : "=r"(thread_pointer));
    std::memcpy(base_ + kPage, &thread_pointer, sizeof thread_pointer);
  }
  ~Rig() {
    if (base_) munmap(base_, 3 * kPage);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  // Code that reads no counter, such that does and has nothing to save, and such that saves everything.
  enum class Kind { plain, light, heavy };
  static constexpr double kSavedWhenHeavy = 5;  // rax, rdx, r10, r11 and the flags

  struct Call {
    double ticks = 0;
    double taken = 0;  // of them, what its hits have added
  };
  // Nothing where memory cannot be made executable. `time`: null without trampolines.
  Call call(const HitTime* time, Kind kind) {
    if (!base_ || !build(time, kind)) return {};
    std::array<Call, kRuns> runs;
    for (Call& run : runs) {
      const uint64_t taken_before = word(kTaken);
      const uint64_t before = wall_ticks();
      reinterpret_cast<void (*)()>(reinterpret_cast<uint64_t>(base_))();
      run = {static_cast<double>(wall_ticks() - before) / kCalls,
             static_cast<double>(word(kTaken) - taken_before) / kCalls};
    }
    // The middle one: what else runs on this core slows the program's hits, too.
    std::ranges::nth_element(runs, runs.begin() + kRuns / 2, {}, &Call::ticks);
    return runs[kRuns / 2];
  }

 private:
  static constexpr int kRuns = 15;
  static constexpr uint32_t kCalls = 2000;
  static constexpr int kSteps = 32;

  uint64_t word(uint64_t offset) const {
    uint64_t out;
    std::memcpy(&out, base_ + kPage + 64 + offset, sizeof out);
    return out;
  }

  // What is alive at an entry: arguments, and what calls keep; at a return the result.
  static constexpr image::Registers kKept = 1u << rbx | 1u << rsp | 1u << rbp | 0xf000;
  static constexpr image::Registers kArguments =
      1u << rdi | 1u << rsi | 1u << rdx | 1u << rcx | 1u << r8 | 1u << r9;

  void point(Bytes& out, uint64_t start, const HitTime& time, Kind kind, bool entry) {
    const plan::Stencil guard;
    std::vector<PlacedStencil> placed;
    Lookup lookup{reinterpret_cast<uint64_t>(base_) + kPage, 1, start, 0, time};
    PointFrame frame;
    frame.reads_clock = kind != Kind::plain;
    const auto light = kKept | (entry ? kArguments : 1u << rax);
    const auto where = kind == Kind::heavy ? format::PointKind::block
                       : entry             ? format::PointKind::entry
                                           : format::PointKind::return_;
    emit_point(out, start + out.size(), {}, guard, where, kind == Kind::heavy ? ~0u : light, lookup, 0,
               placed, frame);
  }

  // Some work, each step of which waits for the one before: as in a program, what a hit leaves unfinished
  // finishes meanwhile.
  static void body(Emitter& e) {
    for (int i = 0; i < kSteps; i++) e.bytes({0x48, 0x0f, 0xaf, 0xed});  // imul %rbp, %rbp
  }

  // The caller; behind it the function's first instruction, which a jump to a trampoline may replace, and its
  // last.
  bool build(const HitTime* time, Kind kind) {
    if (mprotect(base_, kPage, PROT_READ | PROT_WRITE) != 0) return false;
    const auto start = reinterpret_cast<uint64_t>(base_);
    constexpr uint64_t kFunction = 64, kTrampolines = 384;
    Bytes out;
    Emitter e(out, start);
    e.push(rbx);
    e.push(rbp);
    e.bytes({0xbb}), e.imm32(kCalls);  // mov $kCalls, %ebx
    const uint64_t again = e.here();
    e.call(start + kFunction);
    e.bytes({0xff, 0xcb});  // dec %ebx
    e.branch(kNotEqual, again);
    e.pop(rbp);
    e.pop(rbx);
    e.bytes({0xc3});  // ret
    const auto pad = [&](uint64_t to) {
      while (out.size() < to) e.bytes({0xcc});
    };
    pad(kFunction);
    if (!time) {
      e.bytes({0x0f, 0x1f, 0x44, 0x00, 0x00});  // nopl 0(%rax,%rax)
      body(e);
      e.bytes({0xc3});  // ret
    } else {
      e.jump(start + kTrampolines);
      const uint64_t behind = e.here();
      body(e);
      const size_t to_return = e.jump();
      pad(kTrampolines);
      point(out, start, *time, kind, true);
      e.bytes({0x0f, 0x1f, 0x44, 0x00, 0x00});
      e.jump(behind);
      pad(2 * kTrampolines + kTrampolines);
      e.fill(to_return, e.here());
      point(out, start, *time, kind, false);
      e.bytes({0xc3});
    }
    if (out.size() > kPage) return false;
    std::memcpy(base_, out.data(), out.size());
    return mprotect(base_, kPage, PROT_READ | PROT_EXEC) == 0;
  }

  uint8_t* base_ = nullptr;
};

}  // namespace

void emit_read_counter(Emitter& e) {
  e.bytes({0x0f, 0xae, 0xe8});  // lfence: what the program has begun is done first, and is its own
  emit_rdtsc(e);
}

void emit_hit_begins(Emitter& e, bool cpu) {
  if (cpu) e.bytes({0x49, 0x0f, 0xba, 0x6b, at(kCpuClock), 62});  // btsq $62, kCpuClock(%r11)
  e.bytes({0x49, 0x89, 0x53, at(kBegan)});                        // mov %rdx, kBegan(%r11)
  e.bytes({0x49, 0x2b, 0x53, at(kTaken)});                        // sub kTaken(%r11), %rdx
  e.bytes({0x49, 0x8b, 0x43, at(kClock)});                        // mov kClock(%r11), %rax
  e.bytes({0x49, 0x89, 0xc2});                                    // mov %rax, %r10
  e.bytes({0x49, 0x29, 0xd2});                                    // sub %rdx, %r10
  e.bytes({0x48, 0x0f, 0x49, 0xd0});                              // cmovns %rax, %rdx: it stands
  e.bytes({0x49, 0x0f, 0xb1, 0x53, at(kClock)});                  // cmpxchg %rdx, kClock(%r11)
  e.bytes({0x31, 0xc0});                                          // xor %eax, %eax
  e.bytes({0x49, 0x81, 0xea}), e.imm32(kMostBehind);              // sub $kMostBehind, %r10
  e.bytes({0x49, 0x81, 0xfa}), e.imm32(kMostGivenBack);           // cmp $kMostGivenBack, %r10
  e.bytes({0x4c, 0x0f, 0x47, 0xd0});        // cmova %rax, %r10: also where it is negative
  e.bytes({0x4d, 0x29, 0x53, at(kTaken)});  // sub %r10, kTaken(%r11)
}

void emit_hit_ends(Emitter& e, const HitTime& time, size_t saved, double routines_ns) {
  const double longest = std::min(kLongestHit + kRoutineScale * routines_ns * time.per_ns, 1e9);
  const double around = time.around + time.per_saved * static_cast<double>(saved);
  const double part = time.between > 0 ? around / time.between * kOne : 0;
  emit_rdtsc(e);
  e.bytes({0x49, 0x2b, 0x53, at(kBegan)});                                     // sub kBegan(%r11), %rdx
  e.bytes({0xb8}), e.imm32(static_cast<uint32_t>(time.between));               // mov $between, %eax
  e.bytes({0x48, 0x81, 0xfa}), e.imm32(static_cast<uint32_t>(longest));        // cmp $longest, %rdx
  e.bytes({0x48, 0x0f, 0x4f, 0xd0});                                           // cmovg %rax, %rdx
  e.bytes({0xb8}), e.imm32(static_cast<uint32_t>(kMostScale * time.between));  // mov $most, %eax
  e.bytes({0x48, 0x39, 0xc2});                                                 // cmp %rax, %rdx
  e.bytes({0x48, 0x0f, 0x4e, 0xc2});                                           // cmovle %rdx, %rax
  e.bytes({0x48, 0x69, 0xc0}), e.imm32(static_cast<uint32_t>(part));           // imul $part, %rax, %rax
  e.bytes({0x48, 0xc1, 0xf8, kOneShift});                                      // sar $kOneShift, %rax
  e.bytes({0x48, 0x01, 0xc2});                                                 // add %rax, %rdx
  e.bytes({0x49, 0x01, 0x53, at(kTaken)});                                     // add %rdx, kTaken(%r11)
  e.bytes({0x49, 0xc7, 0x43, at(kBegan)}), e.imm32(0);                         // movq $0, kBegan(%r11)
}

void emit_plain_hit(Emitter& e, uint32_t ticks) {
  e.bytes({0x49, 0x81, 0x43, at(kTaken)}), e.imm32(ticks);  // addq $ticks, kTaken(%r11)
}

HitTime measure_hit_time(uint64_t ticks_per_second, double ps_per_cycle) {
  HitTime out;
  out.kept = true;
  out.per_cycle = ps_per_cycle * static_cast<double>(ticks_per_second) / 1e12;
  out.per_ns = static_cast<double>(ticks_per_second) / 1e9;
  Rig rig;
  const HitTime nothing_known{true};
  const Rig::Call bare = rig.call(nullptr, Rig::Kind::plain);
  const Rig::Call plain = rig.call(&nothing_known, Rig::Kind::plain);
  const Rig::Call light = rig.call(&nothing_known, Rig::Kind::light);
  const Rig::Call heavy = rig.call(&nothing_known, Rig::Kind::heavy);
  if (bare.ticks == 0 || plain.ticks == 0 || light.ticks == 0 || heavy.ticks == 0) return out;
  // There are two hits in a call.
  out.plain = std::max(0.0, (plain.ticks - bare.ticks) / 2);
  out.between = light.taken / 2;
  out.around = std::max(0.0, (light.ticks - bare.ticks - light.taken) / 2);
  const double more = (heavy.ticks - bare.ticks - heavy.taken) / 2 - out.around;
  out.per_saved = std::max(0.0, more / Rig::kSavedWhenHeavy);
  return out;
}

}  // namespace mdl::arch
