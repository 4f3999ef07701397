// A process's memory, and the program that runs in it.
//
// The memory is read and written through /proc/PID/mem, which may write private pages that the process itself
// may not (code): no page is ever made writable. The descriptors, one to read and one to write, are opened once. The kernel binds it to the
// address space that the process had then, not to the process (mem_open() in fs/proc/base.c), so a program
// that the process executes meanwhile is never written to: execve(2) gives it an address space of its own.
//
// The same descriptor is the identity of the program. Registers are set by a thread's id, and such an id may
// mean another program at any later moment. runs() tells whether a thread still has this address space. No
// system call compares an address space with a descriptor, so two things are compared that every execve makes
// anew: the auxiliary vector (addresses that the kernel has chosen at random, the ids and AT_SECURE that the
// program began with), and the 16 random bytes to which its AT_RANDOM points. A process may forge both in its
// own memory (prctl(2), PR_SET_MM_MAP), but cannot know those that the program will get that it executes
// next.
//
// A program that forges its vector is no other program for that. Where a session is in it, there is a place that only
// we write: the end of the journal's mapping, behind its text. A number that is written there through the descriptor,
// drawn anew for each comparison, is found in the thread's memory where that is the same, and nowhere else. Without a
// session such a process counts as another program.
//
// A process and the copies of it that fork(2) makes have the same of both; they are told apart by the
// process's start time.
//
// A process that has left an address space never comes back to it. So one comparison that succeeds also
// vouches for everything that was read of this process since open(): its mappings, its files, its threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "runtime/image/auxiliary.h"
#include "runtime/image/memory.h"
#include "runtime/kernel/edit.h"

namespace mdl::process {

using image::auxiliary_value;

// Where a thread runs.
enum class Runs : uint8_t {
  here,       // in the memory that was opened
  elsewhere,  // in that of another program
  nowhere,    // it has ended
  hidden,     // we may not see that, so nor trace it
};

// A session's memfds; the journal is at the beginning of the first one (resident/footprint.h).
inline constexpr const char* kSessionName = "mdl-session";
// As the kernel shows a memfd: the name that it was created with, of a file that is in no folder.
std::string session_path(const char* suffix = "");

// The error for a process that does not run in the memory any more that was opened.
Error another_program(pid_t pid);

class TargetMemory final : public image::Memory {
 public:
  static Result<TargetMemory> open(pid_t pid);
  ~TargetMemory() override;
  TargetMemory(TargetMemory&& other) noexcept;
  // The same, for another thread of ours. Nobody is held by it.
  Result<TargetMemory> duplicate() const;
  TargetMemory& operator=(TargetMemory&&) = delete;

  bool read(uint64_t address, std::span<std::byte> into) const override;
  // Both as in kernel/edit.h: code is edited, and only what is ours is written as it is.
  bool write(uint64_t address, std::span<const std::byte> bytes) const;
  kernel::Edited edit(std::span<const kernel::Edit> edits, bool only_look = false) const;

  // A value of the program's auxiliary vector.
  std::optional<uint64_t> auxiliary(uint64_t key) const { return auxiliary_value(vector_, key); }

  // Holds for as long as the thread is stopped. For one that runs it was true a moment ago.
  Runs runs(pid_t tid) const;
  // False when the process executes another program, or the id has come to mean another process.
  bool is_of(pid_t pid) const;

  // From here on this thread stands in a ptrace stop of ours, with this memory, until let_run() or the end of
  // this.
  void hold(pid_t tid) { held_ = tid; }
  pid_t held() const { return held_; }  // 0 = none
  void let_run();
  // A process that is held when this ends, or we do, is not let go, but killed.
  void kill_at_end();

 private:
  TargetMemory(int file, uint32_t writer, uint64_t start, std::string vector)
      : file_(file), writer_(writer), start_(start), vector_(std::move(vector)) {}
  bool writes_what_it_reads(pid_t tid) const;
  // Whether `theirs`, the memory of a thread, is this one, by what is written to a session in it.
  bool shares_session(pid_t tid, int theirs) const;
  bool is_seen_in(int theirs, uint64_t at) const;

  int file_;            // to read
  uint32_t writer_;     // of the same address space
  uint64_t start_;      // of the process
  std::string vector_;  // the auxiliary vector
  pid_t held_ = 0;
  bool kills_ = false;
};

}  // namespace mdl::process
