#include "runtime/session/attached_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/phases.h"
#include "base/say.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/patch/change.h"
#include "runtime/patch/stage_audit.h"
#include "runtime/plan/capabilities.h"
#include "runtime/plan/join.h"
#include "runtime/process/limits.h"
#include "runtime/process/lock.h"
#include "runtime/process/memory_group.h"
#include "runtime/process/target.h"
#include "runtime/resident/journal.h"
#include "runtime/resident/spare_cells.h"
#include "runtime/resident/thread_identity.h"
#include "runtime/session/budget.h"
#include "runtime/session/callees.h"
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

// The contents of a process, held still: code in which somebody else inserts, or from which he removes, is
// not the program's own.
struct Looked {
  process::TransactionLock lock;
  image::Image image;
};
Result<Looked> look_at(pid_t pid) {
  const pid_t live = kernel::live_thread(pid);
  const image::LiveMemory memory(live);
  // The session that measures there needs the lock, too: nobody who will be refused takes it.
  auto mappings = image::read_maps(live);
  if (!mappings) return mappings.error();
  if (auto ok = patch::refuse_occupied(pid, *mappings, memory); !ok) return ok.error();
  auto lock = process::TransactionLock::share(pid, 10s);
  if (!lock) return lock.error();
  auto image = image::read_image(pid, image::Depth::named);
  if (!image) return image.error();
  if (auto ok = patch::refuse_occupied(pid, image->mappings, memory); !ok) return ok.error();
  return Looked{std::move(*lock), std::move(*image)};
}

// A journal that nobody could read again is found here, before anything is mapped.
Result<void> check_size(const patch::Coverage& coverage) {
  size_t windows = 0;
  for (const patch::FunctionPlan& f : coverage.functions) windows += f.sites.windows.size();
  if (resident::may_be_readable(windows)) return {};
  return Error{fmt::format(
      "the journal of {} windows would be too large to be read again: ask for less at once", windows)};
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

// Where the plan's code finds errno; 0 where none of it looks, or where that is denied, for the reason that is noted.
int64_t errno_for(const plan::Plan& plan, const image::Image& image, const process::TargetMemory& memory,
                  std::map<format::Routine, std::string>& denied) {
  if (std::ranges::none_of(plan.stencils,
                           [](const plan::Stencil& one) { return plan::uses(one, format::Routine::error); }))
    return 0;
  const auto at = errno_place(image, memory);
  if (!at) denied[format::Routine::error] = at.error().text;
  return at ? *at : 0;
}

// Those that were asked for, by which they can be asked for again.
std::vector<std::string> names_in(const focus::Binding& binding) {
  std::vector<std::string> out;
  for (const focus::BoundRequest& request : binding.requests)
    if (request.of == focus::BoundRequest::kNone) out.push_back(focus::text_of(request));
  return out;
}

// By request: that gets its points.
std::vector<output::Feed*> feeds_of(const focus::Binding& binding, const std::vector<GuestRequests>& guests,
                                    output::Feed& own) {
  std::vector<output::Feed*> out;
  for (const focus::BoundRequest& request : binding.requests) {
    const auto guest = std::ranges::find_if(
        guests, [&](const GuestRequests& one) { return plan::has_metric(one.part, request.metric); });
    out.push_back(guest == guests.end() ? &own : guest->feed);
  }
  return out;
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

}  // namespace

Result<std::unique_ptr<AttachedProcess>> AttachedProcess::look(const SessionOptions& options,
                                                               const plan::Plan& plan, pid_t pid,
                                                               const std::string& name,
                                                               const process::TargetMemory& memory) {
  std::unique_ptr<AttachedProcess> out(new AttachedProcess(options, plan, pid));
  if (auto ok = out->find_out(name, memory); !ok) return ok.error();
  return out;
}

Result<void> AttachedProcess::find_out(const std::string& name, const process::TargetMemory& memory) {
  since_ = arch::read_clocks();
  // The memory is open already, so a program that it executes now is noticed.
  if (auto ok = check_users(pid_, *options_); !ok) return ok;
  auto allowed = read_allowed(pid_, memory, name, options_->follow_fork);
  if (!allowed) return allowed.error();
  allowed_ = std::move(*allowed);
  phases::begin("objects");
  auto looked = look_at(pid_);
  if (!looked) return looked.error();
  image_ = std::move(looked->image);
  if (auto ok = refuse_go(image_, name); !ok) return ok;
  const int64_t errno_at = errno_for(*plan_, image_, memory, allowed_.denied);

  wanted_ = {.metrics = options_->metrics,
             .foci = options_->foci,
             .flavor = options_->flavor,
             .allow_calls = options_->allow_calls,
             .allow_reads = options_->allow_reads,
             .await = options_->await,
             .elsewhere = options_->follows_programs(),
             .ps_per_cycle = arch::picoseconds_per_cycle(),
             .denied = allowed_.denied,
             .denied_links = allowed_.denied_links,
             .queries = options_->queries,
             .spare = options_->drill.all()};
  if (focus::uses_start(plan_->manifest)) wanted_.starts = thread_starts(image_, memory, options_->max_pause);
  // These are looked at in any case; of many functions some go on in other objects, whichever these are.
  if (std::ranges::any_of(options_->metrics, &names_many) ||
      std::ranges::any_of(options_->foci, &names_many) ||
      std::ranges::any_of(plan_->manifest.metrics, [](const auto& one) { return names_many(one.focus); }))
    image::want_all(image_);
  patch::want_hooked(image_, options_->follow_fork);
  if (auto read = image::read_wanted(image_); !read) return read.error();
  bool again = true;
  for (int pass = 1; again; pass++) {
    const Result<void> done = decide(memory);
    phases::begin("objects");
    if (pass == kPasses && image::is_any_wanted(image_)) image::want_all(image_);
    auto more = image::read_wanted(image_);
    if (!more) return more.error();
    again = *more;
    if (!again && !done) return done;
  }
  if (auto ok = check_size(coverage_); !ok) return ok;
  input_.emplace(patch::InsertInput{*plan_, binding_, coverage_, image_});
  input_->follow = options_->follow_fork;
  input_->max_keys = options_->max_keys;
  input_->max_pause = options_->max_pause;
  input_->changes = options_->changes();
  input_->more_distributions = !options_->commands.empty() || options_->makes_room;
  input_->any_plan = options_->drills || options_->shares;
  input_->errno_at = errno_at;
  if (!options_->dry_run) return {};
  auto refused = patch::rehearse(*input_, memory);
  if (!refused) return refused.error();
  if (*refused) say(stderr, "warning: {}\n", patch::audit_warning(*refused));
  return {};
}

void AttachedProcess::explain() const {
  print_binding(stderr, *plan_, binding_);
  if (!options_->dry_run) print_early_ends(stderr, coverage_);
}

int AttachedProcess::print_rehearsal() const {
  print_coverage(stdout, binding_, coverage_);
  print_cost(stdout, *plan_, binding_, wanted_.ps_per_cycle);
  return options_->strict && !coverage_.refused.empty() ? static_cast<int>(Status::failed) : 0;
}

Result<void> AttachedProcess::check() const {
  if (auto ok = check_coverage(*plan_, binding_, coverage_, *options_); !ok) return ok;
  for (const image::Object& object : image_.objects)
    if (object.is_go)
      say(stderr, "warning: {} is Go code, which is not instrumented: nothing of it is counted\n",
          object.name);
  for (const image::Object& object : image_.objects)
    if (object.runs_old_code)
      say(stderr,
          "warning: {} was rewritten by BOLT, and code of before runs, too (pointers lead there): what is "
          "done "
          "there is not counted\n",
          object.name);
  return check_budget(*plan_, binding_, wanted_.ps_per_cycle, options_->budget);
}

// What is asked for and where it goes, in the image as far as it was read: the caller reads what was looked into, and
// asks again.
Result<void> AttachedProcess::decide(const process::TargetMemory& memory) {
  phases::begin("binding");
  image::LiveMemory code_memory(kernel::live_thread(pid_));
  image::Codes codes(image_, code_memory);  // a copy of all the code that is looked at
  auto binding = focus::bind(*plan_, image_, wanted_, &codes);
  if (!binding) return binding.error();
  binding_ = std::move(*binding);
  if (asks_for_any_address(binding_)) image::want_all(image_);
  if (image::is_any_wanted(image_)) return {};
  phases::begin("coverage");
  if (isatty(fileno(stderr)) == 1 && !std::exchange(asked_patience_, true))
    say_text(stderr, patience_text(binding_.points.size()));
  coverage_ =
      patch::plan_coverage(*plan_, binding_, image_, memory, codes, {.follow = options_->follow_fork});
  return {};
}

// What the code of these requests needs of the clocks. Where there are timers and the counter can be trusted, they leave
// out what hits take.
Result<AttachedProcess::Clocks> AttachedProcess::clocks_for(const plan::Plan& plan,
                                                            const focus::Binding& binding) const {
  Clocks out{input_->ticks_per_second, input_->hit_time};
  const bool wall = has_clock(binding, format::CellClock::wall) || !options_->commands.empty();
  if (out.hit_time.kept || (!wall && !has_clock(binding, format::CellClock::cpu))) return out;
  if (out.ticks_per_second == 0) {
    auto rate = arch::ticks_per_second(since_);
    if (!rate && wall) return rate.error();
    if (rate) out.ticks_per_second = *rate;
  }
  if (options_->raw_times || out.ticks_per_second == 0) return out;
  if (std::ranges::any_of(plan.stencils, &plan::Stencil::reads_otherwise))
    say(stderr,
        "warning: the plan reads the clock in a way of its own: its times include what the "
        "instrumentation takes, as with --raw-times\n");
  else
    out.hit_time = arch::measure_hit_time(out.ticks_per_second, wanted_.ps_per_cycle);
  return out;
}

// Whether its limits leave room for what the table's keys may ask for, with much to spare: that must not make an attach
// fail.
bool AttachedProcess::has_spare_room() const {
  const size_t threads = process::live_threads(pid_).size();
  const resident::Layout layout =
      resident::make_layout(binding_.cells, threads, true, 0,
                            resident::spare_cells_for(*plan_, input_->more_distributions, input_->any_plan));
  const uint64_t blocks = threads + layout.ended;
  return process::has_plenty(pid_, 2 * layout.size()) &&
         process::check_memory(pid_, 4 * blocks * layout.stride).operator bool();
}

// Finds the facts of threads and clocks that the code in the target needs.
Result<void> AttachedProcess::identify(const process::TargetMemory& memory) {
  auto clocks = clocks_for(*plan_, binding_);
  if (!clocks) return clocks.error();
  input_->ticks_per_second = clocks->ticks_per_second;
  input_->hit_time = clocks->hit_time;
  if (input_->changes && options_->commands.empty())
    input_->changes =
        has_spare_room() && (options_->drills || options_->makes_room || !shares_flags(binding_));
  const bool may_do_without = allowed_.asks_id && !options_->follow_fork && options_->commands.empty() &&
                              !resident::needs_identity(*plan_, binding_) && !patch::arms_calls(coverage_);
  // What the table's keys ask for, or guests where room is made for all that they may ask, may need it: each hit takes
  // longer for it.
  const bool may_need_it = input_->changes && (options_->drills || options_->makes_room);
  if (may_do_without && !may_need_it) return {};
  if (may_do_without) {
    const auto place = resident::find_thread_place(image_.pid, memory);
    input_->changes = place && *place != 0;
    if (input_->changes) input_->thread_at = *place;
    return {};
  }
  auto place = resident::find_thread_place(image_.pid, memory);
  if (!place) return place.error();
  input_->thread_at = *place;
  if (*place == 0 && options_->follow_fork)
    return Error{
        fmt::format("the C library of process {} does not keep thread ids where they are known to be: its "
                    "children cannot be told from it (--follow-fork)",
                    image_.pid)};
  if (*place == 0 && !allowed_.asks_id)
    return Error{
        fmt::format("process {} may not make gettid (seccomp), and its C library does not keep thread ids "
                    "where they are known to be: its threads cannot be told apart",
                    image_.pid)};
  if (*place == 0 && options_->commands.empty()) input_->changes = false;
  if (*place == 0)
    say(stderr,
        "warning: the C library of process {} does not keep thread ids where they are known to be: a thread "
        "that ends inside a constraint or with a running timer may leave it to a later one\n",
        image_.pid);
  return {};
}

Result<void> AttachedProcess::insert(process::TargetMemory& memory, output::Feed& feed, double began_s) {
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
  if (!measurement_->journal().tables.empty()) measurement_->name_addresses(names_of_keys(*plan_, image_));
  libraries_.emplace(*input_, wanted_, measurement_->memory(), measurement_->journal());
  if (options_->follows_programs()) measurement_->hide(hollow());
  measurement_->expect_end();
  return {};
}

void AttachedProcess::say_inserted() const {
  print_inserted(stderr, inserted_, coverage_);
}

std::vector<bool> AttachedProcess::hollow() const {
  return libraries_->reach().hollow(binding_);
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

// A change that is prepared: what the process holds now, and the requests bound to it.
struct AttachedProcess::Next {
  image::Image image;
  focus::BindOptions wanted;
  focus::Binding binding;
  patch::Coverage coverage;
  std::vector<GuestRequests> guests = {};
  std::shared_ptr<const plan::Plan> joined = {};  // of them and the session's own; null: there are none
  const plan::Plan* plan = nullptr;
  int64_t errno_at = 0;
};

// The names by which requests are printed: a focus may be typed in another way.
Result<std::vector<std::string>> AttachedProcess::names_of(const std::vector<std::string>& texts,
                                                           const Next& next, image::Codes& codes) const {
  std::vector<std::string> out;
  if (texts.empty()) return out;
  focus::BindOptions wanted = next.wanted;
  wanted.metrics = texts;
  auto alone = focus::bind(*next.plan, next.image, wanted, &codes);
  if (!alone) return alone.error();
  return names_in(*alone);
}

Result<std::vector<std::string>> AttachedProcess::requests_after(const Move& move, const Next& next,
                                                                 image::Codes& codes) const {
  std::vector<std::string> out = names_in(binding_);
  // What is about something that is gone by now is found by its name only.
  for (const GuestRequests& guest : guests_)
    if (guest.feed == move.goes)
      std::erase_if(out, [&](const std::string& text) {
        return plan::has_metric(guest.part, focus::split_request(text).metric);
      });
  for (const std::string& text : move.change.remove) {
    if (std::erase(out, text) != 0) continue;
    auto names = names_of({text}, next, codes);
    if (!names) return names.error();
    for (const std::string& name : *names)
      if (std::erase(out, name) == 0) return Error{fmt::format("{} is not measured", name)};
  }
  if (const GuestRequests* guest = move.comes) {
    focus::BindOptions wanted = next.wanted;
    wanted.metrics = guest->metrics, wanted.foci = guest->foci;
    wanted.queries = guest->queries, wanted.spare = guest->spare;
    wanted.flavor = guest->part.flavor;
    wanted.allow_calls = guest->part.allow_calls, wanted.allow_reads = guest->part.allow_reads;
    auto bound = focus::bind(*guest->part.plan, next.image, wanted, &codes);
    if (!bound) return bound.error();
    for (std::string& name : names_in(*bound)) out.push_back(std::move(name));
  }
  auto added = names_of(move.change.add, next, codes);
  if (!added) return added.error();
  for (const std::string& name : *added) {
    if (std::ranges::any_of(binding_.requests, [&](const auto& one) { return focus::text_of(one) == name; }))
      return Error{fmt::format("{} is measured", name)};
    out.push_back(name);
  }
  if (out.empty()) return Error{"a session has at least one request: end it instead"};
  return out;
}

Result<void> AttachedProcess::check(const Next& next, const focus::Kept& kept,
                                    const GuestRequests* comes) const {
  const resident::Journal& journal = measurement_->journal();
  for (const std::string& name : next.wanted.metrics)
    if (std::ranges::none_of(next.binding.requests, [&](const focus::BoundRequest& request) {
          return request.of == focus::BoundRequest::kNone && focus::text_of(request) == name;
        }))
      return Error{fmt::format("{} could not be measured: what it is about is gone", name)};
  const auto behind = patch::code_behind_calls(coverage_);
  for (const auto& [call, place] : patch::code_behind_calls(next.coverage))
    if (const auto before = behind.find(call); before != behind.end() && before->second != place)
      return Error{fmt::format(
          "the code behind the call at {:#x} would stand at another place: a call in flight could miss it",
          call)};
  Reach reach(next.binding);
  reach.add(*next.plan, next.coverage);
  const std::vector<bool> hollow = reach.hollow(next.binding);
  for (size_t i = 0; i < next.binding.requests.size(); i++) {
    const std::string name = focus::text_of(next.binding.requests[i]);
    const bool refused = next.coverage.refused_of[i] != 0;
    if (comes && comes->strict && !kept.requests[i] && refused)
      return Error{
          fmt::format("{} points of {} would be refused (--strict)", next.coverage.refused_of[i], name)};
    if (!kept.requests[i] && hollow[i] && next.binding.requests[i].of == focus::BoundRequest::kNone)
      return Error{fmt::format("{} cannot be measured: {}", name,
                               refused ? "its points are refused" : "the functions have no such points")};
    if (!kept.requests[i]) continue;
    const resident::JournalRequest& before = journal.requests[*kept.requests[i]];
    if (next.coverage.early_of[i] > before.early)
      return Error{fmt::format("flags or timers of {} would end before their functions", name)};
  }
  if (auto loser = libraries_->inserted().loser(next.binding, next.coverage, kept.requests))
    return Error{
        fmt::format("{} would lose points that it has", focus::text_of(next.binding.requests[*loser]))};
  if (options_->strict && !next.coverage.refused.empty())
    return Error{fmt::format("{} points would be refused (--strict)", next.coverage.refused.size())};
  if (comes && comes->budget)
    if (auto ok = check_budget(*next.plan, next.binding, wanted_.ps_per_cycle, comes->budget); !ok) return ok;
  return check_budget(*next.plan, next.binding, wanted_.ps_per_cycle, options_->budget);
}

Result<std::string> AttachedProcess::change(const RequestChange& change, output::Feed& feed,
                                            std::vector<output::Point>& points) {
  return this->change({.change = change, .sampled = &feed}, points);
}

Result<std::string> AttachedProcess::join(GuestRequests guest) {
  if (auto ok = plan::may_join(*own_plan_, *guest.part.plan); !ok) return ok.error();
  for (const GuestRequests& one : guests_)
    if (one.part.tag == guest.part.tag || one.feed == guest.feed) return Error{"it is measured already"};
  std::vector<output::Point> none;
  return change({.comes = &guest}, none);
}

Result<std::string> AttachedProcess::leave(const output::Feed& feed, std::vector<output::Point>& points) {
  if (std::ranges::find(guests_, &feed, &GuestRequests::feed) == guests_.end()) return std::string();
  return change({.goes = &feed, .sampled = &feed}, points);
}

void AttachedProcess::join_plans(const Move& move, Next& next) const {
  next.guests = guests_;
  std::erase_if(next.guests, [&](const GuestRequests& one) { return one.feed == move.goes; });
  next.plan = own_plan_;
  std::vector<plan::Part> parts;
  for (const GuestRequests& one : next.guests) parts.push_back(one.part);
  if (move.comes) {
    plan::Part& part = next.guests.emplace_back(*move.comes).part;
    part.first_stencil = plan::place_for(*own_plan_, parts, *part.plan);
    parts.push_back(part);
  }
  if (parts.empty()) return;
  next.joined = std::make_shared<plan::Plan>(plan::join(*own_plan_, parts));
  next.plan = next.joined.get();
}

void AttachedProcess::identify_for(const GuestRequests& guest, Next& next) const {
  const plan::Plan& plan = *guest.part.plan;
  const process::TargetMemory& memory = measurement_->memory();
  if (next.errno_at == 0) next.errno_at = errno_for(plan, next.image, memory, next.wanted.denied);
  if (next.wanted.starts.empty() && focus::uses_start(plan.manifest))
    next.wanted.starts = thread_starts(next.image, memory, options_->max_pause);
}

Result<std::string> AttachedProcess::change(const Move& move, std::vector<output::Point>& points) {
  if (!input_) return Error{"it was forked with the code that it has"};
  if (!input_->changes)
    return Error{
        "no room was made for that at the attach: the process has too little, its C library does not keep "
        "thread ids where they are known to be, or functions share a flag or timer (--share makes room all "
        "the same)"};
  const process::TargetMemory& memory = measurement_->memory();
  const resident::Journal& session = measurement_->journal();
  Next next;
  next.wanted = wanted_;
  next.wanted.foci.clear();
  next.wanted.queries.clear();  // requests like others from here on
  next.errno_at = input_->errno_at;
  join_plans(move, next);
  auto image = image::read_image(pid_);
  if (!image) return image.error();
  next.image = std::move(*image);
  if (move.comes) identify_for(*move.comes, next);
  const patch::OriginalMemory original(memory, session, next.image.mappings);
  image::Codes codes(next.image, original);
  auto requests = requests_after(move, next, codes);
  if (!requests) return requests.error();
  next.wanted.metrics = std::move(*requests);
  next.wanted.again = true;  // an error of those that stay has a reason of its own
  auto binding = focus::bind(*next.plan, next.image, next.wanted, &codes);
  if (!binding) return binding.error();
  next.wanted.again = false;
  next.binding = std::move(*binding);
  next.coverage = patch::plan_coverage(*next.plan, next.binding, next.image, original, codes,
                                       {.tails = {.may_wait = session.layout.deferred != 0, .ends = {}},
                                        .stubs = patch::stub_pages(session, next.image.mappings)});
  if (move.comes && input_->thread_at == 0 &&
      (resident::needs_identity(*next.plan, next.binding) || patch::arms_calls(next.coverage)))
    return Error{
        "threads would have to be told apart for it, as for times and `within`, and nothing that was asked "
        "for at the attach needs that (--share does it all the same)"};
  auto kept = focus::kept_in(binding_, next.binding);
  if (!kept) return kept.error();
  if (auto ok = check(next, *kept, move.comes); !ok) return ok.error();
  auto cells = patch::continue_cells(session, next.binding, kept->cells);
  if (!cells) return cells.error();
  const bool is_first_clock =
      !has_clock(binding_, format::CellClock::wall) && !has_clock(binding_, format::CellClock::cpu);
  auto clocks = is_first_clock ? clocks_for(*next.plan, next.binding)
                               : Result<Clocks>(Clocks{input_->ticks_per_second, input_->hit_time});
  if (!clocks) return clocks.error();
  const patch::InsertInput input{.plan = *next.plan,
                                 .binding = next.binding,
                                 .coverage = next.coverage,
                                 .image = next.image,
                                 .ticks_per_second = clocks->ticks_per_second,
                                 .thread_at = input_->thread_at,
                                 .errno_at = next.errno_at,
                                 .max_keys = move.comes ? move.comes->max_keys : input_->max_keys,
                                 .max_pause = options_->max_pause,
                                 .hit_time = clocks->hit_time,
                                 .changes = true,
                                 .fresh = &cells->fresh};
  auto done = patch::change(input, memory, session, *cells,
                            {.check_coverage = [&] { return check(next, *kept, move.comes); },
                             .read_last = [this] { return measurement_->read_last_before_change(); }});
  if (!done) return done.error();
  libraries_.reset();
  measurement_->change({.journal = std::move(done->journal),
                        .kept = kept->requests,
                        .cleared = cells->cleared,
                        .feeds = feeds_of(next.binding, next.guests, measurement_->feed())},
                       move.sampled, points);
  image_ = std::move(next.image);
  wanted_ = std::move(next.wanted);
  binding_ = std::move(next.binding);
  coverage_ = std::move(next.coverage);
  guests_ = std::move(next.guests);
  joined_ = std::move(next.joined);
  plan_ = next.plan;
  input_.emplace(patch::InsertInput{.plan = *plan_,
                                    .binding = binding_,
                                    .coverage = coverage_,
                                    .image = image_,
                                    .ticks_per_second = clocks->ticks_per_second,
                                    .thread_at = input.thread_at,
                                    .errno_at = next.errno_at,
                                    .max_keys = options_->max_keys,
                                    .max_pause = options_->max_pause,
                                    .hit_time = clocks->hit_time,
                                    .changes = true,
                                    .more_distributions = input_->more_distributions,
                                    .any_plan = input_->any_plan});
  const auto has_come = [&](const focus::KeyTable& table) { return !kept->requests[table.request]; };
  if (std::ranges::any_of(binding_.key_tables, has_come))
    measurement_->name_addresses(names_of_keys(*plan_, image_));
  libraries_.emplace(*input_, wanted_, measurement_->memory(), measurement_->journal());
  for (const std::string& warning : done->warnings) say(stderr, "warning: {}\n", warning);
  return fmt::format("{} points in {:.1f} ms, paused {:.1f} ms{}", done->points,
                     static_cast<double>(done->took.count()) / 1e6,
                     static_cast<double>(done->paused.count()) / 1e6,
                     coverage_.refused.empty() ? "" : fmt::format(", {} refused", coverage_.refused.size()));
}

// /Code/OBJECT/FUNCTION each: that of the focus, or those in which the metric changes its value.
Result<std::vector<std::string>> AttachedProcess::functions_of(const output::Drill& drill) const {
  constexpr size_t kMost = 4;
  if (drill.focus.starts_with("/Code/"))
    return std::vector<std::string>{drill.focus.substr(0, drill.focus.find(",/"))};
  std::set<std::string> found;
  for (const focus::BoundPoint& point : binding_.points)
    for (const focus::BoundSnippet& snippet : point.snippets)
      for (const uint32_t request : snippet.requests)
        if (binding_.requests[request].metric == drill.metric &&
            changes(snippet, binding_.requests[request].value))
          found.insert(fmt::format("/Code/{}/{}", point.object->name, point.function->name));
  if (found.size() <= kMost) return std::vector<std::string>(found.begin(), found.end());
  return Error{fmt::format(
      "it stands for {} functions: ask for a line for each (by function), and choose one", found.size())};
}

bool AttachedProcess::changes(const focus::BoundSnippet& snippet, focus::CellId value) const {
  const auto& uses = plan_->stencils[snippet.stencil].info.cells;
  for (size_t i = 0; i < uses.size(); i++)
    if (uses[i].writes && snippet.cells[i] == value) return true;
  return false;
}

// Some request has a distribution of just that function.
bool AttachedProcess::has_distribution(const std::string& focus) const {
  return std::ranges::any_of(binding_.requests, [&](const focus::BoundRequest& request) {
    const format::Metric& metric = *request.definition;
    const bool is_guests = std::ranges::any_of(
        guests_, [&](const auto& one) { return plan::has_metric(one.part, request.metric); });
    return !is_guests && request.focus == focus &&
           (metric.keys.empty() ? binding_.cells[request.value].kind : metric.keyed) ==
               format::CellKind::histogram;
  });
}

Result<RequestChange> AttachedProcess::requests_for(const output::Drill& drill) const {
  using Kind = output::Drill::Kind;
  RequestChange out;
  const auto add = [&](const std::vector<std::string>& metrics, const std::string& focus) {
    for (const std::string& metric : metrics)
      if (const std::string text = focus::request_text(metric, focus); std::ranges::none_of(
              binding_.requests, [&](const auto& known) { return focus::text_of(known) == text; }))
        out.add.push_back(text);
  };
  if (drill.kind == Kind::threads) {
    add({drill.metric}, drill.focus.empty() ? "/Thread/*" : drill.focus + ",/Thread/*");
    return out;
  }
  auto functions = functions_of(drill);
  if (!functions) return functions.error();
  if (functions->empty()) return Error{"the functions that it is about are not known"};
  if (drill.kind == Kind::callers) {
    for (const std::string& function : *functions) add(options_->drill.by_caller, function);
    return out;
  }
  auto image = image::read_image(pid_);
  if (!image) return image.error();
  const patch::OriginalMemory original(measurement_->memory(), measurement_->journal(), image->mappings);
  auto callees = find_callees(*functions, *image, *plan_, options_->drill.of_callees, original);
  if (!callees) return callees.error();
  for (const BusyFunction& one : callees->refused)
    say(stderr, "left out: {}, which cannot be measured: {}\n", one.focus, one.refused);
  for (const std::string& metric : options_->drill.of_callees)
    for (const BusyFunction& one : callees->chosen) add({metric}, one.focus);
  for (const std::string& function : *functions)
    if (!has_distribution(function)) add(options_->drill.of_function, function);
  return out;
}

void AttachedProcess::report_to(Found& found) const {
  if (libraries_) found.add(binding_, libraries_->reach());
}

}  // namespace mdl::inject
