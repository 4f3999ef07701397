// A program that was just executed is brought to its entry, where its loader hands over to it, and held
// there: its libraries are there and have run their constructors; its own have not run, nor main.
//
// Behind its execve only the program and its loader are mapped. Code is put into slack (arch::EntryStub), and
// the loader is told, in the auxiliary vector on the stack, that this is the program's entry. Then the
// program runs, and nobody traces it: what constructors do, to which of their own or other processes, works
// as it does without us. In the stub it makes the vector what it was, waits, and is stopped; its registers
// become those at its entry, the slack becomes what it was. If this process dies meanwhile, the program goes
// on by itself.
//
// A child that is forked on the way keeps the bytes of the stub, and passes it without waiting.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/arch/entry_stub.h"
#include "runtime/arch/thread_registers.h"
#include "runtime/process/target_memory.h"

namespace mdl::process {

class Arrival {
 public:
  // `pid` is in the stop behind its execve; it is traced by us. An error leaves it there, as it was: it is
  // not a program that can be brought to its entry.
  static Result<Arrival> prepare(pid_t pid);

  pid_t pid() const { return pid_; }
  // Lets it run.
  void begin();
  enum class State {
    on_its_way,
    here,  // it waits
    gone,  // it has ended, or executes another program
  };
  State look() const;
  // Where `memory()` has the word that must change every 0.5 s while it waits.
  uint64_t beat_at() const { return stub_.beat; }
  const TargetMemory& memory() const { return memory_; }
  // Stops one that is here, at its entry: its memory, by which it is held.
  Result<TargetMemory> take();

 private:
  Arrival(pid_t pid, TargetMemory memory) : pid_(pid), memory_(std::move(memory)) {}
  Result<void> place_stub(const arch::ThreadRegisters& registers);

  pid_t pid_;
  TargetMemory memory_;
  uint64_t entry_ = 0;
  uint64_t word_ = 0;     // the address of AT_ENTRY's value
  uint64_t address_ = 0;  // of the stub
  arch::EntryStub stub_;
  std::vector<std::byte> original_;  // at its place
};

}  // namespace mdl::process
