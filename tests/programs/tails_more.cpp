// The library of `tails`: functions that the program ends with a jump to.
#include "tails.h"

COUNTED uint64_t more_work(uint64_t x) {
  t_event();
  t_event();
  return x * 3;
}

COUNTED uint64_t more_last(uint64_t x) {
  t_event();
  return t_work(x + 1);
}

COUNTED uint64_t more_chain(uint64_t x) {
  t_event();
  return more_last(x + 1);
}
