// The other source file of `sources`.
static __attribute__((noinline)) long twin(long value) {
  asm volatile("" : "+r"(value));
  return value + 2;
}

long s_last;

// Has no code of its own.
static inline __attribute__((always_inline)) void s_keep(long value) {
  s_last = value;
}

__attribute__((noinline)) void s_there() {
  s_keep(twin(twin(twin(1))));
}
