// The library that `loads` loads and unloads.
#include <cstdint>

extern "C" {
volatile int64_t v_plugin = 5;
}

extern "C" __attribute__((noinline, used)) uint64_t t_plugin_work(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x * 2;
}

extern "C" __attribute__((noinline, used)) uint64_t t_plugin_outer(uint64_t x) {
  asm volatile("" : "+r"(x));
  return t_plugin_work(x) + t_plugin_work(x + 1);
}
