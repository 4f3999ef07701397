// Functions that are handed more than numbers, or return something else, and the sums of the numbers that they were
// given and returned, by their places among the source's integers and pointers.
//
//   handed [SECONDS]
//
// Commands: `go N` calls each of them N times; answers {"event":"done","sums":{NAME:{PLACE:SUM,...},...}} with totals
// since the start: PLACE is the number of such a parameter, or `return`. A place that is missing has no number there.
// `quit` ends.
#include <unistd.h>

#include <cstdarg>
#include <map>

#include "protocol.h"

#define FUNCTION extern "C" __attribute__((noinline, used))
#define AVX __attribute__((target("avx")))

namespace {
std::map<std::string, std::map<std::string, long>> sums;
volatile int zero;

struct Pair {
  long a, b;
};
struct Three {
  long a, b, c;
};
struct Mixed {
  double a;
  long b;
};
struct One {
  int a;
};
struct Vector {
  float a __attribute__((vector_size(32)));
};
// Nobody may copy it bit by bit, so it is handed over by its address.
struct Named {
  Named(int value) : a(value) {}
  Named(const Named& other) : a(other.a) {}
  int a;
};

int add(const char* function, int place, int value) {
  sums[function][std::to_string(place)] += value;
  return value;
}
// Its caller returns by itself, and not by a jump.
__attribute__((always_inline)) inline int give(const char* function, int value) {
  sums[function]["return"] += value;
  asm volatile("" : "+r"(value));
  return value;
}
}  // namespace

FUNCTION int t_plain(int a, signed char b, bool c) {
  return give("t_plain", add("t_plain", 0, a) + add("t_plain", 1, b) + add("t_plain", 2, c));
}
FUNCTION void t_behind_double(double x, int n) {
  add("t_behind_double", 0, n + static_cast<int>(x) * zero);
}
FUNCTION void t_before_double(int n, double x) {
  add("t_before_double", 0, n + static_cast<int>(x) * zero);
}
FUNCTION void t_behind_pair(Pair s, int n) {
  add("t_behind_pair", 0, n + static_cast<int>(s.a) * zero);
}
FUNCTION void t_behind_three(Three s, int n) {
  add("t_behind_three", 0, n + static_cast<int>(s.a) * zero);
}
FUNCTION void t_behind_mixed(Mixed s, int n) {
  add("t_behind_mixed", 0, n + static_cast<int>(s.b) * zero);
}
FUNCTION void t_behind_one(One s, int n) {
  add("t_behind_one", 0, n + s.a * zero);
}
FUNCTION void t_behind_named(Named s, int n) {
  add("t_behind_named", 1, n + s.a * zero);
}
FUNCTION void t_behind_wide(__int128 a, int n) {
  add("t_behind_wide", 0, n + static_cast<int>(a) * zero);
}
FUNCTION int t_variable(int n, ...) {
  va_list list;
  va_start(list, n);
  const int first = add("t_variable", 1, va_arg(list, int));
  va_end(list);
  return give("t_variable", add("t_variable", 0, n) + first);
}
FUNCTION void t_variable_behind_double(double x, ...) {
  va_list list;
  va_start(list, x);
  add("t_variable_behind_double", 0, va_arg(list, int));
  va_end(list);
}
FUNCTION double t_double(int n) {
  return add("t_double", 0, n) * 1.5;
}
FUNCTION float t_float(int n) {
  return static_cast<float>(add("t_float", 0, n)) * 1.5F;
}
FUNCTION Pair t_pair(int n) {
  return {add("t_pair", 0, n), 1};
}
FUNCTION Three t_three(int n) {
  return {add("t_three", 0, n), 1, 2};
}
FUNCTION AVX Vector t_vector(int n) {
  Vector result{};
  result.a[0] = static_cast<float>(add("t_vector", 0, n));
  return result;
}
FUNCTION Named t_named(int n) {
  return {add("t_named", 0, n)};
}
FUNCTION __int128 t_wide(int n) {
  return static_cast<__int128>(add("t_wide", 0, n)) << 70;
}
FUNCTION double t_two_names(int n) {
  return add("t_two_names", 0, n) * 2.5;
}
extern "C" __attribute__((alias("t_two_names"))) double t_second_name(int n);
FUNCTION void t_nothing(int n) {
  add("t_nothing", 0, n);
}
FUNCTION bool t_bool(int n) {
  return give("t_bool", (add("t_bool", 0, n) & 1)) != 0;
}
FUNCTION signed char t_char(int n) {
  return static_cast<signed char>(give("t_char", add("t_char", 0, n)));
}

AVX __attribute__((noinline)) static void call_with_vectors(int n) {
  t_vector(n);
}

int main(int argc, char** argv) {
  const auto round = [](unsigned long i) {
    const int n = static_cast<int>(i % 101) - 60 + zero;
    t_plain(n, static_cast<signed char>(n), n > 0);
    t_behind_double(2.5, n);
    t_before_double(n, 2.5);
    t_behind_pair({7, 8}, n);
    t_behind_three({7, 8, 9}, n);
    t_behind_mixed({2.5, 8}, n);
    t_behind_one({7}, n);
    t_behind_named(7, n);
    t_behind_wide(7, n);
    t_variable(n, n + 1);
    t_variable_behind_double(2.5, n);
    t_double(n), t_float(n), t_pair(n), t_three(n), t_named(n), t_wide(n);
    if (__builtin_cpu_supports("avx")) call_with_vectors(n);
    t_two_names(n), t_nothing(n), t_bool(n), t_char(n);
  };
  const auto totals = [] {
    std::string answer;
    for (const auto& [function, places] : sums) {
      std::string of;
      for (const auto& [place, sum] : places)
        of += (of.empty() ? "\"" : ",\"") + place + "\":" + std::to_string(sum);
      answer += (answer.empty() ? "\"" : ",\"") + function + "\":{" + of + "}";
    }
    return "\"sums\":{" + answer + "}";
  };
  return protocol::go(argc, argv, round, totals);
}
