// The other source file of `sources`.
static __attribute__((noinline)) long twin(long value) {
  asm volatile("" : "+r"(value));
  return value + 2;
}

long s_last;

__attribute__((noinline)) void s_there() { s_last = twin(twin(twin(1))); }
