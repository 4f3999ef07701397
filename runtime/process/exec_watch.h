// A thread that is about to execute a program is traced up to the stop behind its execve.
//
// It waits in the resident code meanwhile (Hook::exec) until it is let go on. From there it takes some
// instructions to the system call. When that fails, and whatever else comes between, tracing ends there and
// then. One thread of a process at a time: the kernel lets nobody seize a thread of a process in which
// another one executes a program, and an execve waits until all other threads are gone, of which those that
// are traced by us wait for us.
//
// A program that gets more rights than its process has (set-user-ID, capabilities of a file) would not get
// them under a tracer without CAP_SYS_PTRACE (execve(2)). Then it is let go in front of the call.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>

#include "runtime/image/image.h"
#include "runtime/process/target_memory.h"

namespace mdl::process {

class ExecWatch {
 public:
  // Nothing when the thread cannot be traced, or does not wait in `code`, in `memory`. Otherwise it runs, and
  // look() is to be asked often.
  static std::optional<ExecWatch> begin(pid_t tid, pid_t process, const TargetMemory& memory,
                                        std::span<const image::Range> code);
  // The thread waits once more: a signal handler that has interrupted it executes something, too.
  void expect_another() { calls_++; }

  enum class State {
    waiting,
    executed,    // the process is in the stop behind its execve
    privileged,  // let go, because of its rights
    over,        // let go, as its execve failed, or ended
    lost,        // let go in front of its execve: what comes of that is not seen
  };
  State look();
  // Lets it go on without us.
  void let_go();
  pid_t pid() const { return process_; }
  pid_t thread() const { return tid_; }

 private:
  ExecWatch(pid_t tid, pid_t process) : tid_(tid), process_(process) {}
  State after(int status);
  State leave(State out);

  pid_t tid_, process_;
  int calls_ = 1;          // of execve that are to come
  bool executes_ = false;  // it is in one
  std::chrono::steady_clock::time_point until_;
};

}  // namespace mdl::process
