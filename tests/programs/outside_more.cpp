// Part of `outside`: a second variable with the name of one of its own.
#include <cstdint>

static volatile int32_t v_same asm("v_same") __attribute__((used)) = 2;
