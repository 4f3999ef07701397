// A thread beside all others, for as long as the process lives.
#pragma once

#include <functional>

namespace mdl {

// Runs `work` in a thread that nobody waits for. No signal comes to it: they are for the others.
void run_aside(std::function<void()> work);

}  // namespace mdl
