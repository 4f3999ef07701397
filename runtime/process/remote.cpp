#include "runtime/process/remote.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>

#include "runtime/process/target.h"

namespace mdl::process {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kMark = "MDLSTUB1";  // first bytes of a stub's text: how a left one is found
constexpr size_t kMarkAt = 5;                   // behind the stub's first jump

// A run of slack that can hold `size` bytes. Its first byte is skipped: it may be the
// target of a branch that runs off a segment's end only in a program that is broken anyway.
std::optional<uint64_t> find_slack(const image::Image& image, size_t size) {
  for (const image::Object& object : image.objects)
    for (const image::Range& range : object.unused_text) {
      uint64_t start = (range.start + 16) & ~uint64_t{15};
      if (start < range.end && range.end - start >= size) return start;
    }
  return std::nullopt;
}

// True when the thread is inside a restartable sequence (rseq(2)), which must not be left.
bool in_restartable_sequence(pid_t tid, const TargetMemory& memory) {
  struct {
    uint64_t area;
    uint32_t size, signature, flags, pad;
  } configuration{};
  constexpr int kGetRseq = 0x420f;  // PTRACE_GET_RSEQ_CONFIGURATION
  long got = ptrace(static_cast<__ptrace_request>(kGetRseq), tid, sizeof configuration, &configuration);
  if (got <= 0 || configuration.area == 0) return false;
  uint64_t sequence = 0;  // struct rseq: cpu_id_start, cpu_id, rseq_cs
  return memory.read(configuration.area + 8, std::as_writable_bytes(std::span(&sequence, 1))) &&
         sequence != 0;
}

bool stack_usable(const arch::ThreadRegisters& regs, const TargetMemory& memory) {
  std::byte probe[512];
  return memory.read(arch::stack_pointer(regs) - sizeof probe, probe);
}

bool suits(pid_t tid, const Threads& threads, const TargetMemory& memory) {
  auto regs = threads.registers(tid);
  return regs && stack_usable(*regs, memory) && !in_restartable_sequence(tid, memory);
}

// A stopped thread that can run the stub: first one in user mode, then one in a system call. When
// none is stopped yet, one is; threads come and go, so that takes a few attempts.
Result<pid_t> choose_thread(pid_t pid, Threads& threads, const TargetMemory& memory) {
  std::optional<pid_t> second;
  for (pid_t tid : threads.stopped()) {
    if (!suits(tid, threads, memory)) continue;
    auto regs = threads.registers(tid);
    if (regs && arch::system_call(*regs) < 0) return tid;
    second = tid;
  }
  if (second) return *second;
  for (int attempt = 0; attempt < 100 && threads.empty(); attempt++) {
    for (pid_t tid : live_threads(pid)) {
      if (threads.stop_one(tid, 200ms) && suits(tid, threads, memory)) return tid;
      threads.release(tid);
    }
    timespec nap{0, 2'000'000};
    nanosleep(&nap, nullptr);
  }
  return Error{
      fmt::format("process {} has no thread that could make a system call for us now: try again later", pid)};
}

}  // namespace

Result<std::vector<int64_t>> remote_calls(pid_t pid, Threads& threads, const TargetMemory& memory,
                                          const image::Image& image, std::span<const arch::RemoteCall> calls,
                                          std::string_view text) {
  auto thread = choose_thread(pid, threads, memory);
  if (!thread) return thread.error();
  auto before = threads.registers(*thread);
  if (!before) return before.error();
  std::string marked = std::string(kMark) + std::string(text);
  std::vector<arch::RemoteCall> shifted(calls.begin(), calls.end());
  for (arch::RemoteCall& call : shifted)
    for (uint64_t& value : call.args)
      if ((value & 0xffffffff00000000u) == arch::kTextTag) value += kMark.size();

  size_t size = arch::remote_stub(shifted, marked, *before, 0).size();
  auto address = find_slack(image, size);
  if (!address)
    return Error{fmt::format("no object of process {} has {} free bytes behind its code for the remote call",
                             pid, size)};
  arch::Bytes stub = arch::remote_stub(shifted, marked, *before, *address);
  std::vector<std::byte> original(stub.size());
  if (!memory.read(*address, original) || !memory.write(*address, std::as_bytes(std::span(stub))))
    return Error{
        fmt::format("cannot write to the code of process {} at {:#x}: the kernel may forbid writing through "
                    "/proc/PID/mem (proc_mem.force_override)",
                    pid, *address)};
  std::vector<int64_t> results;
  if (auto ok = threads.set_registers(*thread, arch::remote_entry(*before, *address)); !ok) {
    memory.write(*address, original);
    return ok.error();
  }
  for (size_t stops = 1; results.size() < calls.size(); stops++) {  // entry and exit of each call
    if (threads.run(*thread, Threads::Step::to_system_call, 5000ms) != Threads::Stop::step)
      return Error{fmt::format("thread {} of process {} ended or hung during a remote call", *thread, pid)};
    auto regs = threads.registers(*thread);
    if (!regs) return regs.error();
    if (stops % 2 == 0) results.push_back(arch::remote_result(*regs));
  }
  // One more instruction, so that the thread stops where signals are handled: there the kernel
  // also restarts the system call that it was in, once its registers are what they were.
  if (threads.run(*thread, Threads::Step::one_instruction, 5000ms) != Threads::Stop::step)
    return Error{fmt::format("thread {} of process {} ended or hung after a remote call", *thread, pid)};
  if (auto ok = threads.set_registers(*thread, *before); !ok) return ok.error();
  if (!memory.write(*address, original)) return Error{"cannot restore the bytes of the remote call"};
  return results;
}

int restore_slack(const TargetMemory& memory, const image::Image& image) {
  int restored = 0;
  for (const image::Object& object : image.objects)
    for (const image::Range& range : object.unused_text) {
      uint64_t start = (range.start + 16) & ~uint64_t{15};
      std::byte head[kMarkAt + kMark.size()];
      if (start + sizeof head > range.end || !memory.read(start, head)) continue;
      if (std::memcmp(head + kMarkAt, kMark.data(), kMark.size()) != 0) continue;
      for (const image::Mapping& mapping : image.mappings) {
        if (start < mapping.start || start >= mapping.end) continue;
        std::string path = fmt::format("/proc/{}/map_files/{:x}-{:x}", image.pid, mapping.start, mapping.end);
        int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (file < 0) continue;
        std::vector<std::byte> bytes(std::min<uint64_t>(range.end, mapping.end) - start);
        ssize_t got = pread(file, bytes.data(), bytes.size(),
                            static_cast<off_t>(mapping.offset + (start - mapping.start)));
        close(file);
        if (got < 0) continue;
        std::fill(bytes.begin() + got, bytes.end(), std::byte{0});  // past the file's end a page is zero
        restored += memory.write(start, bytes) ? 1 : 0;
      }
    }
  return restored;
}

}  // namespace mdl::process
