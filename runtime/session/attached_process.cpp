#include "runtime/session/attached_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/phases.h"
#include "base/say.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/patch/change.h"
#include "runtime/patch/hooks.h"
#include "runtime/patch/stage_audit.h"
#include "runtime/plan/join.h"
#include "runtime/process/limits.h"
#include "runtime/process/memory_group.h"
#include "runtime/process/target.h"
#include "runtime/resident/journal.h"
#include "runtime/resident/spare_cells.h"
#include "runtime/resident/thread_identity.h"
#include "runtime/session/budget.h"
#include "runtime/session/drilled.h"
#include "runtime/session/errno_place.h"
#include "runtime/session/report.h"
#include "runtime/session/thread_starts.h"
#include "runtime/session/users.h"
#include "runtime/values/cell_kinds.h"

namespace mdl::inject {

using namespace std::chrono_literals;
namespace {

constexpr int kPasses = 2;  // over what was looked into; the next one is over all

bool names_many(const std::string& focus) {
  return focus.find('*') != focus.npos;
}

// A journal that nobody could read again is found here, before anything is mapped.
Result<void> check_size(const patch::Coverage& coverage) {
  size_t windows = 0;
  for (const patch::FunctionPlan& f : coverage.functions) windows += f.sites.windows.size();
  if (windows <= resident::kMostWindows) return {};
  return Error{fmt::format(
      "this would change the code in {} places, and the record that a session keeps of them in the process "
      "has room for {}: ask for fewer functions at once, or for fewer kinds of points",
      windows, resident::kMostWindows)};
}

// A position-independent Go program has the dynamic linker beside it.
Result<void> refuse_go(const image::Image& image, const std::string& name) {
  const auto cannot_be = [](const image::Object& object) { return object.is_go || object.is_loader; };
  if (!image.objects.front().is_go || !std::ranges::all_of(image.objects, cannot_be)) return {};
  return Error{fmt::format(
      "process {} ({}) is a Go program: its stacks move, its functions begin again when theirs has "
      "grown, and its threads have no thread pointer of C's kind: it cannot be instrumented. Of a "
      "Go program that is linked with C libraries, these can be",
      image.pid, name)};
}

// Whether anomalies of several functions are told apart that raise one flag or timer: where requests change they are not.
bool shares_flags(const focus::Binding& binding) {
  std::set<focus::CellId> seen;
  return std::ranges::any_of(binding.balances, [&](const focus::Balance& balance) {
    return !balance.of_calls && !seen.insert(balance.flag).second;
  });
}

bool has_clock(const focus::Binding& binding, format::CellClock clock) {
  return std::ranges::any_of(
      binding.cells, [&](const focus::CellSlot& cell) { return format::info(cell.kind).clock == clock; });
}

// Whether an entry of a call is known in the cell only for the sake of a block's address: then how long calls run is
// asked by nobody, and hits need not be left out of it, which each of them would take longer for.
bool only_notes(const plan::Plan& plan, const focus::Binding& binding, focus::CellId cell) {
  if (binding.cells[cell].kind != format::CellKind::entries) return false;
  for (const focus::BoundPoint& point : binding.points)
    for (const focus::BoundSnippet& snippet : point.snippets)
      if (point.kind != format::PointKind::entry && !plan.stencils[snippet.stencil].info.only_notes &&
          std::ranges::find(snippet.cells, cell) != snippet.cells.end())
        return false;
  return true;
}

// Whether times are asked for.
bool has_times(const plan::Plan& plan, const focus::Binding& binding) {
  if (has_clock(binding, format::CellClock::cpu)) return true;
  for (focus::CellId i = 0; i < binding.cells.size(); ++i)
    if (format::info(binding.cells[i].kind).clock == format::CellClock::wall && !only_notes(plan, binding, i))
      return true;
  return false;
}

}  // namespace

namespace {

// Nobody else changes the process while this is held, and nobody has.
Result<process::TransactionLock> hold(pid_t pid, std::chrono::milliseconds patience) {
  const pid_t live = kernel::live_thread(pid);
  // The session that measures there needs the lock, too: nobody who will be refused takes it.
  auto mappings = image::read_maps(live);
  if (!mappings) return mappings.error();
  if (auto ok = patch::refuse_occupied(pid, *mappings, image::LiveMemory(live)); !ok) return ok.error();
  return process::TransactionLock::share(pid, patience);
}

Result<image::Image> read_objects(pid_t pid, image::ReadLog* log) {
  auto image = image::read_image(pid, image::Depth::named, log);
  if (!image) return image.error();
  const image::LiveMemory memory(kernel::live_thread(pid));
  if (auto ok = patch::refuse_occupied(pid, image->mappings, memory); !ok) return ok.error();
  return image;
}

}  // namespace

Result<Contents> read_contents(pid_t pid, std::chrono::milliseconds patience) {
  auto lock = hold(pid, patience);
  if (!lock) return lock.error();
  auto image = read_objects(pid, nullptr);
  if (!image) return image.error();
  return Contents{std::move(*lock), std::move(*image)};
}

Result<std::unique_ptr<AttachedProcess>> AttachedProcess::look(
    const SessionOptions& options, const plan::Plan& plan, pid_t pid, const std::string& name,
    const process::TargetMemory& memory, std::optional<Contents> contents, const Kin* kin) {
  std::unique_ptr<AttachedProcess> out(new AttachedProcess(options, plan, pid));
  if (auto ok = out->find_out(name, memory, std::move(contents), kin); !ok) return ok.error();
  return out;
}

Result<const AttachedProcess*> AttachedProcess::take_over(const Kin& kin) {
  const pid_t live = kernel::live_thread(pid_);
  auto mappings = image::read_maps(live);
  if (!mappings) return mappings.error();
  const auto like = std::ranges::find_if(kin, [&](const AttachedProcess* one) {
    return one->likeness_ && one->likeness_->holds_for(one->measured_.image, pid_, *mappings);
  });
  if (like == kin.end()) return nullptr;
  if (auto ok = patch::refuse_occupied(pid_, *mappings, image::LiveMemory(live)); !ok) return ok.error();
  measured_.image = (*like)->measured_.image;
  measured_.image.pid = pid_;
  measured_.image.mappings = std::move(*mappings);
  return *like;
}

Result<void> AttachedProcess::read_image() {
  auto image = read_objects(pid_, log());
  if (!image) return image.error();
  measured_.image = std::move(*image);
  return {};
}

Result<void> AttachedProcess::find_out(const std::string& name, const process::TargetMemory& memory,
                                       std::optional<Contents> contents, const Kin* kin) {
  since_ = arch::read_clocks();
  // The memory is open already, so a program that it executes now is noticed.
  if (auto ok = check_users(pid_, *options_); !ok) return ok;
  auto allowed = read_allowed(pid_, memory, name, options_->follow_fork);
  if (!allowed) return allowed.error();
  allowed_ = std::move(*allowed);
  phases::begin("objects");
  const AttachedProcess* like = nullptr;
  std::optional<process::TransactionLock> lock;
  if (contents) {
    measured_.image = std::move(contents->image);
  } else {
    auto held = hold(pid_, 10s);
    if (!held) return held.error();
    lock.emplace(std::move(*held));
    if (kin && !kin->empty()) {
      auto taken = take_over(*kin);
      if (!taken) return taken.error();
      like = *taken;
    }
    if (kin && !like) likeness_ = std::make_unique<Likeness>(pid_);
    if (!like)
      if (auto ok = read_image(); !ok) return ok;
  }
  if (auto ok = refuse_go(measured_.image, name); !ok) return ok;
  measured_.errno_at = errno_for(measured_.plan(), measured_.image, memory, allowed_.denied);

  measured_.wanted = {
      .metrics = options_->metrics,
      .foci = options_->foci,
      .flavor = options_->flavor,
      .allow_calls = options_->allow_calls,
      .allow_reads = options_->allow_reads,
      .await = options_->await,
      .elsewhere = options_->follows_programs(),
      .ps_per_cycle = like ? like->measured_.wanted.ps_per_cycle : arch::picoseconds_per_cycle(),
      .denied = allowed_.denied,
      .denied_links = allowed_.denied_links,
      .queries = options_->queries,
      .spare = options_->drill.all()};
  if (focus::uses_start(measured_.plan().manifest))
    measured_.wanted.starts = thread_starts(measured_.image, memory, options_->max_pause);
  if (like && like->measured_.wanted == measured_.wanted) {
    is_alike_ = true;
    measured_.binding = like->measured_.binding;
    measured_.coverage = like->measured_.coverage;
  } else {
    // Nobody compares what is found out from now on about objects that processes share.
    if (like)
      if (auto ok = read_image(); !ok) return ok;
    if (auto ok = decide_all(memory); !ok) return ok;
  }
  input_.emplace(input_of(measured_, {}));
  if (!options_->dry_run) return {};
  auto refused = patch::rehearse(*input_, memory);
  if (!refused) return refused.error();
  if (*refused) warn_once("{}", patch::audit_warning(*refused));
  return {};
}

Result<void> AttachedProcess::decide_all(const process::TargetMemory& memory) {
  // These are looked at in any case; of many functions some go on in other objects, whichever these are.
  if (std::ranges::any_of(options_->metrics, &names_many) ||
      std::ranges::any_of(options_->foci, &names_many) ||
      std::ranges::any_of(measured_.plan().manifest.metrics,
                          [](const auto& one) { return names_many(one.focus); }))
    image::want_all(measured_.image);
  patch::want_hooked(measured_.image, options_->follow_fork);
  if (auto read = image::read_wanted(measured_.image, log()); !read) return read.error();
  bool again = true;
  for (int pass = 1; again; pass++) {
    const Result<void> done = decide(memory);
    phases::begin("objects");
    if (pass == kPasses && image::is_any_wanted(measured_.image)) image::want_all(measured_.image);
    auto more = image::read_wanted(measured_.image, log());
    if (!more) return more.error();
    again = *more;
    if (!again && !done) return done;
  }
  return check_size(measured_.coverage);
}

void AttachedProcess::explain() const {
  print_binding(stderr, measured_.plan(), measured_.binding);
  if (!options_->dry_run) print_early_ends(stderr, measured_.coverage);
}

void AttachedProcess::say_notes() const {
  print_left_out(stderr, pid_, measured_.binding, options_->verbose);
  if (is_alike_) return;  // it has been said of another one
  print_clones(stderr, measured_.binding, options_->verbose);
  print_folded(stderr, measured_.binding);
}

int AttachedProcess::print_rehearsal(output::Rows& rows) const {
  say_notes();
  print_inlined(stderr, focus::InlinedSearch(measured_.binding, measured_.image).take());
  if (rows.has_objects()) {
    say_text(stdout, rows.of(row_of(measured_.image.pid, measured_.binding, measured_.coverage)));
  } else {
    print_coverage(stdout, measured_.binding, measured_.coverage);
    print_cost(stdout, measured_.plan(), measured_.binding, measured_.wanted.ps_per_cycle);
  }
  return options_->strict && !measured_.coverage.refused.empty() ? static_cast<int>(Status::failed) : 0;
}

Result<void> AttachedProcess::check() const {
  if (auto ok = check_coverage(measured_.plan(), measured_.binding, measured_.coverage, *options_); !ok)
    return ok;
  for (const image::Object& object : measured_.image.objects)
    if (object.is_go)
      warn_once("{} is Go code, which is not instrumented: nothing of it is counted", object.name);
  for (const image::Object& object : measured_.image.objects)
    if (object.runs_old_code)
      warn_once(
          "{} was rewritten by BOLT, and code of before runs, too (pointers lead there): what is done there "
          "is "
          "not counted",
          object.name);
  return check_budget(measured_.plan(), measured_.binding, measured_.wanted.ps_per_cycle, options_->budget);
}

// What is asked for and where it goes, in the image as far as it was read: the caller reads what was looked into, and
// asks again.
Result<void> AttachedProcess::decide(const process::TargetMemory& memory) {
  phases::begin("binding");
  image::LiveMemory code_memory(kernel::live_thread(pid_));
  image::Codes codes(measured_.image, code_memory, log());  // a copy of all the code that is looked at
  auto binding = focus::bind(measured_.plan(), measured_.image, measured_.wanted, &codes);
  if (!binding) return binding.error();
  measured_.binding = std::move(*binding);
  if (asks_for_any_address(measured_.binding)) image::want_all(measured_.image);
  if (image::is_any_wanted(measured_.image)) return {};
  phases::begin("coverage");
  if (isatty(fileno(stderr)) == 1 && !std::exchange(asked_patience_, true))
    say_text(stderr, patience_text(measured_.binding.points.size()));
  const image::LoggedMemory logged(memory, log());
  measured_.coverage = patch::plan_coverage(measured_.plan(), measured_.binding, measured_.image, logged,
                                            codes, {.follow = options_->follow_fork});
  return {};
}

// What the code of these requests needs of the clocks. Where there are timers and the counter can be trusted, they leave
// out what hits take.
Result<AttachedProcess::Clocks> AttachedProcess::clocks_for(const plan::Plan& plan,
                                                            const focus::Binding& binding) const {
  Clocks out{input_->ticks_per_second, input_->hit_time};
  const bool wall = has_clock(binding, format::CellClock::wall) || !options_->commands.empty();
  const bool times = has_times(plan, binding) || !options_->commands.empty();
  if (out.hit_time.kept || (!wall && !has_clock(binding, format::CellClock::cpu))) return out;
  if (out.ticks_per_second == 0) {
    auto rate = arch::ticks_per_second(since_);
    if (!rate && wall && times) return rate.error();
    constexpr uint64_t kUnknown = 1;  // the counter is read, and nobody asks for times
    if (rate || wall) out.ticks_per_second = rate ? *rate : kUnknown;
  }
  if (options_->raw_times || out.ticks_per_second == 0) return out;
  if (!times) return out;
  if (std::ranges::any_of(plan.stencils, &plan::Stencil::reads_otherwise))
    warn_once(
        "the plan reads the clock in a way of its own: its times include what the instrumentation takes, as "
        "with "
        "--raw-times");
  else
    out.hit_time = arch::measure_hit_time(out.ticks_per_second, measured_.wanted.ps_per_cycle);
  return out;
}

// Whether its limits leave room for what the table's keys may ask for, with much to spare: that must not make an attach
// fail.
bool AttachedProcess::has_spare_room() const {
  const size_t threads = process::live_threads(pid_).size();
  const resident::Layout layout = resident::make_layout(
      measured_.binding.cells, threads, true, 0,
      resident::spare_cells_for(measured_.plan(), input_->more_distributions, input_->any_plan));
  const uint64_t blocks = threads + layout.ended;
  return process::has_plenty(pid_, 2 * layout.size()) &&
         process::check_memory(pid_, 4 * blocks * layout.stride).operator bool();
}

// Finds the facts of threads and clocks that the code in the target needs.
Result<void> AttachedProcess::identify(const process::TargetMemory& memory) {
  auto clocks = clocks_for(measured_.plan(), measured_.binding);
  if (!clocks) return clocks.error();
  input_->ticks_per_second = clocks->ticks_per_second;
  input_->hit_time = clocks->hit_time;
  if (input_->changes && options_->commands.empty())
    input_->changes =
        has_spare_room() && (options_->drills || options_->makes_room || !shares_flags(measured_.binding));
  const bool may_do_without = allowed_.asks_id && !options_->follow_fork && options_->commands.empty() &&
                              !resident::needs_identity(measured_.plan(), measured_.binding) &&
                              !patch::arms_calls(measured_.coverage);
  // What the table's keys ask for, or guests where room is made for all that they may ask, may need it: each hit takes
  // longer for it.
  const bool may_need_it = input_->changes && (options_->drills || options_->makes_room);
  if (may_do_without && !may_need_it) return {};
  if (may_do_without) {
    const auto place = resident::find_thread_place(measured_.image.pid, memory);
    input_->changes = place && *place != 0;
    if (input_->changes) input_->thread_at = *place;
    return {};
  }
  auto place = resident::find_thread_place(measured_.image.pid, memory);
  if (!place) return place.error();
  input_->thread_at = *place;
  if (*place == 0 && options_->follow_fork)
    return Error{
        fmt::format("the C library of process {} does not keep thread ids where they are known to be: its "
                    "children cannot be told from it (--follow-fork)",
                    measured_.image.pid)};
  if (*place == 0 && !allowed_.asks_id)
    return Error{
        fmt::format("process {} may not make gettid (seccomp), and its C library does not keep thread ids "
                    "where they are known to be: its threads cannot be told apart",
                    measured_.image.pid)};
  if (*place == 0 && options_->commands.empty()) input_->changes = false;
  if (*place == 0)
    say(stderr,
        "warning: the C library of process {} does not keep thread ids where they are known to be: a thread "
        "that ends inside a constraint or with a running timer may leave it to a later one\n",
        measured_.image.pid);
  return {};
}

Result<void> AttachedProcess::insert(process::TargetMemory& memory, output::Feed& feed, double began_s) {
  likeness_.reset();  // all that are measured with it have been looked at
  phases::begin("clocks");
  auto process = ProcessHandle::open(pid_);
  if (!process) return process.error();
  if (auto ok = identify(memory); !ok) return ok;
  if (auto ok = check_users(pid_, *options_); !ok) return ok;  // the look may have taken seconds
  auto inserted = patch::insert(*input_, memory);
  if (!inserted) return inserted.error();
  phases::begin("measurement");
  inserted_ = std::move(*inserted);
  measurement_ = std::make_unique<Measurement>(*options_, std::move(*process), std::move(inserted_.journal),
                                               std::move(memory), feed, began_s);
  if (!measurement_->journal().tables.empty())
    measurement_->name_addresses(names_of_keys(measured_.plan(), measured_.image));
  libraries_.emplace(*input_, measured_.wanted, measurement_->memory(), measurement_->journal());
  measured_.coverage.forget_code();
  if (options_->follows_programs()) measurement_->hide(hollow());
  return {};
}

void AttachedProcess::say_inserted() {
  print_inserted(inserted_, measured_.coverage);
  if (options_->verbose) print_refused(stderr, measured_.coverage);
  say_notes();
  is_to_search_ = !is_alike_;
}

void AttachedProcess::say_what_was_found() {
  if (std::exchange(is_to_search_, false)) inlined_.emplace(measured_.binding, measured_.image);
  if (!inlined_ || !inlined_->is_over()) return;
  print_inlined(stderr, inlined_->take());
  inlined_.reset();
}

std::vector<bool> AttachedProcess::hollow() const {
  return libraries_->reach().hollow(measured_.binding);
}

bool AttachedProcess::look_for_libraries() {
  if (!libraries_) return false;
  const bool inserted = libraries_->look();
  auto names = libraries_->take_names();
  if (inserted && options_->follows_programs()) measurement_->hide(hollow());
  const bool renames = names != nullptr;
  if (renames) measurement_->name_addresses(std::move(names));
  return inserted || renames;
}

Result<RequestChange> AttachedProcess::requests_for(const output::Drill& drill) const {
  return inject::requests_for(drill, measured_, *measurement_, *options_);
}

Result<std::string> AttachedProcess::change(const RequestChange& change, output::Feed& feed,
                                            std::vector<output::Point>& points) {
  return this->change({.change = change}, &feed, points);
}

Result<std::string> AttachedProcess::join(GuestRequests guest) {
  if (auto ok = plan::may_join(*measured_.own_plan, *guest.part.plan); !ok) return ok.error();
  for (const GuestRequests& one : measured_.guests)
    if (one.part.tag == guest.part.tag || one.feed == guest.feed) return Error{"it is measured already"};
  std::vector<output::Point> none;
  return change({.comes = &guest}, nullptr, none);
}

Result<std::string> AttachedProcess::leave(const output::Feed& feed, std::vector<output::Point>& points) {
  if (std::ranges::find(measured_.guests, &feed, &GuestRequests::feed) == measured_.guests.end())
    return std::string();
  return change({.goes = &feed}, &feed, points);
}

patch::InsertInput AttachedProcess::input_of(Measured& measured, const Clocks& clocks) const {
  return {.plan = measured.plan(),
          .binding = measured.binding,
          .coverage = measured.coverage,
          .image = measured.image,
          .ticks_per_second = clocks.ticks_per_second,
          .thread_at = input_ ? input_->thread_at : 0,
          .errno_at = measured.errno_at,
          .max_keys = options_->max_keys,
          .max_pause = options_->max_pause,
          .follow = options_->follow_fork,
          .hit_time = clocks.hit_time,
          .changes = options_->changes(),
          .more_distributions = !options_->commands.empty() || options_->makes_room,
          .any_plan = options_->drills || options_->shares};
}

Result<std::string> AttachedProcess::change(const Move& move, const output::Feed* sampled,
                                            std::vector<output::Point>& points) {
  if (!input_) return Error{"it was forked with the code that it has"};
  if (!input_->changes)
    return Error{
        "no room was made for that at the attach: the process has too little, its C library does not keep "
        "thread ids where they are known to be, or functions share a flag or timer (--share makes room all "
        "the same)"};
  const Ongoing session{.now = measured_,
                        .measurement = *measurement_,
                        .libraries = *libraries_,
                        .options = *options_,
                        .tells_threads_apart = input_->thread_at != 0,
                        .goes_on = [&]() -> Result<void> {
                          if (move.comes && is_to_end()) return Error{"the session is to end"};
                          return {};
                        }};
  auto next = prepare(move, session);
  if (!next) return next.error();
  Measured& then = next->measured;
  auto cells = patch::continue_cells(measurement_->journal(), then.binding, next->kept.cells);
  if (!cells) return cells.error();
  const bool is_first_clock = !has_times(measured_.plan(), measured_.binding);
  auto clocks = is_first_clock ? clocks_for(then.plan(), then.binding)
                               : Result<Clocks>(Clocks{input_->ticks_per_second, input_->hit_time});
  if (!clocks) return clocks.error();
  patch::InsertInput input = input_of(then, *clocks);
  input.fresh = &cells->fresh;
  if (move.comes) input.max_keys = move.comes->max_keys;
  NewLines lines;
  auto done = patch::change(input, measurement_->memory(), measurement_->journal(), *cells,
                            {.goes_on = session.goes_on,
                             .check_coverage = [&]() -> Result<void> {
                               auto checked = inject::check(*next, session);
                               if (!checked) return checked.error();
                               lines = *checked;
                               return {};
                             },
                             .read_last = [this] { return measurement_->read_last_before_change(); }});
  if (!done) return done.error();
  libraries_.reset();
  measurement_->change({.journal = std::move(done->journal),
                        .kept = next->kept.requests,
                        .cleared = cells->cleared,
                        .feeds = feeds_of(then, measurement_->feed())},
                       sampled, points);
  measured_ = std::move(then);
  measured_.coverage.forget_code();
  input_.emplace(input_of(measured_, *clocks));
  const auto has_come = [&](const focus::KeyTable& table) { return !next->kept.requests[table.request]; };
  if (std::ranges::any_of(measured_.binding.key_tables, has_come))
    measurement_->name_addresses(names_of_keys(measured_.plan(), measured_.image));
  libraries_.emplace(*input_, measured_.wanted, measurement_->memory(), measurement_->journal());
  for (const std::string& warning : done->warnings) warn_once("{}", warning);
  const size_t refused = measured_.coverage.refused.size();
  return fmt::format("{}{}{}", points_text(*done), refused == 0 ? "" : fmt::format(", {} refused", refused),
                     lines.unmeasured == 0
                         ? ""
                         : fmt::format("; {} of {} lines cannot be measured", lines.unmeasured, lines.all));
}

void AttachedProcess::report_to(Found& found) const {
  if (libraries_) found.add(measured_.binding, libraries_->reach());
}

}  // namespace mdl::inject
