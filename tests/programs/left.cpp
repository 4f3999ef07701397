// A function that ends with a jump to another one, which runs until the program ends: no stack shows the first.
//
//   left SECONDS HOW    HOW the second, t_loop, is called:
//                       leaves   by t_leaves, which is called directly
//                       pointer  by t_leaves, which is called through a pointer
//                       loop     directly
//
// Commands: `go N` calls t_event N times (protocol.h).
#include <cstring>

#include "protocol.h"

extern "C" {
#define WORK [[gnu::noinline, gnu::used]] int
WORK t_event(int value) {
  asm volatile("");
  return value + 1;
}
WORK t_loop(int argc, char** argv) {
  return protocol::go(
      argc, argv, [](unsigned long i) { t_event(static_cast<int>(i)); }, [] { return std::string(); });
}
WORK t_leaves(int argc, char** argv) {
  asm volatile("");
  return t_loop(argc, argv);
}
}

int main(int argc, char** argv) {
  int (*volatile through)(int, char**) = t_leaves;
  const char* how = argc > 2 ? argv[2] : "loop";
  const int status = strcmp(how, "leaves") == 0    ? t_leaves(argc, argv)
                     : strcmp(how, "pointer") == 0 ? through(argc, argv)
                                                   : t_loop(argc, argv);
  asm volatile("");  // none of them is a tail call
  return status;
}
