// A program that looks whether anything in a thread's registers is changed by somebody else.
//
//   registers [SECONDS]
//
// For each function of registers.def (registers_asm.S) and each of some states - general registers,
// arithmetic and direction flags, and all that XSAVE keeps and this processor has: x87, SSE, AVX, AVX-512's
// masks and upper parts, protection keys - it fills everything with random values, calls the function and
// stores everything. What is found the first time, before "ready", is how the function leaves that state;
// each later time is compared with it, byte for byte.
//
// Commands: `go N` does all states of all functions N times; answers
// {"event":"done","components":[names],"calls": calls of each function since "ready","counts":{name:[8
// numbers of registers.def]},"wrong":[texts]}: what differed since "ready", at most 20. "ready" carries the
// same. `quit` ends with status 0.
#include <cpuid.h>
#include <unistd.h>

#include <cstddef>
#include <random>
#include <vector>

#include "protocol.h"

namespace {

constexpr size_t kXsaved = 192, kLargest = 4096;
constexpr size_t kStates = 48;

struct alignas(64) State {
  uint64_t flags;
  uint64_t general[15];  // rax rbx rcx rdx rsi rdi rbp r8 ... r15
  uint64_t unused[2];
  uint64_t offset;  // of the stack: 0 or 8
  uint64_t unused2[5];
  uint8_t xsaved[kLargest];
};
static_assert(offsetof(State, offset) == 144 && offsetof(State, xsaved) == kXsaved);

struct Component {
  const char* name;
  unsigned bit;
};
constexpr Component kComponents[] = {{"x87", 0},       {"sse", 1},      {"avx", 2}, {"opmask", 5},
                                     {"zmm_hi256", 6}, {"hi16_zmm", 7}, {"pkru", 9}};
constexpr const char* kGeneral[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8",
                                    "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
constexpr uint64_t kFlags = 0xcd5;  // CF PF AF ZF SF DF OF

}  // namespace

extern "C" {
uint64_t r_probe(void (*function)(), const State* filled, State* found);
long r_trash(long, long, long, long, long, long);  // named by a metric
extern uint64_t r_mask;
#define X(name, ...) void name();
#include "registers.def"
#undef X
}

namespace {

struct Function {
  const char* name;
  void (*code)();
  long counts[8];
};
const Function kFunctions[] = {
#define X(name, ...) {#name, name, {__VA_ARGS__}},
#include "registers.def"
#undef X
};

std::mt19937_64 random_bits(20261120);

uint64_t supported() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __get_cpuid(1, &a, &b, &c, &d);
  if (!(c & bit_OSXSAVE)) return 3;
  asm("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  uint64_t mask = 0;
  for (const Component& component : kComponents)
    if (a >> component.bit & 1) mask |= uint64_t{1} << component.bit;
  return mask;
}

// Where XSAVE keeps a component, and how much of it: cpuid leaf 13.
struct Place {
  unsigned at = 0, size = 0;
};
Place place_of(unsigned bit) {
  if (bit == 0) return {32, 128};
  if (bit == 1) return {160, 256};
  Place place;
  unsigned c = 0, d = 0;
  __get_cpuid_count(0xd, bit, &place.size, &place.at, &c, &d);
  return place;
}

void fill(State& state) {
  state = {};
  state.flags = random_bits() & kFlags;
  for (uint64_t& value : state.general) value = random_bits();
  state.general[5] &= 0xff;  // $arg[0], which may be a key: few of them
  state.offset = random_bits() & 8;
  uint8_t* image = state.xsaved;
  for (const Component& component : kComponents) {
    if (!(r_mask >> component.bit & 1)) continue;
    Place place = place_of(component.bit);
    for (unsigned i = 0; i < place.size; ++i) image[place.at + i] = static_cast<uint8_t>(random_bits());
  }
  // x87: eight valid numbers of some size, all exceptions masked, any rounding and precision.
  for (int i = 0; i < 8; ++i) {
    uint8_t* number = image + 32 + 16 * i;
    number[7] |= 0x80;
    uint16_t exponent = static_cast<uint16_t>(0x3f80 + random_bits() % 256);
    memcpy(number + 8, &exponent, 2);
    memset(number + 10, 0, 6);
  }
  auto control = static_cast<uint16_t>(0x7f | (random_bits() & 0xc00) | (random_bits() & 1 ? 0x300 : 0x200));
  auto status = static_cast<uint16_t>(random_bits() & 0x7f3f);  // no summary bit: all are masked
  memcpy(image, &control, 2);
  memcpy(image + 2, &status, 2);
  image[4] = 0xff;
  // MXCSR: any rounding, flush to zero, denormals are zero, any sticky flags, all masked.
  auto mxcsr = static_cast<uint32_t>(0x1f80 | (random_bits() & 0xe07f));
  memcpy(image + 24, &mxcsr, 4);
  double number = 1.0 + static_cast<double>(random_bits() % 1000) / 7;  // what r_decimal divides
  memcpy(image + 160 + 16 * 7, &number, 8);
  if (r_mask >> 9 & 1) {  // the key that all memory has stays open
    uint32_t keys = static_cast<uint32_t>(random_bits()) & ~3u;
    memcpy(image + place_of(9).at, &keys, 4);
  }
  uint64_t present = r_mask;
  memcpy(image + 512, &present, 8);
}

// The first difference of two states in words.
std::string difference(const State& expected, const State& found) {
  char text[160];
  if ((expected.flags ^ found.flags) & kFlags) {
    snprintf(text, sizeof text, "flags %#lx, not %#lx", found.flags & kFlags, expected.flags & kFlags);
    return text;
  }
  for (size_t i = 0; i < std::size(kGeneral); ++i)
    if (expected.general[i] != found.general[i]) {
      snprintf(text, sizeof text, "%s %#lx, not %#lx", kGeneral[i], found.general[i], expected.general[i]);
      return text;
    }
  for (const Component& component : kComponents) {
    if (!(r_mask >> component.bit & 1)) continue;
    Place place = place_of(component.bit);
    for (unsigned i = place.at; i < place.at + place.size; ++i)
      if (expected.xsaved[i] != found.xsaved[i]) {
        snprintf(text, sizeof text, "%s, byte %u: %#x, not %#x", component.name, i - place.at,
                 found.xsaved[i], expected.xsaved[i]);
        return text;
      }
  }
  for (unsigned i = 0; i < 32; ++i)  // control and status words, MXCSR
    if (expected.xsaved[i] != found.xsaved[i]) {
      snprintf(text, sizeof text, "byte %u of the control words: %#x, not %#x", i, found.xsaved[i],
               expected.xsaved[i]);
      return text;
    }
  if (memcmp(expected.xsaved + 512, found.xsaved + 512, 8) != 0)
    return "a component went to its initial state";
  return "";
}

std::vector<State> filled(kStates);
std::vector<std::vector<State>> expected(std::size(kFunctions), std::vector<State>(kStates));
std::vector<std::string> wrong;
unsigned long calls;

void compare_all() {
  static State found;
  for (size_t f = 0; f < std::size(kFunctions); ++f)
    for (size_t s = 0; s < kStates; ++s) {
      found = {};
      uint64_t moved = r_probe(kFunctions[f].code, &filled[s], &found);
      std::string text = moved ? "the stack pointer" : difference(expected[f][s], found);
      if (!text.empty() && wrong.size() < 20)
        wrong.push_back(std::string(kFunctions[f].name) + ", state " + std::to_string(s) + ": " + text);
    }
  calls += kStates;
}

std::string report() {
  std::string components, counts, differences;
  for (const Component& component : kComponents)
    if (r_mask >> component.bit & 1) components += std::string("\"") + component.name + "\",";
  for (const Function& function : kFunctions) {
    counts += std::string("\"") + function.name + "\":[";
    for (long count : function.counts) counts += std::to_string(count) + ",";
    counts.back() = ']';
    counts += ",";
  }
  for (const std::string& text : wrong) differences += "\"" + text + "\",";
  for (std::string* list : {&components, &counts, &differences})
    if (!list->empty()) list->pop_back();
  return "\"components\":[" + components + "]," + protocol::field("calls", calls) + ",\"counts\":{" + counts +
         "},\"wrong\":[" + differences + "]";
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  r_mask = supported();
  if (r_trash(1, 2, 3, 4, 5, 6) != 1) return 1;
  for (State& state : filled) fill(state);
  for (size_t f = 0; f < std::size(kFunctions); ++f)
    for (size_t s = 0; s < kStates; ++s) r_probe(kFunctions[f].code, &filled[s], &expected[f][s]);
  compare_all();
  calls = 0;
  protocol::say_event("ready", report());
  for (protocol::Command command = protocol::next_command(); command.word == "go";
       command = protocol::next_command()) {
    for (unsigned long i = 0; i < command.number; ++i) compare_all();
    protocol::say_event("done", report());
  }
  return 0;
}
