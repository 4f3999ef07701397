// Removal: every byte back as it was, then the memory given back.
//
// restore() puts the original bytes back while all threads are stopped: of windows first, then of hosts, for
// which a thread that is at a relay in one is sent on where that leads (relay.h). A host to whose relay a
// thread will come back (a handler interrupted it there) waits. It returns when no thread is inside a
// trampoline any more (neither its pc nor an address on its stack): then the values are final and every
// thread is still stopped, so that the caller can read them. finish() unmaps. A thread that stays inside past
// the deadline (asleep in a signal handler that interrupted a trampoline) keeps the code mapped: it is inert,
// since nothing jumps to it.
//
// The process stands for no longer at once than at an insertion, first. But a removal must be possible, so a
// stop that was too short to look at all stacks is tried again with a longer one, and the process runs for as
// long in between.
//
// In the same stop in which the first bytes go back, stacks are compared with the flags that are up
// (missed_exits.h): threads that run on without the code leave functions without lowering anything.
//
// The process is looked at only when the lock is held: before, somebody else may still be inserting
// or removing. Where the journal is lost, the windows are found by comparing code with its files (recover.h).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/result.h"
#include "runtime/image/unwind.h"
#include "runtime/patch/missed_exits.h"
#include "runtime/process/lock.h"
#include "runtime/process/target_memory.h"
#include "runtime/process/threads.h"
#include "runtime/resident/footprint.h"
#include "runtime/resident/journal.h"

namespace mdl::patch {

// How long a removal tries by itself.
inline constexpr std::chrono::seconds kRemovalPatience{5};

class Removal {
 public:
  Removal(pid_t pid, const process::TargetMemory& memory)
      : pid_(pid), memory_(memory), threads_(pid, memory) {}

  // Until `deadline`, also through states in which a process cannot be stopped (the parent of a
  // vfork). After an error of restore() the code may still be patched.

  // `own` is the journal of a session that the caller has made, and the only one that it removes: when it is
  // not there any more, is_gone() says so and nothing has been done. Without it, whatever there is.
  // `meanwhile` is called while threads are waited for, with the lock held and all threads running.
  Result<void> restore(const resident::Journal* own, std::chrono::milliseconds deadline,
                       const std::function<void()>& meanwhile = {});
  // Asked when the lock is held, before anything is done: an error ends it.
  void only_if(std::function<Result<void>(const resident::Footprint&)> check) { check_ = std::move(check); }
  // The code was mapped, but no thread was ever sent there: stacks need not be looked at.
  void expect_nobody() { expects_nobody_ = true; }
  // Status::left_inert when something had to stay.
  Result<void> finish();

  bool is_gone() const { return gone_; }
  // The process executes another program: nothing of ours is in that, and nothing was done to it. Then
  // restore() and finish() fail.
  bool is_executed() const { return threads_.executed(); }
  const resident::Footprint& session() const { return session_; }  // as it was found by restore()
  size_t restored() const { return restored_; }
  // Windows in which somebody has set breakpoints, which were left there.
  size_t breakpoints() const { return breakpoints_.size(); }
  const ExitCheck& exits() const { return exits_; }  // its cells are those of the journal
  int stubs() const { return stubs_; }               // of remote calls, that finish() took out

 private:
  Result<void> look(const resident::Journal* own);
  // Of the stop, in which nobody maps anything but we, at its end: to read them takes tens of milliseconds where
  // there are tens of thousands.
  Result<const std::vector<image::Mapping>*> mappings();
  void release_all();
  Result<void> put_all_back(const resident::Journal* own, std::chrono::steady_clock::time_point until,
                            const std::function<void()>& meanwhile, const MissedExits* missed,
                            const image::Unwinder& unwinder);
  void take_over() const;
  bool is_another_there();
  Error another_there() const;
  Result<std::set<uint64_t>> moved_away();
  Result<void> put_back(resident::PatchedWindow::Part part, const std::set<uint64_t>& but = {});
  void check_exits(const MissedExits& missed, WalkedStacks& stacks);
  Result<void> put_back_hosts(WalkedStacks& stacks);
  bool leave_relays(const std::map<uint64_t, uint64_t>& relays);
  bool anyone_inside(WalkedStacks& stacks);
  Result<void> add_other_generations(const resident::Journal* own);
  bool holds(uint64_t address, const std::vector<uint8_t>& bytes) const;
  bool is_original(uint64_t address) const;

  pid_t pid_;
  const process::TargetMemory& memory_;
  process::Threads threads_;
  std::optional<process::TransactionLock> lock_;
  std::optional<image::Image> image_;
  std::optional<std::vector<image::Mapping>> mappings_;
  resident::Footprint session_;
  std::map<uint64_t, std::vector<std::byte>> heads_;  // as of look()
  std::vector<resident::PatchedWindow> windows_;
  std::vector<resident::PatchedFile> files_;  // that they are in
  std::vector<image::Range> relays_;
  size_t restored_ = 0;
  std::set<uint64_t> breakpoints_,
      foreign_;  // where windows with these begin; foreign: neither ours nor original
  ExitCheck exits_;
  std::function<Result<void>(const resident::Footprint&)> check_;
  int stubs_ = 0;
  bool gone_ = false;
  bool inside_ = false;
  bool unknown_ = false;  // to look at all stacks took too long
  pid_t unread_ = 0;      // a thread with a stack that cannot be read, and may lead inside
  bool expects_nobody_ = false;
  bool hosts_left_ = false;
};

}  // namespace mdl::patch
