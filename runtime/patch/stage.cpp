#include "runtime/patch/stage.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <set>

#include "runtime/arch/description.h"
#include "runtime/arch/windows.h"
#include "runtime/patch/island.h"
#include "runtime/patch/placed_code.h"
#include "runtime/patch/raised_cells.h"
#include "runtime/patch/reach.h"
#include "runtime/patch/relay.h"
#include "runtime/plan/verify.h"
#include "runtime/process/limits.h"
#include "runtime/process/target.h"
#include "runtime/resident/key_table.h"
#include "runtime/resident/spare_cells.h"

namespace mdl::patch {
namespace {

using arch::kPage;
constexpr uint64_t kAlign = 64;  // of a trampoline: a cache line; at 16 a hit cost 0.6 ns more
constexpr uint64_t kClusterSpan = uint64_t{1} << 30;  // objects closer than this share an island
constexpr uint64_t kAnywhere = UINT64_MAX / 2;        // as a reach

uint64_t pages(uint64_t size) {
  return (size + kPage - 1) & ~(kPage - 1);
}
uint64_t aligned(uint64_t size) {
  return (size + kAlign - 1) & ~(kAlign - 1);
}

// The range that the windows of a function's object must reach: its code and data. Other mappings of the
// file, far away (V8 maps a part of node's a second time), are none of it.
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
          const resident::Journal* session, const Successor* successor)
      : input_(input), mappings_(mappings), apart_(apart), session_(session), successor_(successor) {}

  Result<Stage> build() {
    place_stubs();
    out_.functions = describe_raised(input_.plan, input_.binding, input_.coverage, out_.journal);
    std::vector<Cluster> clusters = make_clusters(input_.coverage, mappings_);
    const image::Range near = clusters.empty() ? program() : clusters[0].near;  // nothing is to be inserted
    if (auto ok = session_ ? use_session() : place_data(near); !ok) return ok.error();
    placed_.emplace(input_, out_);
    if (out_.armed.end)
      calls_ = {out_.data.start + out_.layout.blocks(), out_.layout.stride, out_.armed.start};
    for (const Cluster& cluster : clusters)
      if (auto ok = build_island(cluster); !ok) return ok.error();
    fill_stubs();
    std::sort(out_.windows.begin(), out_.windows.end(),
              [](const StagedWindow& a, const StagedWindow& b) { return a.window->start < b.window->start; });
    fill_journal();
    // The journal names its own place, whose digits do not change its size by so much. Behind it is a word by which this
    // memory is told from another (process/target_memory.h).
    constexpr uint64_t kOwnPlace = 64, kWord = 8;
    uint64_t size = pages(resident::write_journal(out_.journal).size() + kOwnPlace + kWord);
    if (auto ok = place(out_.journal_at, near, size, kAnywhere); !ok) return ok.error();
    out_.journal.code.push_back(out_.journal_at);
    out_.journal.at = out_.journal_at;
    return std::move(out_);
  }

 private:
  Result<void> place(image::Range& where, const image::Range& near, uint64_t size, uint64_t reach) {
    // Where the program maps and unmaps all around its libraries, what may be anywhere goes out of its way.
    constexpr uint64_t kFarther = 64;
    const uint64_t apart = reach == kAnywhere && apart_ > kApart ? kFarther * apart_ : apart_;
    auto gap = find_gap(mappings_, taken_, near, pages(size), reach, apart);
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

  // The data that all islands share.
  Result<void> place_data(const image::Range& near) {
    const size_t pairs = resident::anomaly_pairs(input_.binding.cells);
    // Functions that raise a flag would change with the requests, and the words are theirs.
    const size_t words = input_.changes ? 0 : number_words(out_.journal.raised, pairs);
    out_.layout = resident::make_layout(
        input_.binding.cells, process::live_threads(input_.image.pid).size(),
        input_.changes || defers(input_.coverage), words,
        input_.changes ? resident::spare_cells_for(input_.plan, input_.more_distributions, input_.any_plan)
                       : resident::SpareCells{},
        space_ / 2);  // the other half is for code and tables
    if (out_.layout.stride > kLargestBlock)
      return Error{fmt::format(
          "the requests would take {:.1f} MB of memory for each thread of process {}, and may take {} MB: "
          "ask "
          "for fewer, or write `by function` behind the query (a distribution takes 22 KB, and by key only "
          "where "
          "something is called)",
          static_cast<double>(out_.layout.stride) / (1 << 20), input_.image.pid, kLargestBlock >> 20)};
    if (out_.layout.anomalies_end - out_.layout.anomalies < (pairs + words) * sizeof(uint64_t))
      for (resident::RaisedCell& cell : out_.journal.raised) cell.words = cell.words_end = 0;
    out_.layout.thread_at = input_.thread_at;
    out_.layout.keeps_hit_time = input_.hit_time.kept;
    if (auto ok = place(out_.data, near, out_.layout.size(), kAnywhere); !ok) return ok;
    if (input_.follow)
      if (auto ok = place(out_.news, near, kNewsSize, kAnywhere); !ok) return ok;
    return place_more(near);
  }
  // What code of these requests needs besides, and nobody has yet.
  Result<void> place_more(const image::Range& near) {
    out_.new_armed = !out_.armed.end && arms_calls(input_.coverage);
    if (out_.new_armed) {
      uint64_t size = (uint64_t{out_.layout.slots} + 1) * arch::kArmedBytes;
      if (auto ok = place(out_.armed, near, size, kAnywhere); !ok) return ok;
    }
    return place_tables(near);
  }
  // Where those are that nobody has yet.
  Result<void> place_tables(const image::Range& near) {
    for (size_t i = 0; i < input_.binding.key_tables.size(); i++) {
      out_.tables.emplace_back();
      if (is_known(i)) {
        out_.tables[i] = successor_->tables[i]->at;
        continue;
      }
      const uint64_t size = shape_of(input_.binding.key_tables[i]).size();
      if (auto ok = place(out_.tables[i], near, size, kAnywhere); !ok) return ok;
    }
    return {};
  }
  bool is_known(size_t table) const { return successor_ && successor_->tables[table]; }
  resident::KeyTableShape shape_of(const focus::KeyTable& table) const {
    if (input_.max_keys == resident::kAsUsual)
      return resident::KeyTableShape::usual(bytes_for_each_table(), table.kind, table.names);
    const uint64_t texts = format::text_keys(table.names);
    return resident::KeyTableShape::of(
        texts ? std::min(input_.max_keys, resident::kMostTexts) : input_.max_keys, table.kind, table.names);
  }
  // Where nobody says how many keys there may be: tables share a quarter of what limits leave.
  uint64_t bytes_for_each_table() const { return space_ / 4 / input_.binding.key_tables.size(); }
  Result<void> use_session() {
    out_.extends = true;
    out_.layout = successor_ ? successor_->layout : session_->layout;
    if (successor_) out_.layout.keeps_hit_time = input_.hit_time.kept;  // from the first timer on
    out_.data = session_->data;
    out_.news = session_->news;
    out_.armed = session_->armed;
    out_.session_relays = resident::relay_places(session_->windows);
    if (successor_) return place_more(out_.data);
    for (const resident::JournalTable& table : session_->tables) out_.tables.push_back(table.at);
    return {};
  }

  // Where punned jumps lead is fixed by what they end with, so their stubs come first. A range that was free
  // when the windows were chosen may be mapped by now.
  void place_stubs() {
    StubSpace space(mappings_, successor_ ? successor_->stubs : std::vector<image::Range>());
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
      out_.island_code.push_back(filled(region));
    }
    out_.journal.stubs = space.regions();
    for (const image::Range& region : space.kept_regions()) {
      out_.reused.push_back({region, {}, filled(region)});
      out_.journal.stubs.push_back(region);
    }
  }

  static arch::Bytes filled(const image::Range& region) {  // never executed
    return arch::Bytes(region.end - region.start, arch::kMachine.fill);
  }

  // A stub may begin in a page that is kept and end in a new one, or the other way round.
  void fill_stubs() {
    for (const auto& [at, code] : stub_code_) {
      for (size_t i = 0; i < out_.islands.size(); i++) copy(at, code, out_.islands[i], out_.island_code[i]);
      for (ReusedStubs& reused : out_.reused) copy(at, code, reused.at, reused.after);
    }
  }

  // The part of the code at `at` that lies in the region.
  static void copy(uint64_t at, const arch::Bytes& code, const image::Range& region, arch::Bytes& into) {
    for (size_t i = 0; i < code.size(); i++)
      if (region.contains(at + i)) into[at + i - region.start] = code[i];
  }

  // Sizes first, at a place from where everything is in reach; then the island; then the code.
  Result<void> build_island(const Cluster& cluster) {
    TrampolineContext context{&input_.plan.guard,
                              {out_.data.start + out_.layout.directory(), out_.layout.slots,
                               cluster.near.start, out_.layout.thread_at, input_.hit_time}};
    arch::Bytes resident = placed_->resident_code();
    uint64_t size = aligned(resident.size());
    for (size_t index : cluster.functions)
      if (auto ok = build_function(index, context, cluster.near.start, &size, nullptr); !ok) return ok;
    image::Range island;
    if (auto ok = place(island, cluster.near, size, arch::kMachine.reach); !ok)
      return cluster.functions.size() > 1 ? build_halves(cluster) : ok;
    context.lookup.slow_path = island.start;
    arch::Bytes code = std::move(resident);
    for (size_t index : cluster.functions)
      if (auto ok = build_function(index, context, island.start, nullptr, &code); !ok) return ok;
    out_.islands.push_back(island);
    out_.island_code.push_back(std::move(code));
    return {};
  }

  // Where stubs lie all over the addresses in reach, no gap may be left for all of the code.
  Result<void> build_halves(const Cluster& cluster) {
    const auto middle = cluster.functions.begin() + static_cast<ptrdiff_t>(cluster.functions.size() / 2);
    Cluster first{cluster.near, {cluster.functions.begin(), middle}};
    Cluster second{cluster.near, {middle, cluster.functions.end()}};
    if (auto ok = build_island(first); !ok) return ok;
    return build_island(second);
  }

  // Adds the sizes of a function's trampolines to `size`, or their code to `code`.
  Result<void> build_function(size_t index, TrampolineContext context, uint64_t base, uint64_t* size,
                              arch::Bytes* code) {
    const FunctionPlan& f = input_.coverage.functions[index];
    context.hooked = f.hook;
    if (calls_.area) context.calls = &calls_;
    context.deferrals = &f.deferrals;
    context.ends_deferred = f.ends_deferred;
    context.may_be_part = f.function->unnamed || f.function->name.find(".cold") != std::string::npos;
    if (f.hook != arch::Hook::none) context.hook = context.lookup.slow_path + arch::hook_offset(f.hook);
    const size_t staged_before = out_.windows.size();
    Liveness liveness(*f.code);
    const PointPieces pieces = placed_->pieces(f, context.lookup.slow_path);
    for (const Window& window : f.sites.windows) {
      if (code) code->resize(aligned(code->size()), arch::kMachine.fill);  // never executed
      auto trampoline = build_trampoline(window, liveness, pieces, context, base + (code ? code->size() : 0));
      if (!trampoline) return trampoline.error();
      if (size) *size += aligned(trampoline->code.size());
      if (!code) continue;
      if (auto ok = verify_filled(*trampoline); !ok) return ok;
      code->insert(code->end(), trampoline->code.begin(), trampoline->code.end());
      stage_window(f, window, std::move(*trampoline));
    }
    fill_hosts(staged_before);
    return {};
  }

  // Behind the jumps of a function's hosts, now that it is known where the relays there lead. A place that
  // nobody needs any more leads where the host's jump does. `first`: of its windows.
  void fill_hosts(size_t first) {
    const std::span<StagedWindow> windows = std::span(out_.windows).subspan(first);
    for (StagedWindow& host : windows)
      for (uint32_t i = 0; i < host.window->relays; i++) {
        const uint64_t at = host.window->start + arch::kMachine.jump_size * (1 + uint64_t{i});
        auto from = std::find_if(windows.begin(), windows.end(),
                                 [&](const StagedWindow& w) { return w.window->relay == at; });
        const StagedWindow& leads = from == windows.end() ? host : *from;
        const arch::Bytes relay = arch::window_jump(at, leads.trampoline.address);
        std::copy(relay.begin(), relay.end(),
                  host.patched.begin() + static_cast<std::ptrdiff_t>(at - host.window->start));
      }
  }

  // The plan's rules hold for the stencils as they will run (architecture, decision 9). Most
  // trampolines hold the same ones with the same cells: each kind is looked at once.
  Result<void> verify_filled(const Trampoline& trampoline) {
    const plan::TargetRules* rules = plan::rules_for(input_.plan.manifest.target);
    for (const arch::PlacedStencil& placed : trampoline.stencils) {
      const arch::Bytes as_planned = arch::as_planned(
          *placed.stencil, std::span(trampoline.code).subspan(placed.at, placed.stencil->code.size()));
      const auto code = std::as_bytes(std::span(as_planned));
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
        staged.patched.resize(written_by(window));
        break;
      case Tactic::call:
        staged.patched =
            arch::window_call(window.start, static_cast<uint32_t>(window.end - window.start), target);
        break;
      case Tactic::short_:
        staged.patched = arch::window_short_jump(window.start, window.relay);
        if (!window.hosted)
          staged.relay = {window.relay, image::bytes_at(*f.code, window.relay, arch::kMachine.jump_size),
                          arch::window_jump(window.relay, target), 0, resident::PatchedWindow::Part::relay};
        break;
      case Tactic::punned:
        staged.patched = arch::window_jump(window.start, stubs_.at(window.start));
        // Its end is there already; it is compared and read back with the rest.
        stub_code_.emplace_back(stubs_.at(window.start), arch::far_jump(target));
        break;
    }
    staged.original = image::bytes_at(*f.code, window.start, staged.patched.size());
    out_.windows.push_back(std::move(staged));
  }

  // Times are reported in nanoseconds, whatever the metric calls its unit.
  static std::string units_of(const focus::CellSlot& value, const format::Metric& metric) {
    return format::is_time(value.kind) ? "ns" : metric.units;
  }

  void fill_journal() {
    resident::Journal& journal = out_.journal;
    journal.owner = getpid();
    journal.owner_start = process::start_time(getpid());
    journal.owner_space = process::pid_namespace();
    journal.target = input_.image.pid;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    journal.started_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
    journal.ticks_per_second = input_.ticks_per_second;
    journal.plan = input_.plan.checksum;
    journal.code = out_.islands;
    for (const ReusedStubs& reused : out_.reused) journal.code.push_back(reused.at);
    journal.data = out_.data;
    journal.news = out_.news;
    journal.armed = out_.armed;
    fill_windows(journal);
    if (session_) journal.generation = session_->generation + (successor_ ? 1 : 0);
    if (successor_) {
      journal.started_ns = session_->started_ns;
    } else if (session_) {
      journal.layout = out_.layout;
      journal.layout.cells.clear();  // the session's journal says what they are
      return;
    }
    for (size_t i = 0; i < out_.tables.size(); i++)
      journal.tables.push_back(is_known(i) ? *successor_->tables[i] : new_table(i));
    journal.layout = out_.layout;
    for (const focus::CellSlot& cell : input_.binding.cells) journal.kinds.push_back(cell.kind);
    for (size_t i = 0; i < input_.binding.requests.size(); i++) {
      const focus::BoundRequest& r = input_.binding.requests[i];
      const bool child = r.of != focus::BoundRequest::kNone;
      const focus::CellSlot& value =
          input_.binding.cells[child ? input_.binding.requests[r.of].value : r.value];
      journal.requests.push_back({.metric = r.metric,
                                  .focus = r.focus,
                                  .name = r.definition->name,
                                  .units = units_of(value, *r.definition),
                                  .aggregate = r.definition->aggregate,
                                  .value = r.value,
                                  .children = r.children,
                                  .of = r.of,
                                  .event = value.event,
                                  .thread = r.thread,
                                  .keyed = r.keyed,
                                  .early = input_.coverage.early_of[i],
                                  .sampled = r.definition->units_type == "sampled"});
    }
    note_losses(input_.plan, input_.binding, input_.coverage, journal);
  }

  resident::JournalTable new_table(size_t i) {
    const focus::KeyTable& table = input_.binding.key_tables[i];
    const resident::KeyTableShape shape = shape_of(table);
    const std::vector<uint32_t>& at = out_.layout.cells;
    std::vector<uint64_t> of;
    for (const focus::CellId key : table.of) of.push_back(at[key]);
    out_.new_tables.push_back(
        {out_.tables[i], resident::key_table_headers(shape, at[table.keys], of, at[table.change],
                                                     at[table.base], table.by_thread)});
    return {.at = out_.tables[i],
            .most = shape.most,
            .request = table.request,
            .keys = at[table.keys],
            .base = at[table.base],
            .by_thread = table.by_thread,
            .names = table.names,
            .kind = table.kind};
  }

  void fill_windows(resident::Journal& journal) {
    for (const StagedWindow& window : out_.windows) {
      const uint64_t points = window.function->sites_of(*window.window);
      const auto part =
          window.window->relays ? resident::PatchedWindow::Part::host : resident::PatchedWindow::Part::window;
      journal.windows.push_back({window.window->start, window.original, window.patched, points, part});
      if (window.relay.address) journal.windows.push_back(window.relay);
      journal.points += points;
    }
    journal.files = resident::files_at(input_.image.mappings, journal.windows);
  }

  const InsertInput& input_;
  const uint64_t space_ = process::space_left(input_.image.pid);
  const std::vector<image::Mapping>& mappings_;
  uint64_t apart_;
  const resident::Journal* session_;
  const Successor* successor_;
  arch::ArmedCalls calls_;
  std::vector<image::Range> taken_;
  std::map<uint64_t, uint64_t> stubs_;  // of punned windows, by where these begin
  std::vector<std::pair<uint64_t, arch::Bytes>> stub_code_;
  std::set<std::pair<const plan::Stencil*, std::string>> verified_;
  Stage out_;
  std::optional<PlacedCode> placed_;
};

// Those that end with a jump to one of them.
void add_dependents(const Coverage& coverage, std::map<const FunctionPlan*, std::string>& reasons) {
  std::map<const image::Function*, std::string> gone;
  for (const auto& [f, reason] : reasons) gone[f->function] = reason;
  for (size_t before = 0; before != gone.size();) {
    before = gone.size();
    for (const FunctionPlan& f : coverage.functions)
      for (const image::Function* target : f.tail_targets)
        if (auto why = gone.find(target); why != gone.end() && !reasons.contains(&f)) {
          reasons[&f] = refused_with(*target, why->second);
          gone[f.function] = reasons[&f];
        }
  }
}

}  // namespace

// The journal in the process names their windows still; that they hold what they held is found there.
void give_up(Stage& stage, Coverage& coverage, std::map<const FunctionPlan*, std::string> reasons) {
  if (reasons.empty()) return;
  add_dependents(coverage, reasons);
  std::set<uint64_t> places;
  for (const StagedWindow& window : stage.windows)
    if (reasons.contains(window.function)) places.insert({window.window->start, window.relay.address});
  std::erase_if(stage.journal.windows,
                [&](const resident::PatchedWindow& patched) { return places.contains(patched.address); });
  std::erase_if(stage.windows, [&](const StagedWindow& window) { return reasons.contains(window.function); });
  for (FunctionPlan& f : coverage.functions)
    if (auto reason = reasons.find(&f); reason != reasons.end()) give_up(coverage, f, reason->second);
}

Result<Stage> build_stage(const InsertInput& input, const std::vector<image::Mapping>& mappings,
                          uint64_t apart, const resident::Journal* session, const Successor* successor) {
  return Builder(input, mappings, apart, session, successor).build();
}

}  // namespace mdl::patch
