// Insertion: a transaction (architecture, decision 7).
//
//   stage    while the target runs: memory is mapped by a remote call, trampolines, resident
//            code, directory and journal are written and read back; no code has changed
//   commit   all threads stopped: the bytes to be replaced are compared with what was decoded,
//            threads inside a window are moved to the trampoline, flags of active frames are
//            set, windows are written one by one and read back, threads let go
// Each window is one write inside one page and valid by itself, so an injector that is killed
// between two of them leaves a process that runs on correctly, with a journal that says all.
#pragma once

#include <chrono>

#include "base/result.h"
#include "runtime/patch/coverage.h"
#include "runtime/patch/island.h"
#include "runtime/process/pause.h"
#include "runtime/process/paused_memory.h"
#include "runtime/process/target_memory.h"
#include "runtime/process/threads.h"
#include "runtime/resident/journal.h"
#include "runtime/resident/key_table.h"

namespace mdl::patch {

struct Inserted {
  resident::Journal journal;
  uint64_t points = 0;
  std::chrono::nanoseconds took{};
  process::Pauses paused;
  size_t threads = 0;
  size_t frames = 0;  // active frames of constraining functions that count as entered
  std::vector<std::string> warnings;
};

struct InsertInput {
  const plan::Plan& plan;
  const focus::Binding& binding;
  Coverage& coverage;  // sites that had to wait too long are moved to its refusals
  const image::Image& image;
  uint64_t ticks_per_second = 0;           // of wall timers, where there are any (arch::ticks_per_second)
  uint32_t thread_at = 0;                  // arch::Lookup::thread_at (thread_identity.h)
  int64_t errno_at = 0;                    // arch::ResidentParameters::errno_at
  uint64_t max_keys = resident::kAsUsual;  // of each request such as /Message/*
  std::chrono::milliseconds max_pause = process::kMaxPause;  // that the target may be stopped for at once
  bool follow = false;                                       // forks are followed (child.h)
  arch::HitTime hit_time = {};                               // kept where there are timers
  bool changes = false;                      // requests may come and go: room is made for their cells,
  bool more_distributions = false;           // distributions among them,
  bool any_plan = false;                     // also such as this plan has not
  const std::vector<bool>* fresh = nullptr;  // by cell: those that begin now, of a change; null: all of them
};

// An error when the process holds a session already, of a living injector or of one that died.
Result<void> refuse_occupied(pid_t pid, const std::vector<image::Mapping>& mappings,
                             const image::Memory& memory);

// TailScope::ends of what was inserted.
std::set<uint64_t> ends_deferred(const Coverage& coverage);

Result<Inserted> insert(const InsertInput& input, const process::TargetMemory& memory);

}  // namespace mdl::patch
