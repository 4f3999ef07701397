// The library that `loads` loads and unloads.
#include <cstdint>

extern "C" __attribute__((noinline, used)) uint64_t t_plugin_work(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x * 2;
}
