#include "runtime/arch/x86_64/hit_time.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/arch/clock.h"
#include "runtime/arch/description.h"
#include "runtime/arch/target_data.h"

namespace mdl::arch {
namespace {

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
class Function {
 public:
  // Code at the two points that reads no counter, such that does and has nothing to save, and such that saves
  // everything.
  enum class Kind { bare, plain, light, heavy };
  static constexpr double kSavedWhenLight = 1;  // rdx or rax
  static constexpr double kSavedWhenHeavy = 5;  // these, r10, r11 and the flags
  static constexpr double kHits = 2;            // in a call

  // Not usable where memory cannot be made executable.
  explicit Function(Kind kind) {
    if (!code_.map(nullptr) || !trampolines_.map(code_.bytes + kFar)) return;
    const uint64_t block = data() + 64, thread_pointer = own_thread_pointer();
    std::memcpy(trampolines_.bytes + kPage + 8, &block, sizeof block);  // one slot, which is ours
    std::memcpy(trampolines_.bytes + kPage, &thread_pointer, sizeof thread_pointer);
    usable_ = build(kind);
  }
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  bool usable() const { return usable_; }

  // The time of a call, in ticks: all of it, and the part that its hits know to have taken.
  struct Call {
    double all, known;
  };
  Call call() const {
    const uint64_t known_before = word(kBlockTaken);
    const uint64_t before = wall_ticks();
    reinterpret_cast<void (*)()>(code_.start())();
    return {static_cast<double>(wall_ticks() - before) / kCalls,
            static_cast<double>(word(kBlockTaken) - known_before) / kCalls};
  }

 private:
  static constexpr uint32_t kCalls = 500;

  // As far from the code as a session's trampolines are: a processor takes longer to predict such jumps. The lower
  // bits are others than the code's: where only the upper ones differ, it takes one jump for another (its branch
  // target buffer keeps parts of addresses), which costs ten times what a hit does.
  static constexpr ptrdiff_t kFar = 0x15a5b000;

  // In the code: the function, and what is called where a hit's clock is behind.
  static constexpr uint64_t kFunction = 64, kNothing = 128;

  // Two pages, of which the first one becomes code.
  struct Pages {
    uint8_t* bytes = nullptr;

    Pages() = default;
    ~Pages() {
      if (bytes) munmap(bytes, 2 * kPage);
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    bool map(void* wanted) {
      void* where = mmap(wanted, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (where != MAP_FAILED) bytes = static_cast<uint8_t*>(where);
      return bytes != nullptr;
    }
    uint64_t start() const { return reinterpret_cast<uint64_t>(bytes); }
    bool put(const Bytes& code) {
      if (code.size() > kPage) return false;
      std::ranges::copy(code, bytes);
      return mprotect(bytes, kPage, PROT_READ | PROT_EXEC) == 0;
    }
  };

  static uint64_t own_thread_pointer() {
    uint64_t out = 0;
    asm("mov %%fs:0, %0" : "=r"(out));
    return out;
  }
  uint64_t data() const { return trampolines_.start() + kPage; }
  uint64_t word(uint64_t offset) const {
    uint64_t out;
    std::memcpy(&out, trampolines_.bytes + kPage + 64 + offset, sizeof out);
    return out;
  }

  // Registers that are alive at an entry: arguments, and those that calls keep; at a return the result.
  static constexpr image::Registers kKept = 1u << rbx | 1u << rsp | 1u << rbp | 0xf000;
  static constexpr image::Registers kArguments =
      1u << rdi | 1u << rsi | 1u << rdx | 1u << rcx | 1u << r8 | 1u << r9;

  void point(Bytes& out, Kind kind, bool entry) {
    const plan::Stencil guard;
    std::vector<PlacedStencil> placed;
    Lookup lookup{data(), 1, code_.start() + kNothing - clock_behind_offset(), 0, {.kept = true}};
    PointFrame frame;
    frame.reads_clock = kind != Kind::plain;
    frame.below_is_dead = kind != Kind::heavy;
    const auto light = kKept | (entry ? kArguments : 1u << rax);
    emit_point(out, trampolines_.start() + out.size(), {}, guard,
               kind == Kind::heavy ? ~image::Registers{0} : light, lookup, 0, placed, frame);
  }

  // The work of short functions, and of those that call them: half of the numbers are negative, in no order
  // that a processor could learn, and what is done with each does not wait for the one before, but where hits
  // are between.
  static void next_number(Emitter& e) {
    e.bytes({0x69, 0xed}), e.imm32(1664525);     // imul $1664525, %ebp, %ebp
    e.bytes({0x81, 0xc5}), e.imm32(1013904223);  // add $1013904223, %ebp
  }
  static void body(Emitter& e) {
    e.bytes({0x8b, 0x44, 0x24, 0x08});  // mov 8(%rsp), %eax
    e.bytes({0x0f, 0xaf, 0xc0});        // imul %eax, %eax
    e.bytes({0x31, 0xe8});              // xor %ebp, %eax
  }
  static void depend_on_result(Emitter& e) {
    e.bytes({0x85, 0xc0});  // test %eax, %eax
    e.bytes({0x78, 0x02});  // js behind the next
    e.bytes({0xff, 0xc5});  // inc %ebp
  }

  // The caller; behind it the function's first instruction, which a jump to a trampoline may replace, and its
  // last.
  bool build(Kind kind) {
    constexpr uint64_t kReturn = 1024;
    Bytes out, trampolines;
    Emitter e(out, code_.start()), far(trampolines, trampolines_.start());
    e.push(rbx);
    e.push(rbp);
    e.bytes({0x0f, 0x31});             // rdtsc
    e.bytes({0x89, 0xc5});             // mov %eax, %ebp
    e.bytes({0xbb}), e.imm32(kCalls);  // mov $kCalls, %ebx
    const uint64_t again = e.here();
    next_number(e);
    e.call(code_.start() + kFunction);
    depend_on_result(e);
    e.bytes({0xff, 0xcb});  // dec %ebx
    e.branch(kNotEqual, again);
    e.pop(rbp);
    e.pop(rbx);
    e.bytes({0xc3});  // ret
    const auto pad = [](Bytes& code, uint64_t to) {
      while (code.size() < to) code.push_back(0xcc);
    };
    pad(out, kFunction);
    if (kind == Kind::bare) {
      e.bytes({0x0f, 0x1f, 0x44, 0x00, 0x00});  // nopl 0(%rax,%rax)
      body(e);
      e.bytes({0xc3});  // ret
    } else {
      e.jump(trampolines_.start());
      const uint64_t behind = e.here();
      body(e);
      e.jump(trampolines_.start() + kReturn);
      pad(out, kNothing);
      e.bytes({0xc3});  // ret
      point(trampolines, kind, true);
      far.bytes({0x0f, 0x1f, 0x44, 0x00, 0x00});
      far.jump(behind);
      pad(trampolines, kReturn);
      point(trampolines, kind, false);
      far.bytes({0xc3});
    }
    return code_.put(out) && trampolines_.put(trampolines);
  }

  Pages code_;
  Pages trampolines_;  // and the data behind them
  bool usable_ = false;
};

uint32_t ticks(double exact) {
  return static_cast<uint32_t>(std::clamp(std::round(exact), 0.0, double{kLongestHit}));
}

double middle(std::vector<double> of) {
  const auto at = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::ranges::nth_element(of, at);
  return *at;
}

}  // namespace

void emit_read_counter(Emitter& e) {
  emit_fence(e);
  emit_rdtsc(e);
}

void emit_hit_begins(Emitter& e, uint64_t resident, bool cpu) {
  if (cpu) e.bytes({0x49, 0x0f, 0xba, 0x6b, at(kBlockCpuClock), 62});  // btsq $62, kBlockCpuClock(%r11)
  e.bytes({0x49, 0x89, 0x53, at(kBlockBegan)});                        // mov %rdx, kBlockBegan(%r11)
  e.bytes({0x49, 0x2b, 0x53, at(kBlockTaken)});                        // sub kBlockTaken(%r11), %rdx
  e.bytes({0x49, 0x8b, 0x43, at(kBlockClock)});                        // mov kBlockClock(%r11), %rax
  e.bytes({0x49, 0x89, 0xc2});                                         // mov %rax, %r10
  e.bytes({0x49, 0x29, 0xd2});                                         // sub %rdx, %r10
  e.bytes({0x48, 0x0f, 0x49, 0xd0});                                   // cmovns %rax, %rdx: it stands
  e.bytes({0x49, 0x0f, 0xb1, 0x53, at(kBlockClock)});                  // cmpxchg %rdx, kBlockClock(%r11)
  e.bytes({0x49, 0x83, 0xfa, kMostBehind});                            // cmp $kMostBehind, %r10
  const size_t not_behind = e.branch(kLessOrEqual);
  e.call_own(resident + clock_behind_offset());
  e.fill(not_behind, e.here());
}

void emit_hit_ends(Emitter& e, const HitTime& time, const KnownOfHit& hit) {
  const double usual = time.between + hit.stencils + hit.routines;
  const double around = time.around + time.per_saved * static_cast<double>(hit.saved);
  emit_read_counter(e);
  e.bytes({0x49, 0x2b, 0x53, at(kBlockBegan)});                                // sub kBlockBegan(%r11), %rdx
  e.bytes({0x48, 0x81, 0xfa}), e.imm32(hit.cpu ? kLongestRead : kLongestHit);  // cmp $longest, %rdx
  e.bytes({0x76, 30});                                                         // jbe behind the next seven
  e.bytes({0xb8}), e.imm32(ticks(usual));                                      // mov $usual, %eax
  e.bytes({0x48, 0x81, 0xfa}), e.imm32(kLongestAway);                          // cmp $kLongestAway, %rdx
  e.bytes({0x48, 0x0f, 0x47, 0xd0});                                           // cmova %rax, %rdx
  e.bytes({0x48, 0x29, 0xc2});                                                 // sub %rax, %rdx
  e.bytes({0x49, 0x01, 0x53, at(kBlockTaken)});                                // add %rdx, kBlockTaken(%r11)
  e.bytes({0x49, 0x01, 0x53, at(kBlockAway)});                                 // add %rdx, kBlockAway(%r11)
  e.bytes({0x48, 0x89, 0xc2});                                                 // mov %rax, %rdx
  e.bytes({0x48, 0x81, 0xc2}), e.imm32(ticks(around));                         // add $around, %rdx
  e.bytes({0x49, 0x01, 0x53, at(kBlockTaken)});                                // add %rdx, kBlockTaken(%r11)
  e.bytes({0x49, 0xc7, 0x43, at(kBlockBegan)}), e.imm32(~hit.request);  // movq $~request, kBlockBegan(%r11)
}

void emit_fence(Emitter& e) {
  e.bytes({0x0f, 0xae, 0xe8});  // lfence
}

void emit_plain_hit(Emitter& e, uint32_t ticks) {
  e.bytes({0x49, 0x81, 0x43, at(kBlockTaken)}), e.imm32(ticks);  // addq $ticks, kBlockTaken(%r11)
}

HitTime measure_hit_time(uint64_t ticks_per_second, double ps_per_cycle) {
  HitTime out;
  out.kept = true;
  out.per_cycle = ps_per_cycle * static_cast<double>(ticks_per_second) / 1e12;
  out.per_ns = static_cast<double>(ticks_per_second) / 1e9;
  using Kind = Function::Kind;
  constexpr int kRuns = 25;
  const Function bare(Kind::bare), plain(Kind::plain), light(Kind::light), heavy(Kind::heavy);
  for (const Function* function : {&bare, &plain, &light, &heavy})
    if (!function->usable()) return out;
  // Each is compared with what has just run, because the processor's speed changes; and the middle one
  // counts, because what else runs here slows the program's hits, too.
  const auto more = [](const Function::Call& call, const Function::Call& than) {
    return (call.all - call.known - than.all) / Function::kHits;
  };
  std::vector<double> between, around, saved, without;
  for (int i = 0; i < kRuns; i++) {
    const Function::Call one = light.call(), alone = bare.call();
    between.push_back(one.known / Function::kHits);
    around.push_back(more(one, alone));
    saved.push_back((more(heavy.call(), alone) - around.back()) /
                    (Function::kSavedWhenHeavy - Function::kSavedWhenLight));
    without.push_back(more(plain.call(), alone));
  }
  out.between = middle(between);
  out.per_saved = std::max(0.0, middle(saved));
  out.around = std::max(0.0, middle(around) - Function::kSavedWhenLight * out.per_saved);
  out.plain = std::max(0.0, middle(without));
  return out;
}

}  // namespace mdl::arch
