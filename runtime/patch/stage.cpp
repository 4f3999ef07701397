#include "runtime/patch/stage.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/patch/island.h"
#include "runtime/patch/key_table.h"
#include "runtime/plan/verify.h"
#include "runtime/process/remote.h"
#include "runtime/process/target.h"

namespace mdl::patch {
namespace {

using arch::kPage;
constexpr uint64_t kAlign = 64;  // of a trampoline: a cache line; at 16 a hit cost 0.6 ns more
constexpr uint64_t kClusterSpan = uint64_t{1} << 30;  // objects closer than this share an island
constexpr unsigned kFixedNoReplace = 0x100000;        // MAP_FIXED_NOREPLACE, Linux 4.17

uint64_t pages(uint64_t size) {
  return (size + kPage - 1) & ~(kPage - 1);
}
uint64_t aligned(uint64_t size) {
  return (size + kAlign - 1) & ~(kAlign - 1);
}

// What the windows of a function's object must reach: its code and data. What else is mapped of
// the file far away (V8 maps a part of node's a second time) is none of it.
image::Range extent(const FunctionPlan& f, const std::vector<image::Mapping>& mappings) {
  uint64_t here = f.sites.windows.front().start;
  image::Range out{here, here + 1};
  for (const image::Mapping& mapping : mappings)
    if (mapping.path == f.object->path && mapping.start + kClusterSpan > here &&
        mapping.end < here + kClusterSpan)
      out = {std::min(out.start, mapping.start), std::max(out.end, mapping.end)};
  return out;
}

// Objects that lie close together, and the island that serves them.
struct Cluster {
  image::Range near;
  std::vector<size_t> functions;  // indices into Coverage::functions
};

std::vector<Cluster> make_clusters(const Coverage& coverage, const std::vector<image::Mapping>& mappings) {
  std::vector<std::pair<image::Range, size_t>> extents;
  std::map<const image::Object*, image::Range> known;
  for (size_t i = 0; i < coverage.functions.size(); i++) {
    const FunctionPlan& f = coverage.functions[i];
    if (f.sites.windows.empty()) continue;
    auto [it, added] = known.try_emplace(f.object, image::Range{});
    if (added) it->second = extent(f, mappings);
    extents.emplace_back(it->second, i);
  }
  std::stable_sort(extents.begin(), extents.end(),
                   [](const auto& a, const auto& b) { return a.first.start < b.first.start; });
  std::vector<Cluster> out;
  for (auto& [range, index] : extents) {
    if (out.empty() || range.end - out.back().near.start > kClusterSpan) out.push_back({range, {}});
    out.back().near.end = std::max(out.back().near.end, range.end);
    out.back().functions.push_back(index);
  }
  return out;
}

class Builder {
 public:
  Builder(const InsertInput& input, const std::vector<image::Mapping>& mappings, uint64_t apart,
          const Journal* session)
      : input_(input), mappings_(mappings), apart_(apart), session_(session) {
    for (const focus::Balance& balance : input.binding.balances)
      flags_.emplace(balance.function, balance.flag);
    for (const focus::Track& track : input.binding.tracks) spans_.emplace(track.span, spans_.size());
  }

  Result<Stage> build() {
    place_stubs();
    std::vector<Cluster> clusters = make_clusters(input_.coverage, mappings_);
    const image::Range near = clusters.empty() ? program() : clusters[0].near;  // nothing is to be inserted
    if (auto ok = session_ ? use_session() : place_data(near); !ok) return ok.error();
    if (out_.armed.end)
      calls_ = {out_.data.start + out_.layout.blocks(), out_.layout.stride, out_.armed.start};
    for (const Cluster& cluster : clusters)
      if (auto ok = build_island(cluster); !ok) return ok.error();
    fill_stubs();
    std::sort(out_.windows.begin(), out_.windows.end(),
              [](const StagedWindow& a, const StagedWindow& b) { return a.window->start < b.window->start; });
    fill_journal();
    // The journal names its own place, whose digits do not change its size by a page.
    uint64_t size = pages(write_journal(out_.journal).size() + 64);
    if (auto ok = place(out_.journal_at, near, size, UINT64_MAX / 2); !ok) return ok.error();
    out_.journal.code.push_back(out_.journal_at);
    out_.journal.at = out_.journal_at;
    return std::move(out_);
  }

 private:
  Result<void> place(image::Range& where, const image::Range& near, uint64_t size, uint64_t reach) {
    auto gap = find_gap(mappings_, taken_, near, pages(size), reach, apart_);
    if (!gap) gap = find_gap(mappings_, taken_, near, pages(size), reach);
    if (!gap)
      return Error{fmt::format("process {} has no free address space of {} bytes near {:#x}",
                               input_.image.pid, size, near.start)};
    where = {*gap, *gap + pages(size)};
    taken_.push_back(where);
    return {};
  }

  image::Range program() const {
    return mappings_.empty() ? image::Range{kPage, 2 * kPage}
                             : image::Range{mappings_[0].start, mappings_[0].end};
  }

  // What all islands share.
  Result<void> place_data(const image::Range& near) {
    out_.layout = make_layout(input_.binding.cells, process::live_threads(input_.image.pid).size());
    out_.layout.thread_at = input_.thread_at;
    if (auto ok = place(out_.data, near, out_.layout.size(), UINT64_MAX / 2); !ok) return ok;
    if (arms_calls(input_.coverage)) {
      uint64_t size = (uint64_t{out_.layout.slots} + 1) * arch::kArmedBytes;
      if (auto ok = place(out_.armed, near, size, UINT64_MAX / 2); !ok) return ok;
    }
    for (size_t i = 0; i < input_.binding.key_tables.size(); i++) {
      out_.tables.emplace_back();
      const uint64_t size = KeyTableShape{input_.max_keys}.size();
      if (auto ok = place(out_.tables[i], near, size, UINT64_MAX / 2); !ok) return ok;
    }
    return {};
  }
  Result<void> use_session() {
    out_.extends = true;
    out_.layout = session_->layout;
    out_.data = session_->data;
    out_.armed = session_->armed;
    for (const JournalTable& table : session_->tables) out_.tables.push_back(table.at);
    return {};
  }

  // Where punned jumps lead is fixed by what they end with, so their stubs come first. What was free when the
  // windows were chosen may be mapped by now.
  void place_stubs() {
    StubSpace space(mappings_);
    for (FunctionPlan& f : input_.coverage.functions)
      for (const Window& window : f.sites.windows) {
        if (window.tactic != Tactic::punned) continue;
        auto written = static_cast<uint32_t>(window.end - window.start);
        auto at = space.take(arch::punned_targets(window.start, written, window.kept));
        if (at) {
          stubs_[window.start] = *at;
          continue;
        }
        give_up(input_.coverage, f, "the address that its jump must have is not free any more");
        break;
      }
    for (const image::Range& region : space.regions()) {
      taken_.push_back(region);
      out_.islands.push_back(region);
      out_.island_code.emplace_back(region.end - region.start, 0xcc);  // int3: never executed
    }
  }

  void fill_stubs() {
    for (const auto& [at, code] : stub_code_)
      for (size_t i = 0; i < out_.islands.size(); i++)
        if (out_.islands[i].contains(at))
          std::copy(code.begin(), code.end(),
                    out_.island_code[i].begin() + static_cast<std::ptrdiff_t>(at - out_.islands[i].start));
  }

  arch::Track placed(const focus::Track& track, uint64_t resident) const {
    const std::vector<uint32_t>& at = out_.layout.cells;
    arch::Track out{at[track.flag], at[track.span], at[track.base]};
    const focus::CellSlot& base = input_.binding.cells[track.base];
    if (!format::is_timer(base.kind)) return out;
    out.clock = {base.kind, base.event};
    out.routine = resident + arch::span_offset();
    out.entry = resident + arch::span_entry_offset(out_.layout.timer_cells.size(), spans_.at(track.span));
    return out;
  }

  std::vector<uint64_t> tables() const {
    std::vector<uint64_t> out;
    for (const image::Range& table : out_.tables) out.push_back(table.start);
    return out;
  }

  // Whether the function raises and lowers what `change` says.
  bool is_balanced(const FunctionPlan& f, focus::CellId change) const {
    auto [it, end] = flags_.equal_range(f.function);
    return std::any_of(it, end, [&](const auto& balance) { return balance.second == change; });
  }

  arch::Keys placed(const FunctionPlan& f, uint32_t table, uint64_t resident) const {
    const focus::KeyTable& t = input_.binding.key_tables[table];
    const std::vector<uint32_t>& at = out_.layout.cells;
    return {at[t.key], at[t.change], out_.tables[table].start, resident + arch::keys_offset(),
            is_balanced(f, t.change)};
  }

  std::vector<arch::Track> tracks() const {
    std::vector<arch::Track> out;
    for (const focus::Track& track : input_.binding.tracks) out.push_back(placed(track, 0));
    return out;
  }

  // `resident`: where the resident code lies.
  std::vector<arch::Piece> pieces(const FunctionPlan& f, const FunctionPlan::Point& point,
                                  uint64_t resident) const {
    const format::PointKind kind = point.wanted.kind;
    bool raises = kind == format::PointKind::entry || kind == format::PointKind::call_before;
    bool lowers = kind == format::PointKind::return_ || kind == format::PointKind::call_after;
    std::vector<arch::Piece> out;
    for (const focus::BoundSnippet& snippet : point.snippets) {
      arch::Piece piece;
      piece.stencil = &input_.plan.stencils[snippet.stencil];
      for (focus::CellId cell : snippet.cells) piece.cells.push_back(out_.layout.cells[cell]);
      for (focus::CellId guard : snippet.guards) piece.guards.push_back(out_.layout.cells[guard]);
      for (const focus::Track& track : snippet.tracks) piece.tracks.push_back(placed(track, resident));
      if (snippet.keys != focus::BoundSnippet::kNoTable) piece.keys = placed(f, snippet.keys, resident);
      piece.constants = snippet.constants;
      if (auto symbols = input_.binding.symbols.find(snippet.stencil);
          symbols != input_.binding.symbols.end())
        piece.symbols = symbols->second;
      for (auto [flag, end] = flags_.equal_range(f.function); flag != end; ++flag)
        if ((raises || lowers) && !piece.keys && raises_or_lowers(input_.plan, snippet, flag->second, raises))
          (raises ? piece.raises : piece.lowers)
              .push_back(raised_cell(out_.layout, flag->second, input_.binding.cells[flag->second].kind));
      out.push_back(std::move(piece));
    }
    return out;
  }

  arch::Bytes resident_code() const {
    const Layout& layout = out_.layout;
    arch::ResidentParameters p;
    p.header = out_.data.start;
    p.directory = out_.data.start + layout.directory();
    p.directory_bytes = layout.slots * kSlotSize;
    p.overflow_block = out_.data.start + layout.overflow_block();
    p.ended_block = out_.data.start + layout.ended_block();
    p.taken_block = out_.data.start + layout.taken_block();
    p.ring = out_.data.start + layout.ring();
    p.ring_entries = layout.ended;
    p.stride = layout.stride;
    p.timers = layout.timers, p.calls = layout.calls, p.sums = layout.sums, p.cells_end = layout.cells_end;
    p.pid = static_cast<uint64_t>(process::read_status(input_.image.pid).inner_pid);
    p.thread_at = layout.thread_at;
    std::vector<arch::TimerClock> clocks;
    for (focus::CellId cell : layout.timer_cells)
      clocks.push_back({input_.binding.cells[cell].kind, input_.binding.cells[cell].event});
    return arch::resident_code(p, clocks, tracks(), tables());
  }

  // Sizes first, at a place from where everything is in reach; then the island; then the code.
  Result<void> build_island(const Cluster& cluster) {
    TrampolineContext context{&input_.plan.guard,
                              {out_.data.start + out_.layout.directory(), out_.layout.slots,
                               cluster.near.start, out_.layout.thread_at}};
    arch::Bytes resident = resident_code();
    uint64_t size = aligned(resident.size());
    for (size_t index : cluster.functions)
      if (auto ok = build_function(index, context, cluster.near.start, &size, nullptr); !ok) return ok;
    image::Range island;
    if (auto ok = place(island, cluster.near, size, arch::kReach); !ok) return ok;
    context.lookup.slow_path = island.start;
    arch::Bytes code = std::move(resident);
    for (size_t index : cluster.functions)
      if (auto ok = build_function(index, context, island.start, nullptr, &code); !ok) return ok;
    out_.islands.push_back(island);
    out_.island_code.push_back(std::move(code));
    return {};
  }

  // Adds the sizes of a function's trampolines to `size`, or their code to `code`.
  Result<void> build_function(size_t index, TrampolineContext context, uint64_t base, uint64_t* size,
                              arch::Bytes* code) {
    const FunctionPlan& f = input_.coverage.functions[index];
    context.hooked = f.hook;
    if (calls_.area) context.calls = &calls_;
    if (f.hook != arch::Hook::none) context.hook = context.lookup.slow_path + arch::hook_offset(f.hook);
    Liveness liveness(f.code);
    PointPieces point_pieces;
    for (const FunctionPlan::Point& point : f.points)
      point_pieces.push_back(pieces(f, point, context.lookup.slow_path));
    for (const Window& window : f.sites.windows) {
      if (code) code->resize(aligned(code->size()), 0xcc);  // int3: never executed
      auto trampoline =
          build_trampoline(window, liveness, point_pieces, context, base + (code ? code->size() : 0));
      if (!trampoline) return trampoline.error();
      if (size) *size += aligned(trampoline->code.size());
      if (!code) continue;
      if (auto ok = verify_filled(*trampoline); !ok) return ok;
      code->insert(code->end(), trampoline->code.begin(), trampoline->code.end());
      stage_window(f, window, std::move(*trampoline));
    }
    return {};
  }

  // The plan's rules hold for the stencils as they will run (architecture, decision 9). Most
  // trampolines hold the same ones with the same cells: each kind is looked at once.
  Result<void> verify_filled(const Trampoline& trampoline) {
    const plan::TargetRules* rules = plan::rules_for(input_.plan.manifest.target);
    for (const arch::PlacedStencil& placed : trampoline.stencils) {
      auto code = std::as_bytes(std::span(trampoline.code)).subspan(placed.at, placed.stencil->code.size());
      std::string key(reinterpret_cast<const char*>(code.data()), code.size());
      if (!verified_.emplace(placed.stencil, std::move(key)).second) continue;
      if (auto ok = plan::verify_filled(*rules, *placed.stencil, code, out_.layout.stride); !ok) return ok;
    }
    return {};
  }

  void stage_window(const FunctionPlan& f, const Window& window, Trampoline trampoline) {
    StagedWindow staged{&f, &window, std::move(trampoline), {}, {}, {}};
    const uint64_t target = staged.trampoline.address;
    switch (window.tactic) {
      case Tactic::instructions:
      case Tactic::padding:
        staged.patched = arch::window_jump(window.start, target);
        break;
      case Tactic::call:
        staged.patched =
            arch::window_call(window.start, static_cast<uint32_t>(window.end - window.start), target);
        break;
      case Tactic::short_:
        staged.patched = arch::window_short_jump(window.start, window.relay);
        staged.relay = {window.relay, image::bytes_at(f.code, window.relay, arch::kJumpSize),
                        arch::window_jump(window.relay, target), 0, true};
        break;
      case Tactic::punned:
        staged.patched = arch::window_jump(window.start, stubs_.at(window.start));
        // Its end is there already; it is compared and read back with the rest.
        stub_code_.emplace_back(stubs_.at(window.start), arch::far_jump(target));
        break;
    }
    staged.original = image::bytes_at(f.code, window.start, staged.patched.size());
    out_.windows.push_back(std::move(staged));
  }

  // Times are reported in nanoseconds, whatever the metric calls its unit.
  static std::string units_of(const focus::CellSlot& value, const format::Metric& metric) {
    bool time = value.kind == format::CellKind::wall_timer || value.kind == format::CellKind::process_timer;
    return time ? "ns" : metric.units;
  }

  void fill_journal() {
    Journal& journal = out_.journal;
    journal.owner = getpid();
    journal.owner_start = process::start_time(getpid());
    journal.target = input_.image.pid;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    journal.started_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
    journal.ticks_per_second = input_.ticks_per_second;
    journal.plan = input_.plan.checksum;
    journal.code = out_.islands;
    journal.data = out_.data;
    journal.armed = out_.armed;
    fill_windows(journal);
    if (session_) {
      journal.layout = out_.layout;
      journal.layout.cells.clear();  // the session's journal says what they are
      return;
    }
    for (size_t i = 0; i < out_.tables.size(); i++) {
      const focus::KeyTable& table = input_.binding.key_tables[i];
      const std::vector<uint32_t>& at = out_.layout.cells;
      out_.table_headers.push_back(key_table_header({input_.max_keys}, at[table.keys], at[table.key],
                                                    at[table.change], at[table.base], table.by_thread));
      journal.tables.push_back(
          {out_.tables[i], input_.max_keys, table.request, at[table.keys], at[table.base], table.by_thread});
    }
    journal.layout = out_.layout;
    for (const focus::CellSlot& cell : input_.binding.cells) journal.kinds.push_back(cell.kind);
    for (size_t i = 0; i < input_.binding.requests.size(); i++) {
      const focus::BoundRequest& r = input_.binding.requests[i];
      const bool child = r.of != focus::BoundRequest::kNone;
      const focus::CellSlot& value =
          input_.binding.cells[child ? input_.binding.requests[r.of].value : r.value];
      journal.requests.push_back({r.metric, r.focus, r.definition->name, units_of(value, *r.definition),
                                  r.definition->aggregate, r.value, input_.coverage.refused_of[i], r.children,
                                  r.of, value.event, r.thread, r.keyed});
    }
  }

  void fill_windows(Journal& journal) {
    for (const StagedWindow& window : out_.windows) {
      const uint64_t points = window.function->sites_of(*window.window);
      journal.windows.push_back({window.window->start, window.original, window.patched, points});
      if (window.window->tactic == Tactic::short_) journal.windows.push_back(window.relay);
      journal.points += points;
    }
    journal.files = files_at(mappings_, journal.windows);
  }

  const InsertInput& input_;
  const std::vector<image::Mapping>& mappings_;
  uint64_t apart_;
  const Journal* session_;
  arch::ArmedCalls calls_;
  std::multimap<const image::Function*, focus::CellId> flags_;  // kept by a function's entry and exits
  std::map<focus::CellId, size_t> spans_;                       // where among the tracks
  std::vector<image::Range> taken_;
  std::map<uint64_t, uint64_t> stubs_;  // of punned windows, by where these begin
  std::vector<std::pair<uint64_t, arch::Bytes>> stub_code_;
  std::set<std::pair<const plan::Stencil*, std::string>> verified_;
  Stage out_;
};

}  // namespace

Result<Stage> build_stage(const InsertInput& input, const std::vector<image::Mapping>& mappings,
                          uint64_t apart, const Journal* session) {
  return Builder(input, mappings, apart, session).build();
}

namespace {

// Growing a file past RLIMIT_FSIZE sends SIGXFSZ, which kills (setrlimit(2)): a memfd is a file.
Result<void> check_file_size(pid_t pid, uint64_t size) {
  // Not prlimit(2): another user's limits want CAP_SYS_RESOURCE, which even root may lack in a container.
  std::ifstream limits(fmt::format("/proc/{}/limits", pid));
  constexpr std::string_view kRow = "Max file size";
  std::string line;
  while (std::getline(limits, line) && !line.starts_with(kRow)) {
  }
  if (!line.starts_with(kRow)) return Error{fmt::format("cannot read the limits of process {}", pid)};
  std::istringstream row(line.substr(kRow.size()));
  std::string soft;
  row >> soft;
  uint64_t limit = 0;
  std::from_chars(soft.data(), soft.data() + soft.size(), limit);
  if (soft == "unlimited" || limit >= size) return {};
  return Error{fmt::format(
      "process {0} may write files of at most {1} bytes (RLIMIT_FSIZE), and {2} are needed for the "
      "instrumentation: raise the limit with prlimit --pid {0} --fsize={2}",
      pid, limit, size)};
}

}  // namespace

namespace {

constexpr size_t kRegionsAtOnce = 12;

struct Region {
  image::Range at;
  int protection;
};

// Maps some regions with one remote call; the journal is in the `first`. `mapped`: what is, also of a
// failure; `failure`: the first one's negative errno.
Result<void> map_regions(const InsertInput& input, process::Threads& threads,
                         const process::TargetMemory& memory, std::span<const Region> regions, bool first,
                         std::vector<image::Range>& mapped, int64_t& failure) {
  uint64_t total = 0;
  for (const Region& region : regions) total += region.at.end - region.at.start;
  std::vector<arch::RemoteCall> calls;
  calls.push_back({arch::kCalls.memfd_create, {arch::kTextTag, MFD_CLOEXEC}, true});
  calls.push_back({arch::kCalls.ftruncate, {arch::kLastResult, total}, false});
  uint64_t offset = 0;
  for (const Region& region : regions) {
    uint64_t size = region.at.end - region.at.start;
    calls.push_back({arch::kCalls.mmap,
                     {region.at.start, size, static_cast<uint64_t>(region.protection),
                      MAP_PRIVATE | MAP_NORESERVE | kFixedNoReplace, arch::kLastResult, offset},
                     false});
    offset += size;
  }
  calls.push_back({arch::kCalls.close, {arch::kLastResult}, false});
  std::string text = std::string(kSessionName) + (first ? "" : "-more") + '\0';
  auto results = process::remote_calls(input.image.pid, threads, memory, input.image, calls, text);
  if (!results) return results.error();
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
  return {};
}

}  // namespace

Result<void> map_stage(const InsertInput& input, const process::TargetMemory& memory, const Stage& stage,
                       bool& taken) {
  std::vector<Region> regions = {{stage.journal_at, PROT_READ}};
  for (const image::Range& island : stage.islands) regions.push_back({island, PROT_READ | PROT_EXEC});
  if (!stage.extends) {
    regions.push_back({stage.data, PROT_READ | PROT_WRITE});
    for (const image::Range& table : stage.tables) regions.push_back({table, PROT_READ | PROT_WRITE});
    if (stage.armed.end) regions.push_back({stage.armed, PROT_READ | PROT_WRITE});
  }

  uint64_t total = 0;
  for (const Region& region : regions) total += region.at.end - region.at.start;
  pid_t pid = input.image.pid;
  if (auto ok = check_file_size(pid, total); !ok) return ok;
  process::Threads threads(pid);
  std::vector<image::Range> mapped;
  int64_t failure = 0;
  // The stub that makes the calls must find room behind the code of some object: a few regions at a time,
  // each with a file of its own. The journal's comes first.
  for (size_t first = 0; first < regions.size() && failure == 0; first += kRegionsAtOnce) {
    std::span<const Region> some =
        std::span(regions).subspan(first, std::min(kRegionsAtOnce, regions.size() - first));
    if (auto ok = map_regions(input, threads, memory, some, first == 0, mapped, failure); !ok) {
      if (!mapped.empty()) (void)unmap(pid, threads, memory, input.image, mapped).operator bool();
      return ok;
    }
  }
  if (failure == 0) return {};
  taken = failure == -EEXIST;
  if (!mapped.empty()) (void)unmap(pid, threads, memory, input.image, mapped).operator bool();
  return Error{fmt::format("process {} could not map {} bytes for the instrumentation: {}", pid, total,
                           std::strerror(static_cast<int>(-failure)))};
}

Result<void> write_stage(const process::TargetMemory& memory, Stage& stage) {
  Error failed{"cannot write to the memory mapped for the instrumentation"};
  for (size_t i = 0; i < stage.islands.size(); i++)
    if (!memory.write(stage.islands[i].start, std::as_bytes(std::span(stage.island_code[i])))) return failed;
  std::vector<uint64_t> directory = empty_directory(stage.layout, stage.data.start);
  if (!stage.extends &&
      !memory.write(stage.data.start + stage.layout.directory(), std::as_bytes(std::span(directory))))
    return failed;
  for (size_t i = 0; i < stage.tables.size() && !stage.extends; i++)
    if (!memory.write(stage.tables[i].start, std::as_bytes(std::span(stage.table_headers[i])))) return failed;
  // Last: from here on the journal is valid and a removal relies on it.
  std::vector<std::byte> journal = write_journal(stage.journal);
  if (!memory.write(stage.journal_at.start, journal)) return failed;
  stage.journal.head.assign(journal.begin(), journal.begin() + kJournalHead);
  return {};
}

Result<void> unmap(pid_t pid, process::Threads& threads, const process::TargetMemory& memory,
                   const image::Image& image, const std::vector<image::Range>& regions) {
  constexpr size_t kAtOnce = 32;  // as many as the stub's room allows
  for (size_t first = 0; first < regions.size(); first += kAtOnce) {
    std::vector<arch::RemoteCall> calls;
    for (size_t i = first; i < std::min(first + kAtOnce, regions.size()); i++)
      calls.push_back({arch::kCalls.munmap, {regions[i].start, regions[i].end - regions[i].start}, false});
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
