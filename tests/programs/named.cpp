// Functions whose arguments have names and all the types that take one register, with their truth.
//
//   named [SECONDS]
//
// The functions t_int, t_short and so on return such values.
//
// Commands: `go N` calls each function N times with changing numbers, the narrow ones with other bits above
// them, as the calling convention allows. Answers carry the sum of each argument by its name, and "calls".
#include <unistd.h>

#include <cstdint>

#include "protocol.h"

#define KEEP __attribute__((noinline, used))

enum class Color : int16_t { red = -3, green = 4 };
struct Big {
  long words[4];
};
struct Pair {
  int first, second;
};

template <typename Value>
static inline __attribute__((always_inline)) void asm_use(const Value& value) {
  asm volatile("" : : "g"(value));
}
template <typename... Values>
static inline __attribute__((always_inline)) void use(const Values&... values) {
  (asm_use(values), ...);
}

extern "C" KEEP long t_mixed(double real, signed char tiny, const char* text, short little,
                             unsigned short port, float other, int step, unsigned wide, long on_stack) {
  use(real, tiny, text, little, port, other, step, wide, on_stack);
  return step;
}

extern "C" KEEP long t_colors(Color color, bool on, char16_t letter, const int& place, Color* where) {
  use(color, on, letter, &place, where);
  return on;
}

extern "C" KEEP Big t_big(int behind) {
  use(behind);
  return {{behind, 1, 2, 3}};
}

extern "C" KEEP long t_pair(Pair pair, int after) {
  use(pair.first, pair.second, after);
  return after;
}

extern "C" KEEP long t_plain(long value) {
  asm volatile("" : "+r"(value));
  return value;
}

class Box {
 public:
  KEEP long t_member(int step, unsigned char flags) {
    use(step, flags);
    return sum_ += step;
  }
  static KEEP long t_static(long amount) {
    use(amount);
    return amount;
  }

 private:
  long sum_ = 0;
};

// A result of each type; the bits above it are those of `dirty`. The compiler believes what the asm says.
#define RESULT(type, name)                                   \
  extern "C" KEEP type name(int64_t dirty) {                 \
    type result;                                             \
    asm volatile("mov %1, %q0" : "=a"(result) : "r"(dirty)); \
    return result;                                           \
  }
RESULT(int, t_int)
RESULT(unsigned, t_unsigned)
RESULT(short, t_short)
RESULT(unsigned short, t_ushort)
RESULT(signed char, t_char)
RESULT(unsigned char, t_uchar)
RESULT(bool, t_bool)
RESULT(Color, t_color)
RESULT(const char*, t_pointer)
RESULT(ssize_t, t_ssize)
// A name with a dot that is no clone's.
extern "C" int t_dotted(int64_t dirty) asm("t_dotted.name");
RESULT(int, t_dotted)
// Two names for one address, as after the linker has folded functions: their types are not certain.
RESULT(int, t_twice)
asm(".globl t_twice_unsigned\n.type t_twice_unsigned, @function\n.set t_twice_unsigned, t_twice");

extern "C" KEEP long t_int_caller(int64_t dirty) {
  int got = t_int(dirty);
  asm volatile("" : "+r"(got));
  return got + 1L;
}

// Calls t_plain directly, once.
extern "C" KEEP long t_caller(long value) {
  long got = t_plain(value * 3);
  asm volatile("" : "+r"(got));
  return got + 1;
}

namespace {

struct Sum {
  const char* name;
  int64_t value;
};
Sum sums[] = {{"tiny", 0},      {"little", 0},  {"port", 0},    {"step", 0},       {"wide", 0},
              {"text", 0},      {"color", 0},   {"on", 0},      {"letter", 0},     {"place", 0},
              {"behind", 0},    {"self", 0},    {"move", 0},    {"flags", 0},      {"amount", 0},
              {"value", 0},     {"calls", 0},   {"r_int", 0},   {"r_unsigned", 0}, {"r_short", 0},
              {"r_ushort", 0},  {"r_char", 0},  {"r_uchar", 0}, {"r_bool", 0},     {"r_color", 0},
              {"r_pointer", 0}, {"r_ssize", 0}, {"r_twice", 0}, {"r_dotted", 0},   {"negative", 0},
              {"called", 0}};

void count(const char* name, int64_t value) {
  for (Sum& sum : sums)
    if (strcmp(sum.name, name) == 0)
      sum.value = static_cast<int64_t>(static_cast<uint64_t>(sum.value) + static_cast<uint64_t>(value));
}

// Whatever is above the value's own bits: a caller may leave it there.
template <typename T>
int64_t dirty(T value, uint64_t noise) {
  constexpr uint64_t kOwn = sizeof(T) < 8 ? (uint64_t{1} << (8 * sizeof(T) % 64)) - 1 : ~uint64_t{0};
  return static_cast<int64_t>((noise & ~kOwn) | (static_cast<uint64_t>(value) & kOwn));
}

using Mixed = long (*)(double, int64_t, const char*, int64_t, int64_t, float, int64_t, int64_t, long);
using Colors = long (*)(int64_t, int64_t, int64_t, const int*, Color*);
void* volatile mixed = reinterpret_cast<void*>(&t_mixed);
void* volatile colors = reinterpret_cast<void*>(&t_colors);
Box box;

void go_once(uint64_t noise) {
  const auto tiny = static_cast<signed char>(noise >> 3);
  const auto little = static_cast<short>(noise >> 7);
  const auto port = static_cast<unsigned short>(noise >> 5);
  const int step = static_cast<int>(noise >> 20);
  const auto wide = static_cast<unsigned>(noise >> 9);
  const char* text = &"text"[noise % 4];
  reinterpret_cast<Mixed>(mixed)(1.5, dirty(tiny, noise), text, dirty(little, ~noise), dirty(port, noise),
                                 2.5f, dirty(step, ~noise), dirty(wide, noise), 7);
  count("tiny", tiny), count("little", little), count("port", port), count("step", step), count("wide", wide);
  count("text", static_cast<int64_t>(reinterpret_cast<uintptr_t>(text)));

  Color color = noise & 1 ? Color::red : Color::green;
  const bool on = noise & 2;
  const auto letter = static_cast<char16_t>(noise >> 11);
  const int place = 5;
  reinterpret_cast<Colors>(colors)(dirty(static_cast<int16_t>(color), noise),
                                   dirty(static_cast<uint8_t>(on), ~noise), dirty(letter, noise), &place,
                                   &color);
  count("color", static_cast<int64_t>(color)), count("on", on), count("letter", letter);
  count("place", static_cast<int64_t>(reinterpret_cast<uintptr_t>(&place)));

  t_big(step);
  count("behind", step);
  const auto flags = static_cast<unsigned char>(noise >> 13);
  box.t_member(step, flags);
  count("self", static_cast<int64_t>(reinterpret_cast<uintptr_t>(&box)));
  count("move", step), count("flags", flags);
  Box::t_static(step * 5L);
  count("amount", step * 5L);
  t_pair({1, 2}, step);
  t_caller(step);
  count("value", step * 3L);
  count("calls", 1);

  t_int(dirty(step, ~noise)), t_unsigned(dirty(wide, noise)), t_short(dirty(little, noise));
  t_ushort(dirty(port, ~noise)), t_char(dirty(tiny, ~noise)), t_uchar(dirty(flags, noise));
  t_bool(dirty(static_cast<uint8_t>(on), noise)), t_color(dirty(static_cast<int16_t>(color), ~noise));
  t_pointer(static_cast<int64_t>(reinterpret_cast<uintptr_t>(text))), t_ssize(static_cast<int64_t>(noise)),
      t_twice(dirty(step, noise)), t_dotted(dirty(step, ~noise));
  t_int_caller(dirty(step, noise));
  count("r_int", 2L * step), count("r_unsigned", wide), count("r_short", little), count("r_ushort", port);
  count("r_char", tiny), count("r_uchar", flags), count("r_bool", on);
  count("r_color", static_cast<int64_t>(color));
  count("r_pointer", static_cast<int64_t>(reinterpret_cast<uintptr_t>(text)));
  count("r_dotted", step), count("r_ssize", static_cast<int64_t>(noise)),
      count("r_twice", dirty(step, noise));
  count("negative", 2 * (step < 0)), count("called", step);
}

std::string truth() {
  std::string text;
  for (const Sum& sum : sums)
    text += (text.empty() ? "\"" : ",\"") + std::string(sum.name) + "\":" + std::to_string(sum.value);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready", truth());
  uint64_t state = 1;
  for (protocol::Command command = protocol::next_command(); command.word == "go";
       command = protocol::next_command()) {
    for (unsigned long i = 0; i < command.number; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
      go_once(state);
    }
    protocol::say_event("done", truth());
  }
  return 0;
}
