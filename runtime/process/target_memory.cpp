#include "runtime/process/target_memory.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/nap.h"
#include "runtime/image/image.h"
#include "runtime/kernel/memory.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/kernel/start.h"
#include "runtime/process/target.h"
#include "runtime/process/trace_stop.h"

namespace mdl::process {

using namespace std::chrono_literals;

namespace {

struct RandomBytes {
  ssize_t size = 0;  // 0 where nobody runs in the memory any more, negative where it has no such place
  std::array<std::byte, 16> bytes{};
  bool operator==(const RandomBytes&) const = default;
};

RandomBytes read_random(int memory, uint64_t at) {
  RandomBytes out;
  out.size = kernel::read_some(memory, at, out.bytes);
  return out;
}

// Where journals of sessions end. Behind their text is room (patch/stage.cpp), and the program may not write there.
std::vector<uint64_t> ends_of_journals(pid_t tid) {
  const std::string path = session_path();
  std::vector<uint64_t> out;
  const auto mappings = image::read_maps(tid);
  if (!mappings) return out;
  for (const image::Mapping& one : *mappings)
    if (one.path == path && one.offset == 0 && !one.write && !one.shared)
      out.push_back(one.end - sizeof(uint64_t));
  return out;
}

}  // namespace

std::string session_path(const char* suffix) {
  return fmt::format("/memfd:{}{} (deleted)", kSessionName, suffix);
}

Error another_program(pid_t pid) {
  return {fmt::format(
      "process {} executes another program than the one that was looked at, or is another process by "
      "now: nothing was written to it",
      pid)};
}

Result<TargetMemory> TargetMemory::open(pid_t pid) {
  // An execve between the two makes them differ, and in the middle of one, which lasts as long as others have the
  // processor, its vector is empty: then both are opened again.
  const auto end = std::chrono::steady_clock::now() + 2s;
  do {
    const pid_t thread = kernel::live_thread(pid);
    const uint64_t start = start_time(pid);
    const uint32_t writer = kernel::open_writer(thread);
    if (writer == 0 && (errno == EACCES || errno == EPERM)) return permission_error(pid);
    const int file = writer ? kernel::open_memory(thread) : -1;
    const int problem = errno;
    TargetMemory out(file, writer, start, kernel::proc_text(thread, "auxv"));
    if (file < 0)
      return Error{fmt::format("cannot open the memory of process {}: {}", pid, std::strerror(problem))};
    const Runs runs = out.runs(thread);
    if (runs == Runs::here && out.writes_what_it_reads(thread)) return out;
    if (runs == Runs::nowhere) break;
    nap(500);
  } while (std::chrono::steady_clock::now() < end);
  return Error{fmt::format("process {} has ended, or executes one program after the other", pid)};
}

TargetMemory::~TargetMemory() {
  if (held_ && kills_) kernel::end_program();
  let_run();
  if (file_ >= 0) close(file_);
  if (writer_) kernel::close_writer(writer_);
}

TargetMemory::TargetMemory(TargetMemory&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      writer_(std::exchange(other.writer_, 0)),
      start_(other.start_),
      vector_(std::move(other.vector_)),
      held_(std::exchange(other.held_, 0)),
      kills_(other.kills_) {}

Result<TargetMemory> TargetMemory::duplicate() const {
  const int file = fcntl(file_, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return Error{fmt::format("no file descriptor is left: {}", std::strerror(errno))};
  kernel::duplicate_writer(writer_);
  return TargetMemory(file, writer_, start_, vector_);
}

void TargetMemory::kill_at_end() {
  kills_ = true;
  kernel::end_program_with_us();
}

void TargetMemory::let_run() {
  if (held_ == 0) return;
  int status = 0;
  const bool has_signal = wait_now(held_, status) == held_ && WIFSTOPPED(status) && is_signal(status);
  let_go_or_reap(std::exchange(held_, 0), has_signal ? WSTOPSIG(status) : 0);
}

bool TargetMemory::is_of(pid_t pid) const {
  const uint64_t start = start_time(pid);
  return (start == 0 || start == start_) && runs(kernel::live_thread(pid)) != Runs::elsewhere;
}

bool TargetMemory::is_seen_in(int theirs, uint64_t at) const {
  uint64_t written = 0, seen = 0;
  return getrandom(&written, sizeof written, 0) == sizeof written &&
         write(at, std::as_bytes(std::span(&written, 1))) &&
         kernel::read_memory(theirs, at, std::as_writable_bytes(std::span(&seen, 1))) && seen == written;
}

bool TargetMemory::shares_session(pid_t tid, int theirs) const {
  return std::ranges::any_of(ends_of_journals(tid), [&](uint64_t at) { return is_seen_in(theirs, at); });
}

Runs TargetMemory::runs(pid_t tid) const {
  const uint64_t ours_at = auxiliary(AT_RANDOM).value_or(0);
  // A program that writes to these bytes in just that moment makes them differ once.
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; attempt++) {
    const std::string vector = kernel::proc_text(tid, "auxv");
    if (vector.empty() && (!is_alive_thread(tid) || !read_status(tid).has_memory)) return Runs::nowhere;
    const RandomBytes ours = read_random(file_, ours_at);
    if (ours.size == 0) return Runs::elsewhere;
    const int file = vector.empty() ? -1 : kernel::open_memory(tid);
    if (file < 0) return is_alive_thread(tid) ? Runs::hidden : Runs::nowhere;
    const bool tells = vector == vector_ && ours.size > 0;  // else it was forged, or is another program's
    const bool is_ours = tells ? read_random(file, ours_at) == ours : shares_session(tid, file);
    close(file);
    if (is_ours) return Runs::here;
  }
  return Runs::elsewhere;
}

// Both were opened within a moment in which the process may have executed a program.
bool TargetMemory::writes_what_it_reads(pid_t tid) const {
  const uint64_t at = auxiliary(AT_RANDOM).value_or(0);
  RandomBytes read = read_random(file_, at), written = read;
  if (read.size <= 0) return shares_session(tid, file_);
  return kernel::read_writer(writer_, at, written.bytes) && read == written;
}

bool TargetMemory::read(uint64_t address, std::span<std::byte> into) const {
  return kernel::read_memory(file_, address, into);
}

bool TargetMemory::write(uint64_t address, std::span<const std::byte> bytes) const {
  return kernel::overwrite(writer_, address, bytes);
}

kernel::Edited TargetMemory::edit(std::span<const kernel::Edit> edits, bool only_look) const {
  return kernel::apply_edits(writer_, edits, only_look);
}

}  // namespace mdl::process
