// The smallest program whose main has a cold part: GCC places that right in front of main, with padding between
// them. It ends with the status that foo() returns.
__attribute__((noinline)) int foo() {
  static volatile int status;
  return status;
}

int main(void) {
  int status = foo();
  if (status) __builtin_abort();
  return status;
}
