// Where the threads of a process run: a profile by sampling.
//
// The instruction of a thread that runs is known to the kernel only while it stands. perf_event_open(2) would have it
// noted by a timer, but is forbidden on many machines and would need calls with privilege of its own, and what the
// kernel writes there would have to be parsed. So each sample is a stop of one thread for as long as its registers take
// (threads.h), by calls that are there anyway. Only a thread that /proc shows as running is stopped: a sleeper is left
// alone, and where nothing runs nothing is touched. Between the look and the stop a thread may fall asleep: a call
// that waited is one that the kernel restarts after the stop, and such a sample is dropped, since nothing ran.
//
// One thread stands at a time, at most kMostStops in one look, and looks are some milliseconds apart, by chance, so that
// nothing that the program does at regular times is seen always or never.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "runtime/process/target_memory.h"

namespace mdl::process {

struct Profile {
  std::map<uint64_t, uint64_t> samples;  // by the address of the instruction
  uint64_t taken = 0;                    // of them
  uint64_t in_calls = 0;                 // samples in a system call, at the instruction that made it
  uint64_t slept = 0;                    // threads that waited when they were stopped: dropped
  uint64_t missed = 0;                   // threads that ran, and could not be stopped
  std::string why_missed = {};           // the first of them
  uint64_t looked_at = 0;                // states of threads that were read
  uint64_t running = 0;                  // of those, how many ran
  bool ended = false;                    // the process has ended meanwhile
};

// An error where it executes another program meanwhile.
Result<Profile> take_profile(pid_t pid, const TargetMemory& memory, std::chrono::milliseconds duration);

}  // namespace mdl::process
