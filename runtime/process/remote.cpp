#include "runtime/process/remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>

#include "base/nap.h"
#include "runtime/arch/description.h"
#include "runtime/kernel/memory.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/kernel/trace.h"
#include "runtime/process/limits.h"
#include "runtime/process/paused_memory.h"
#include "runtime/process/seccomp.h"
#include "runtime/process/target.h"

namespace mdl::process {
namespace {

using namespace std::chrono_literals;

constexpr size_t kMarkAt = 5;  // behind the stub's first jump

// Executable bytes that nothing refers to: behind the code of files, and where that is too short, behind the
// vdso.
std::vector<image::Range> slack_of(const image::Image& image) {
  std::vector<image::Range> out;
  for (const image::Object& object : image.objects)
    out.insert(out.end(), object.unused_text.begin(), object.unused_text.end());
  if (image.vdso_unused.start < image.vdso_unused.end) out.push_back(image.vdso_unused);
  return out;
}

// Where a stub lies in slack. Its first byte is skipped: it may be the target of a branch that
// runs off a segment's end only in a program that is broken anyway.
uint64_t stub_place(const image::Range& slack) {
  return (slack.start + 16) & ~uint64_t{15};
}

bool holds_stub(const image::Range& slack, const TargetMemory& memory) {
  std::byte head[kMarkAt + kStubMark.size()];
  const uint64_t start = stub_place(slack);
  return start + sizeof head <= slack.end && memory.read(start, head) &&
         std::memcmp(head + kMarkAt, kStubMark.data(), kStubMark.size()) == 0;
}

// True when the thread is inside a restartable sequence (rseq(2)), which must not be left.
bool in_restartable_sequence(pid_t tid, const TargetMemory& memory) {
  kernel::RestartableSequences configuration{};
  if (!kernel::read_restartable(tid, configuration) || configuration.area == 0) return false;
  uint64_t sequence = 0;  // struct rseq: cpu_id_start, cpu_id, rseq_cs
  return memory.read(configuration.area + 8, std::as_writable_bytes(std::span(&sequence, 1))) &&
         sequence != 0;
}

constexpr uint64_t kStackNeeded = 512;

// The first thread's stack grows by itself when it is written to, unless that comes near to what is below it,
// or passes a limit.
bool stack_grows(pid_t tid, uint64_t stack_pointer) {
  constexpr uint64_t kNear = 2 << 20;  // the kernel keeps 256 pages free (stack_guard_gap)
  auto mappings = image::read_maps(tid);
  if (!mappings) return false;
  uint64_t below = 0;
  for (const image::Mapping& mapping : *mappings) {
    if (mapping.path == "[stack]" && mapping.start <= stack_pointer && stack_pointer < mapping.end) {
      const uint64_t start = mapping.start - arch::kPage;
      const auto stack = soft_limit(tid, "Max stack size"), space = soft_limit(tid, "Max address space");
      return stack_pointer - kStackNeeded >= start && below + kNear <= start && stack &&
             mapping.end - start <= *stack && space == UINT64_MAX && !read_status(tid).locks_memory;
    }
    below = mapping.end;
  }
  return false;
}

// Whether the stub has room on the thread's stack. /proc/PID/mem reads guard pages, too; this call does not.
bool stack_usable(pid_t tid, const arch::ThreadRegisters& regs) {
  std::byte probe[kStackNeeded];
  return kernel::read_memory_of(tid, arch::stack_pointer(regs) - sizeof probe, probe) ||
         stack_grows(tid, arch::stack_pointer(regs));
}

bool suits(pid_t tid, const Threads& threads, const TargetMemory& memory) {
  auto regs = threads.registers(tid);
  return regs && stack_usable(tid, *regs) && !in_restartable_sequence(tid, memory);
}

// Whether seccomp lets a stopped thread make the calls, and those of the stub itself.
class Permitted {
 public:
  explicit Permitted(std::span<const arch::RemoteCall> calls) {
    planned_.push_back(arch::signal_mask_call());
    for (const arch::RemoteCall& call : calls) {
      planned_.push_back({call.number, call.args, {}});
      for (uint64_t& value : planned_.back().args)
        if (value == arch::kLastResult || (value & 0xffffffff00000000u) == arch::kTextTag)
          value = arch::kUnknown;
    }
  }
  bool operator()(pid_t tid) {
    const Confinement confinement = read_confinement(tid);
    for (const arch::PlannedCall& call : planned_)
      if (std::string why = why_denied(confinement, call); !why.empty()) {
        denied_ = std::move(why);
        return false;
      }
    return true;
  }
  // Why the last one that was asked for may not; "" when all may.
  const std::string& denied() const { return denied_; }

 private:
  std::vector<arch::PlannedCall> planned_;
  std::string denied_;
};

// A stopped thread that can run the stub: first one in user mode, then one in a system call. The registers say which;
// all else is asked of as few as possible, while all stand.
std::optional<pid_t> choose_stopped(const Threads& threads, const TargetMemory& memory, Permitted& may) {
  std::vector<pid_t> all = threads.stopped();
  std::erase_if(all, [&](pid_t tid) { return threads.has_signal(tid) || !threads.registers(tid); });
  std::stable_partition(all.begin(), all.end(),
                        [&](pid_t tid) { return arch::system_call(*threads.registers(tid)) < 0; });
  for (pid_t tid : all)
    if (suits(tid, threads, memory) && may(tid)) return tid;
  return std::nullopt;
}

constexpr std::chrono::seconds kChoosing{10};  // for a thread that stops and may make the calls

// Of stopped threads that all have a signal, one that has taken it: a program that raises signals all the time
// stops for nothing else.
std::optional<pid_t> choose_signalled(Threads& threads, const TargetMemory& memory, Permitted& may) {
  for (pid_t tid : threads.stopped())
    if (threads.has_signal(tid) && threads.take_signal(tid, 200ms) && suits(tid, threads, memory) && may(tid))
      return tid;
  return std::nullopt;
}

Error nobody(pid_t pid, const Permitted& may) {
  if (!may.denied().empty()) return {fmt::format("process {}: {}", pid, may.denied())};
  return {
      fmt::format("process {} has no thread that could make a system call for us now: try again later", pid)};
}

// The same; when none is stopped yet, one is. Threads come and go, so that takes a few attempts.
Result<pid_t> choose_thread(pid_t pid, Threads& threads, const TargetMemory& memory,
                            std::span<const arch::RemoteCall> calls) {
  Permitted may(calls);
  if (auto stopped = choose_stopped(threads, memory, may)) return *stopped;
  if (auto stopped = choose_signalled(threads, memory, may)) return *stopped;
  const bool none_stopped = threads.empty();
  constexpr int kAttempts = 1000, kDeniedAttempts = 20;  // a filter does not go away, but threads come
  const auto until = std::chrono::steady_clock::now() + kChoosing;
  for (int attempt = 0; none_stopped && attempt < (may.denied().empty() ? kAttempts : kDeniedAttempts);
       attempt++) {
    if (has_ended(pid)) return Error{fmt::format("process {} has ended", pid)};
    for (pid_t tid : live_threads(pid)) {
      if (awaits_vfork(tid)) continue;
      if (std::chrono::steady_clock::now() > until) break;  // each may take its time to refuse
      // A thread whose signals come all the time is taken at the beginning of a handler.
      if (threads.stop_one(tid, 200ms) && (!threads.has_signal(tid) || threads.take_signal(tid, 200ms)) &&
          suits(tid, threads, memory) && may(tid))
        return tid;
      if (threads.executed()) return threads.left_alone();
      threads.release(tid);
    }
    if (std::chrono::steady_clock::now() > until) break;
    nap(2000);
  }
  return nobody(pid, may);
}

// The calls' text behind the mark.
std::vector<arch::RemoteCall> behind_mark(std::span<const arch::RemoteCall> calls) {
  std::vector<arch::RemoteCall> out(calls.begin(), calls.end());
  for (arch::RemoteCall& call : out)
    for (uint64_t& value : call.args)
      if ((value & 0xffffffff00000000u) == arch::kTextTag) value += kStubMark.size();
  return out;
}

// The same, while all threads stand: no other one can do anything until they are released.
Result<pid_t> choose_alone(pid_t pid, Threads& threads, const TargetMemory& memory,
                           std::span<const arch::RemoteCall> calls, std::chrono::milliseconds limit) {
  Permitted may(calls);
  constexpr int kDeniedAttempts = 20;
  constexpr auto kVforks = 2000ms;
  Result<void> stopped;
  const auto until = std::chrono::steady_clock::now() + kChoosing;
  for (int attempt = 0; may.denied().empty() || attempt < kDeniedAttempts; attempt++) {
    stopped = threads.stop_all(kVforks, limit);
    if (!stopped && !threads.is_late()) return stopped.error();
    if (stopped) {
      threads.limit_others();
      if (auto one = choose_stopped(threads, memory, may)) return *one;
      if (auto one = choose_signalled(threads, memory, may)) return *one;
      threads.release_all();
    }
    if (std::chrono::steady_clock::now() > until) break;
    rest_after(std::chrono::steady_clock::now() - threads.stopped_since());
  }
  if (!stopped) return stopped.error();
  return nobody(pid, may);
}

constexpr std::chrono::seconds kPatience{5};  // for what takes microseconds where the thread runs at all

// One thread's way through the stub and back.
//
// The stub lies in the target's memory, and whatever can write there can change it while the thread is in it.
// So at each stop the thread must be where the stub makes its next call, and enter or leave that call and no
// other. A thread that is not has strayed: it enters nothing, and is set back to where it was.
// Threads::set_registers() sees to it that it still runs the program that was opened.
class Visit {
 public:
  Visit(pid_t thread, Threads& threads, const TargetMemory& memory, pid_t pid)
      : thread_(thread), threads_(threads), memory_(memory), pid_(pid) {}

  // Nothing when a signal came before the first call: the thread is where it was and has the signal still.
  Result<std::optional<std::vector<int64_t>>> make(const image::Image& image,
                                                   std::span<const arch::RemoteCall> calls,
                                                   const std::string& text) {
    if (auto ok = write_stub(image, calls, text); !ok) return ok.error();
    if (auto ok = enter(); !ok) return ok.error();
    std::vector<int64_t> results;
    for (size_t i = 0; i < stub_.calls.size(); i++) {
      const arch::RemoteStub::Call& call = stub_.calls[i];
      for (bool entering : {true, false}) {
        auto stop = threads_.run(thread_, Threads::Step::to_system_call, kPatience);
        if (stop == Threads::Stop::signal && i == 0 && entering && is_at_start()) {
          if (auto ok = put_back(); !ok) return ok.error();
          return std::optional<std::vector<int64_t>>{};
        }
        if (stop == Threads::Stop::timeout && i == 0 && entering && has_not_moved()) return frozen();
        if (stop != Threads::Stop::step) return unfinished(stop);
        const __ptrace_syscall_info& made = threads_.system_call(thread_);
        if (!is_at(made, call, entering)) return strayed(entering);
        const bool own = i == 0 || i + 1 == stub_.calls.size();
        if (entering && !own && takes_last(calls[i - 1]) && !holds(results, text))
          if (auto ok = drop(); !ok) return ok.error();
        if (!entering && !own) results.push_back(made.exit.rval);
      }
    }
    // On to where signals are handled: there the kernel also restarts the system call that the thread was in,
    // once its registers are what they were.
    if (auto stop = threads_.run(thread_, Threads::Step::to_signals, kPatience); stop != Threads::Stop::step)
      return unfinished(stop);
    if (auto ok = put_back(); !ok) return ok.error();
    return std::optional(std::move(results));
  }

 private:
  Result<void> write_stub(const image::Image& image, std::span<const arch::RemoteCall> calls,
                          const std::string& text) {
    auto before = threads_.registers(thread_);
    if (!before) return before.error();
    before_ = *before;
    auto mask = threads_.signal_mask(thread_);
    if (!mask) return mask.error();
    mask_ = *mask;
    const size_t size = arch::remote_stub(calls, text, before_, mask_, 0).code.size();
    auto address = find_slack(image, size, memory_);
    if (!address)
      return Error{
          fmt::format("no object of process {0} has {1} free bytes behind its code for the remote call "
                      "(mdl-inject --remove {0} "
                      "frees what a killed one has left)",
                      pid_, size)};
    address_ = *address;
    stub_ = arch::remote_stub(calls, text, before_, mask_, address_);
    original_.resize(size);
    if (memory_.read(address_, original_) && memory_.write(address_, std::as_bytes(std::span(stub_.code))))
      return {};
    return Error{
        fmt::format("cannot write to the code of process {} at {:#x}: the kernel may forbid writing through "
                    "/proc/PID/mem (proc_mem.force_override)",
                    pid_, address_)};
  }

  Result<void> enter() {
    if (auto ok = threads_.set_registers(thread_, arch::remote_entry(before_, address_)); !ok) {
      memory_.write(address_, original_);
      return ok;
    }
    // No signal may come in between any more, whoever lets the thread go: the stub sets the mask that was.
    if (auto ok = threads_.set_signal_mask(thread_, ~uint64_t{0}); !ok) {
      if (auto back = put_back(); !back) return back;
      return ok;
    }
    return {};
  }

  Result<void> put_back() {
    if (auto ok = threads_.set_signal_mask(thread_, mask_); !ok) return ok;
    if (auto ok = threads_.set_registers(thread_, before_); !ok) return ok;
    if (!memory_.write(address_, original_)) return Error{"cannot restore the bytes of the remote call"};
    return {};
  }

  static bool takes_last(const arch::RemoteCall& call) {
    return std::ranges::find(call.args, arch::kLastResult) != call.args.end();
  }

  // Whether a descriptor that a call has given, of memory with this name, is that still, or nobody else could have made
  // something else of it. The others, which might, stand again from here to the end of the call, unless the machine is so
  // busy that they cannot be stopped for seconds.
  bool holds(std::span<const int64_t> results, const std::string& text) {
    if (!threads_.others_went_on()) return true;
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!threads_.stop_others(thread_) && threads_.is_late() && std::chrono::steady_clock::now() < until)
      rest_after(std::chrono::steady_clock::now() - threads_.stopped_since());
    const std::string name = text.substr(kStubMark.size()).c_str();  // up to its zero
    return !results.empty() && kernel::proc_link(thread_, fmt::format("fd/{}", results.front())) ==
                                   fmt::format("/memfd:{} (deleted)", name);
  }

  // The call that it is about to make becomes none, and fails.
  Result<void> drop() {
    auto regs = threads_.registers(thread_);
    if (!regs) return regs.error();
    arch::drop_call(*regs);
    return threads_.set_registers(thread_, *regs);
  }

  bool is_at_start() const {
    auto regs = threads_.registers(thread_);
    return regs && arch::pc(*regs) == address_;
  }

  // Stops a thread that was sent to the stub and does not come back: true when it is there still. A frozen
  // process can be traced, but does not run.
  bool has_not_moved() { return threads_.stop_one(thread_, kPatience) && is_at_start(); }

  Error frozen() {
    if (auto ok = put_back(); !ok) return ok.error();
    return {
        fmt::format("thread {} of process {} did not run for {} s: the process is frozen (by its control "
                    "group, as `docker "
                    "pause` does it) or gets no processor time; try again when it runs",
                    thread_, pid_, kPatience.count())};
  }

  // The stub finds its end by itself, whenever the thread runs again; what it maps until then stays.
  Error unfinished(Threads::Stop stop) const {
    if (threads_.executed()) return threads_.left_alone();
    if (stop == Threads::Stop::exited)
      return {fmt::format("thread {} of process {} ended during a remote call", thread_, pid_)};
    return {fmt::format(
                "thread {0} of process {1} stopped running in the middle of a remote call, which may leave "
                "memory mapped, inert, in it: see mdl-inject --status {1}, take it out with mdl-inject "
                "--remove {1}",
                thread_, pid_),
            Status::left_inert};
  }

  Error strayed(bool entering) {
    auto regs = threads_.registers(thread_);
    if (!regs) return regs.error();
    const long number = arch::system_call(*regs);
    const uint64_t at = arch::pc(*regs);
    auto stop = Threads::Stop::step;
    if (entering) {
      if (auto ok = drop(); !ok) return unfinished(Threads::Stop::exited);
      stop = threads_.run(thread_, Threads::Step::to_system_call, kPatience);
    }
    if (stop == Threads::Stop::step) stop = threads_.run(thread_, Threads::Step::to_signals, kPatience);
    if (stop != Threads::Stop::step || !put_back()) return unfinished(stop);
    return {fmt::format(
                "thread {0} of process {1} left the code of a remote call, and was about to make system call "
                "{2} at {3:#x}: something else writes to its code. It was set back to where it was; memory "
                "may be left mapped, inert, in it: see mdl-inject --status {1}",
                thread_, pid_, number, at),
            Status::left_inert};
  }

  pid_t thread_;
  Threads& threads_;
  const TargetMemory& memory_;
  pid_t pid_;
  arch::ThreadRegisters before_{};  // of the visit
  uint64_t mask_ = 0;
  uint64_t address_ = 0;
  arch::RemoteStub stub_;
  std::vector<std::byte> original_;  // at its place
};

// Makes the calls on the thread that `choose` stops.
Result<std::vector<int64_t>> visit(pid_t pid, Threads& threads, const TargetMemory& memory,
                                   const image::Image& image, std::span<const arch::RemoteCall> calls,
                                   std::string_view text, const std::function<Result<pid_t>()>& choose) {
  const std::string marked = std::string(kStubMark) + std::string(text);
  const std::vector<arch::RemoteCall> shifted = behind_mark(calls);
  const bool none_stopped = threads.empty();
  constexpr int kAttempts = 500;  // signals may come all the time
  const auto until = std::chrono::steady_clock::now() + kChoosing;
  for (int attempt = 0; attempt < kAttempts && std::chrono::steady_clock::now() < until; attempt++) {
    auto thread = choose();
    if (!thread) return thread.error();
    auto results = Visit(*thread, threads, memory, pid).make(image, shifted, marked);
    if (!results) return results.error();
    if (*results) return std::move(**results);
    if (none_stopped) threads.release_all();  // with its signal; others are tried, or it, later
  }
  return Error{fmt::format("signals keep process {} from making a system call for us: try again later", pid)};
}

}  // namespace

bool is_at(const __ptrace_syscall_info& made, const arch::RemoteStub::Call& call, bool entering) {
  if (made.instruction_pointer != call.next || made.arch != arch::kMachine.audit) return false;
  if (!entering) return made.op == PTRACE_SYSCALL_INFO_EXIT;
  return made.op == PTRACE_SYSCALL_INFO_ENTRY && made.entry.nr == static_cast<uint64_t>(call.number);
}

// One that holds the stub of an injector that died is left alone: a thread may be in it.
std::optional<uint64_t> find_slack(const image::Image& image, size_t size, const TargetMemory& memory) {
  for (const image::Range& range : slack_of(image)) {
    uint64_t start = stub_place(range);
    if (start < range.end && range.end - start >= size && !holds_stub(range, memory)) return start;
  }
  return std::nullopt;
}

Result<std::vector<int64_t>> remote_calls(pid_t pid, Threads& threads, const TargetMemory& memory,
                                          const image::Image& image, std::span<const arch::RemoteCall> calls,
                                          std::string_view text) {
  return visit(pid, threads, memory, image, calls, text,
               [&] { return choose_thread(pid, threads, memory, calls); });
}

Result<std::vector<int64_t>> remote_calls_alone(pid_t pid, Threads& threads, const TargetMemory& memory,
                                                const image::Image& image,
                                                std::span<const arch::RemoteCall> calls,
                                                std::string_view text, std::chrono::milliseconds limit) {
  return visit(pid, threads, memory, image, calls, text,
               [&] { return choose_alone(pid, threads, memory, calls, limit); });
}

std::vector<image::Range> left_stubs(const TargetMemory& memory, const image::Image& image) {
  std::vector<image::Range> out;
  for (const image::Range& range : slack_of(image))
    if (holds_stub(range, memory)) out.push_back({stub_place(range), range.end});
  return out;
}

int restore_slack(const TargetMemory& memory, const image::Image& image) {
  int restored = 0;
  for (const image::Range& stub : left_stubs(memory, image))
    for (const image::Mapping& mapping : image.mappings) {
      if (stub.start < mapping.start || stub.start >= mapping.end) continue;
      std::vector<std::byte> bytes(std::min(stub.end, mapping.end) - stub.start);
      // Behind the vdso, which is no file, there were zeros.
      const bool known = mapping.inode == 0 || image::read_mapped(image.pid, mapping, stub.start, bytes);
      if (known && memory.write(stub.start, bytes)) restored++;
    }
  return restored;
}

}  // namespace mdl::process
