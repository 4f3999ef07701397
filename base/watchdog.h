// Ends this process when a call that touches another process's memory, or a file that it has mapped, does not return.
//
// A page of another process may be one that its owner has to fill: of a file system in user space (FUSE), of
// userfaultfd(2), of a server that is away (NFS). The call that touches it sleeps in the kernel until then, where
// nothing but the end of the whole process gets it out. So does PTRACE_SEIZE while the process executes such a
// file. So a thread of our own looks at all such calls. One that does not return for 30 seconds, or 5 while threads
// of the target stand, ends us with a message. That is as good as any other end of an injector: the kernel lets the
// target's threads go, and they run on as they are at any moment.
//
// It ends us, too, when we compute without end: when no call is made for two minutes of processor time; calls for
// files do not count, since a file may be what is computed without end. What others have
// made (files, plans) has budgets of its own wherever it is known to be work; this is for where it is not.
#pragma once

#include <chrono>
#include <cstdint>

namespace mdl {

// The call is made during the life of this.
class Watched {
 public:
  enum class Of { memory, file };
  explicit Watched(Of what = Of::memory);
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  bool is_outer_;
};

// Threads of a target stand from now on, or do no longer. Counts.
void target_stands(bool stands);

// It is changed from now on, if only by a stub.
void target_changes();
bool has_changed_target();

// For tests: how much processor time may pass between two calls.
void limit_work(std::chrono::milliseconds most);

}  // namespace mdl
