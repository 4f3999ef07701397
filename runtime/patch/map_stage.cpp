#include "runtime/patch/map_stage.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>

#include "runtime/arch/description.h"
#include "runtime/image/image.h"
#include "runtime/process/counter_access.h"
#include "runtime/process/limits.h"
#include "runtime/process/memory_group.h"
#include "runtime/process/remote.h"
#include "runtime/process/target.h"
#include "runtime/resident/footprint.h"

namespace mdl::patch {
namespace {

constexpr unsigned kFixedNoReplace = 0x100000;  // MAP_FIXED_NOREPLACE, Linux 4.17

// Growing a file past RLIMIT_FSIZE sends SIGXFSZ, which kills (setrlimit(2)): a memfd is a file.
Result<void> check_file_size(pid_t pid, uint64_t size) {
  const std::optional<uint64_t> limit = process::soft_limit(pid, "Max file size");
  if (!limit) return Error{fmt::format("cannot read the limits of process {}", pid)};
  if (*limit >= size) return {};
  return Error{fmt::format(
      "process {0} may write files of at most {1} bytes (RLIMIT_FSIZE), and {2} are needed for the "
      "instrumentation: raise the limit with prlimit --pid {0} --fsize={2}",
      pid, *limit, size)};
}

// The remedy, where one is known.
std::string remedy(pid_t pid, int64_t failure) {
  if (failure == -EMFILE)
    return fmt::format(
        ": it has as many files open as it may (RLIMIT_NOFILE), and one more is needed for a moment: raise "
        "the "
        "limit with prlimit --pid {} --nofile=N",
        pid);
  if (failure == -ENOMEM)
    return fmt::format(
        ": its address space (RLIMIT_AS), its data (RLIMIT_DATA), the number of its mappings "
        "(vm.max_map_count), or the machine's memory (vm.overcommit_memory=2) is at its limit: see "
        "/proc/{0}/limits, and raise it with prlimit --pid {0} or sysctl",
        pid);
  if (failure == -EBUSY)
    return ": its other threads would have had to stand for longer than --max-pause allows, and have gone "
           "on: "
           "try again when there is more processor time";
  if (failure == -EEXIST)
    return ": it maps memory all the time, and each address that was tried was taken meanwhile: try again";
  if (failure == -EAGAIN)
    return fmt::format(
        ": it locks all that it maps (mlockall), and may not lock so much (RLIMIT_MEMLOCK): raise the limit "
        "with prlimit --pid {0} --memlock=N, or ask for less at once",
        pid);
  return "";
}

constexpr size_t kRegionsAtOnce = 12;
constexpr std::chrono::seconds kMapping{20};  // on a machine so busy that it fails again and again

struct Region {
  image::Range at;
  int protection;
  bool shared = false;  // with the children of a fork
};

// Most of the data is room for threads that never come. A process that locks what it maps (mlockall(2)) would
// get memory for all of it, at once: what is mapped without access gets none, and is unlocked before it is
// opened.
bool is_roomy(const Region& region) {
  return (region.protection & PROT_WRITE) && !region.shared;
}

// 0, or the negative errno of the first call that failed.
Result<int64_t> open_unlocked(const InsertInput& input, process::Threads& threads,
                              const process::TargetMemory& memory, std::span<const Region> regions) {
  std::vector<arch::RemoteCall> calls;
  for (const Region& region : regions) {
    if (!is_roomy(region)) continue;
    const uint64_t size = region.at.end - region.at.start;
    calls.push_back({arch::kMachine.calls.munlock, {region.at.start, size}, false});
    calls.push_back({arch::kMachine.calls.mprotect,
                     {region.at.start, size, static_cast<uint64_t>(region.protection)},
                     false});
  }
  if (calls.empty()) return 0;
  auto results = process::remote_calls(input.image.pid, threads, memory, input.image, calls, {});
  if (!results) return results.error();
  return std::min<int64_t>(*std::ranges::min_element(*results), 0);
}

// Maps some regions with one remote call; the journal is in the `first`; `locked`: the process locks what it
// maps. `mapped`: what is, also of a failure; `failure`: the first one's negative errno. The target stands
// meanwhile, which is added to `paused`.
Result<void> map_regions(const InsertInput& input, process::Threads& threads,
                         const process::TargetMemory& memory, std::span<const Region> regions, bool first,
                         bool locked, std::vector<image::Range>& mapped, int64_t& failure,
                         process::Pauses& paused) {
  uint64_t total = 0;
  for (const Region& region : regions) total += region.at.end - region.at.start;
  std::vector<arch::RemoteCall> calls;
  calls.push_back({arch::kMachine.calls.memfd_create, {arch::kTextTag, MFD_CLOEXEC}, true});
  calls.push_back({arch::kMachine.calls.ftruncate, {arch::kLastResult, total}, false});
  uint64_t offset = 0;
  for (const Region& region : regions) {
    uint64_t size = region.at.end - region.at.start;
    calls.push_back({arch::kMachine.calls.mmap,
                     {region.at.start, size,
                      static_cast<uint64_t>(locked && is_roomy(region) ? PROT_NONE : region.protection),
                      (region.shared ? MAP_SHARED : MAP_PRIVATE) | MAP_NORESERVE | kFixedNoReplace,
                      arch::kLastResult, offset},
                     false});
    offset += size;
  }
  calls.push_back({arch::kMachine.calls.close, {arch::kLastResult}, false});
  std::string text = std::string(resident::kSessionName) + (first ? "" : "-more") + '\0';
  auto results = process::remote_calls_alone(input.image.pid, threads, memory, input.image, calls, text,
                                             input.max_pause);
  const bool others_stood = threads.stopped().size() > 1;
  threads.release_all();
  if (!results && threads.is_late())
    return Error{fmt::format(
        "process {} would have to stand for more than {} ms while memory is mapped in it ({}). Allow "
        "more with --max-pause MS, or try again when there is more processor time",
        input.image.pid, input.max_pause.count(), results.error().text)};
  if (!results) return results.error();
  const auto pause = threads.stood();
  paused.add(pause);
  if (others_stood) process::rest_after(pause);  // the next stop is near
  failure = (*results)[0] < 0 ? (*results)[0] : std::min<int64_t>((*results)[1], 0);
  for (size_t i = 0; i < regions.size(); i++) {
    const image::Range& at = regions[i].at;
    int64_t got = (*results)[i + 2];
    if (got < 0 && got > -4096) {
      failure = failure ? failure : got;
      continue;
    }
    if (got != static_cast<int64_t>(at.start)) failure = -EEXIST;
    mapped.push_back({static_cast<uint64_t>(got), static_cast<uint64_t>(got) + (at.end - at.start)});
  }
  // An address that another thread has taken is no matter of descriptors: another one is tried.
  if (failure && failure != -EEXIST && threads.others_went_on()) failure = -EBUSY;
  if (failure || !locked) return {};
  auto opened = open_unlocked(input, threads, memory, regions);
  if (!opened) return opened.error();
  failure = *opened;
  return {};
}

// Of two that begin at once and do not see each other's lock (process/lock.h), each maps before it looks: then at least
// one sees the other.
bool is_all_ours(const std::vector<image::Mapping>& mappings, std::span<const Region> regions) {
  return std::ranges::all_of(resident::session_mappings(mappings), [&](const image::Range& one) {
    return std::ranges::any_of(regions, [&](const Region& region) {
      return region.at.start <= one.start && one.end <= region.at.end;
    });
  });
}

// Whether the kernel gave what was asked for: a program may have all that it can read made executable, too.
Result<void> check_access(pid_t pid, std::span<const Region> regions, bool may_be_alone) {
  const auto mappings = image::read_maps(pid);
  if (!mappings) return mappings.error();
  if (may_be_alone && !is_all_ours(*mappings, regions))
    return Error{
        fmt::format("another mdl-inject has begun at process {} in the same moment: try again", pid)};
  for (const Region& region : regions) {
    const image::Mapping* mapping = image::mapping_at(*mappings, region.at.start);
    if (mapping && mapping->write == !!(region.protection & PROT_WRITE) &&
        mapping->execute == !!(region.protection & PROT_EXEC))
      continue;
    return Error{fmt::format(
        "memory that is mapped in process {} gets other rights than were asked for (personality(2), "
        "READ_IMPLIES_EXEC): its data would be executable",
        pid)};
  }
  return {};
}

// The memory that a stage takes when it is written: its mappings twice, in the process and in the memfd that
// they are a copy of.
uint64_t memory_needed(pid_t pid, const Stage& stage) {
  constexpr uint64_t kRest = 1 << 20;  // page tables, the first threads' small blocks, and to be sure
  uint64_t mapped = stage.journal_at.end - stage.journal_at.start;
  for (const image::Range& island : stage.islands) mapped += island.end - island.start;
  mapped += stage.new_tables.size() * arch::kPage;
  if (!stage.extends) {
    mapped += stage.layout.blocks();
    mapped += stage.layout.size() - stage.layout.running();
  }
  // Who reads a block takes its pages, also those that nobody has written: of each thread, of the three that
  // are nobody's, and of some threads that end between two looks.
  if (!stage.extends && stage.layout.stride > arch::kPage)
    mapped += (process::live_threads(pid).size() + 3 + stage.layout.ended / 8) * stage.layout.stride;
  std::set<uint64_t> pages;
  for (const StagedWindow& window : stage.windows) pages.insert(window.window->start / arch::kPage);
  return 2 * mapped + pages.size() * arch::kPage + kRest;
}

}  // namespace

Result<void> map_stage(const InsertInput& input, const process::TargetMemory& memory, const Stage& stage,
                       const resident::Journal* session, bool& taken, process::Pauses& paused) {
  std::vector<Region> regions = {{stage.journal_at, PROT_READ}};
  for (const image::Range& island : stage.islands) regions.push_back({island, PROT_READ | PROT_EXEC});
  if (!stage.extends) {
    regions.push_back({stage.data, PROT_READ | PROT_WRITE});
    if (stage.news.end) regions.push_back({stage.news, PROT_READ | PROT_WRITE, true});
  }
  if (stage.new_armed) regions.push_back({stage.armed, PROT_READ | PROT_WRITE});
  for (const NewTable& table : stage.new_tables) regions.push_back({table.at, PROT_READ | PROT_WRITE});

  uint64_t total = 0, writable = 0;
  for (const Region& region : regions) {
    total += region.at.end - region.at.start;
    if (is_roomy(region)) writable += region.at.end - region.at.start;
  }
  pid_t pid = input.image.pid;
  if (auto ok = check_file_size(pid, total); !ok) return ok;
  if (auto ok = process::check_space(pid, total, writable); !ok) return ok;
  if (auto ok = process::check_mappings(pid, input.image.mappings.size(), regions.size()); !ok) return ok;
  if (auto ok = process::check_memory(pid, memory_needed(pid, stage)); !ok) return ok;
  const bool locked = process::read_status(pid).locks_memory;
  process::Threads threads(pid, memory);
  std::vector<image::Range> mapped;
  int64_t failure = 0;
  // The stub that makes the calls must find room behind the code of some object: a few regions at a time,
  // each with a file of its own. The journal's comes first.
  const auto until = std::chrono::steady_clock::now() + kMapping;
  for (size_t first = 0; first < regions.size() && failure == 0;) {
    std::span<const Region> some =
        std::span(regions).subspan(first, std::min(kRegionsAtOnce, regions.size() - first));
    const size_t before = mapped.size();
    if (auto ok = map_regions(input, threads, memory, some, first == 0, locked, mapped, failure, paused);
        !ok) {
      if (!mapped.empty()) (void)unmap(pid, threads, memory, input.image, mapped).operator bool();
      return ok;
    }
    if (failure != -EBUSY || std::chrono::steady_clock::now() > until) {
      first += kRegionsAtOnce;
      continue;
    }
    // These again: what was mapped of them goes first.
    if (auto ok = unmap(pid, threads, memory, input.image, {mapped.begin() + before, mapped.end()}); !ok)
      return ok;
    mapped.resize(before);
    failure = 0;
  }
  if (failure == 0) {
    const bool begins_to_read = input.ticks_per_second != 0 &&
                                (!stage.extends || (session != nullptr && session->ticks_per_second == 0));
    auto may = check_access(pid, regions, !stage.extends && session == nullptr);
    if (may && begins_to_read)
      may = process::check_counter_access(pid, threads, memory, input.image, stage.data.start);
    if (!may) (void)unmap(pid, threads, memory, input.image, mapped).operator bool();
    return may;
  }
  taken = failure == -EEXIST;
  if (!mapped.empty()) (void)unmap(pid, threads, memory, input.image, mapped).operator bool();
  return Error{fmt::format("process {} could not map {} bytes for the instrumentation: {}{}", pid, total,
                           std::strerror(static_cast<int>(-failure)), remedy(pid, failure))};
}

Result<void> write_stage(const process::TargetMemory& memory, Stage& stage) {
  Error failed{"cannot write to the memory mapped for the instrumentation"};
  for (size_t i = 0; i < stage.islands.size(); i++)
    if (!memory.write(stage.islands[i].start, std::as_bytes(std::span(stage.island_code[i])))) return failed;
  for (ReusedStubs& reused : stage.reused) {
    reused.before.resize(reused.after.size());
    if (!memory.read(reused.at.start, std::as_writable_bytes(std::span(reused.before))))
      return Error{"cannot read the code of the instrumentation"};
  }
  std::vector<uint64_t> directory = resident::empty_directory(stage.layout, stage.data.start);
  if (!stage.extends &&
      !memory.write(stage.data.start + stage.layout.directory(), std::as_bytes(std::span(directory))))
    return failed;
  for (const NewTable& table : stage.new_tables) {
    const uint64_t at = table.at.start, own = table.headers.own_at();
    if (!memory.write(at, std::as_bytes(std::span(table.headers.first))) ||
        (own != 0 && !memory.write(at + own, std::as_bytes(std::span(table.headers.own)))))
      return failed;
  }
  const auto process = static_cast<uint64_t>(process::read_status(stage.journal.target).inner_pid);
  if (!stage.extends &&
      !memory.write(stage.data.start + kHeaderProcess, std::as_bytes(std::span(&process, 1))))
    return failed;
  // It waits at its end for who measures; and whoever is killed from here on has not left it so for good (--detach).
  constexpr uint64_t kWaits = 1;
  if (!stage.extends && !memory.write(stage.data.start + kHeaderWaits, std::as_bytes(std::span(&kWaits, 1))))
    return failed;
  const std::vector<std::byte> journal = resident::write_journal(stage.journal);
  if (!resident::is_readable(journal))
    return Error{fmt::format(
        "the journal of {} windows and {} requests would be too large to be read again: ask for less at "
        "once, or write `by function` behind a query, which makes one request of all its functions",
        stage.journal.windows.size(), stage.journal.requests.size())};
  // Its head last: from here on it is valid, and a removal relies on it.
  const auto head = std::span(journal).first(resident::kJournalHead);
  if (!memory.write(stage.journal_at.start + head.size(), std::span(journal).subspan(head.size())) ||
      !memory.write(stage.journal_at.start, head))
    return failed;
  stage.journal.head.assign(head.begin(), head.end());
  return {};
}

Result<void> unmap(pid_t pid, process::Threads& threads, const process::TargetMemory& memory,
                   const image::Image& image, const std::vector<image::Range>& regions) {
  constexpr size_t kAtOnce = 32;  // as many as the stub's room allows
  for (size_t first = 0; first < regions.size(); first += kAtOnce) {
    std::vector<arch::RemoteCall> calls;
    for (size_t i = first; i < std::min(first + kAtOnce, regions.size()); i++)
      calls.push_back(
          {arch::kMachine.calls.munmap, {regions[i].start, regions[i].end - regions[i].start}, false});
    auto results = process::remote_calls(pid, threads, memory, image, calls, {});
    if (!results) return results.error();
    for (int64_t result : *results)
      if (result < 0)
        return Error{fmt::format("process {} could not unmap the instrumentation: {}", pid,
                                 std::strerror(static_cast<int>(-result))),
                     Status::left_inert};
  }
  return {};
}

}  // namespace mdl::patch
