// The yardstick: subject_by_hand patched by this process itself (bench/subject.S).
#pragma once

#include <cstdint>

namespace bench {

// Puts the patch near the function and a jump to it over the function's first instruction.
// Exits with a message when the system does not allow it.
void install_hand_patch();

// Gives the calling thread its slot; each thread does so before it calls subject_by_hand.
void claim_hand_slot();

// Calls counted so far, of all threads.
uint64_t hand_count();

}  // namespace bench
