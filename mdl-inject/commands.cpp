#include "mdl-inject/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/say.h"
#include "mdl-inject/audit.h"
#include "mdl-inject/consent.h"
#include "mdl-inject/origin.h"
#include "runtime/image/image.h"
#include "runtime/kernel/broker.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/output/rows.h"
#include "runtime/patch/left_behind.h"
#include "runtime/patch/recover.h"
#include "runtime/patch/remove.h"
#include "runtime/plan/plan.h"
#include "runtime/process/lock.h"
#include "runtime/process/remote.h"
#include "runtime/process/target.h"
#include "runtime/resident/footprint.h"
#include "runtime/resident/journal.h"
#include "runtime/session/report.h"
#include "runtime/session/session_values.h"
#include "runtime/values/cell_kinds.h"

namespace mdl::inject {
namespace {

// False in a child that has only inherited the data: nobody reads its copy.
bool is_measured(pid_t pid, const resident::Journal& journal, const image::Memory& memory) {
  uint64_t process = 0;
  return memory.read(journal.data.start + kHeaderProcess, std::as_writable_bytes(std::span(&process, 1))) &&
         process == static_cast<uint64_t>(process::read_status(pid).inner_pid);
}

// Whether the cell of a request is its value: that of a metric with keys of its own holds no total, because each hit goes
// to its key in the table.
bool holds_value(const resident::Journal& journal, size_t request) {
  return std::ranges::none_of(journal.tables, [&](const resident::JournalTable& table) {
    return table.request == request && !table.names.empty();
  });
}

// What a request has counted, as a thread has or in all; nothing where nothing was observed. `cell`: its own.
std::optional<int64_t> value_of(const values::Snapshot& snapshot, const resident::Journal& journal,
                                size_t request, uint64_t thread, int64_t cell) {
  const format::CellKind kind = journal.kinds[journal.requests[request].value];
  const values::CellRoutines& its = values::routines(kind);
  if (!its.fold || its.is_distribution) return cell;
  const values::Observations& observed = snapshot.observed(request, thread);
  return observed.count == 0 ? std::nullopt : std::optional(observed.value(kind));
}

// The journal says what was to be done; the code says what is.
void print_windows(const resident::Journal& journal, const image::Memory& memory) {
  uint64_t points = 0, whole = 0, original = 0;
  for (const resident::PatchedWindow& window : journal.windows) {
    std::vector<uint8_t> now(window.patched.size());
    if (!memory.read(window.address, std::as_writable_bytes(std::span(now)))) continue;
    if (now == window.patched) whole++, points += window.points;
    if (now == window.original) original++;
  }
  if (whole == journal.windows.size()) return;
  say("in place: {} points, in {} of {} windows; {} hold the original code, {} something else\n", points,
      whole, journal.windows.size(), original, journal.windows.size() - whole - original);
}

void print_journal(pid_t pid, const resident::Journal& journal, const image::Memory& memory) {
  const patch::Owner owner = patch::owner_of(journal);
  say("instrumented by {} ({}) since {}\n", patch::owner_text(journal),
      owner == patch::Owner::runs    ? "running"
      : owner == patch::Owner::ended ? "ended"
                                     : "which is not to be seen from here",
      resident::began_text(journal));
  const bool is_read = owner != patch::Owner::ended && is_measured(pid, journal, memory);
  if (journal.target != pid && (!patch::is_elsewhere(journal) || !is_read))
    say("inherited from process {}; {}\n", journal.target,
        is_read ? "measured with it, from its fork on" : "nobody reads the values here");
  say("plan {}, {} points, {} requests\n", journal.plan, journal.points, journal.requests.size());
  print_windows(journal, memory);
  values::TargetClocks clocks(pid);
  auto snapshot = values::read_values(block_layout(journal), memory, clocks);
  if (!snapshot) say("values cannot be read: {}\n", snapshot.error().text);
  for (size_t i = 0; i < journal.requests.size(); i++) {
    const resident::JournalRequest& request = journal.requests[i];
    const auto text = [&](uint64_t thread, int64_t cell) {
      const auto value = value_of(*snapshot, journal, i, thread, cell);
      return value ? fmt::format("{} {}", *value, request.units) : "nothing observed";
    };
    if (snapshot && request.thread == focus::kEachThread) {
      for (const auto& [thread, value] : snapshot->each[i])
        say("  {}@{} = {}\n", request.metric, focus::of_thread(request.focus, thread), text(thread, value));
      continue;
    }
    say("  {}{}{}", request.metric, request.focus.empty() ? "" : "@", request.focus);
    if (request.children) say(": {} children, in all", request.children);
    const bool has_total = holds_value(journal, i);
    if (request.keyed) say("{}", has_total ? ": by key, in all" : ": a value for each key");
    if (snapshot && has_total)
      say(" = {}", journal.is_unknown(i) ? "not known" : text(0, snapshot->cells[i]));
    uint64_t refused = journal.refused_of(i);
    say("{}{}\n", refused ? fmt::format(" ({} refused)", refused) : "",
        journal.ends_early(i) ? " (incomplete: ends before what is called last)" : "");
  }
}

// The same as a row. What holds no total of its own has none: its keys have.
nlohmann::ordered_json row_of(pid_t pid, const resident::Journal& journal, const image::Memory& memory) {
  values::TargetClocks clocks(pid);
  auto snapshot = values::read_values(block_layout(journal), memory, clocks);
  auto requests = nlohmann::ordered_json::array();
  for (size_t i = 0; i < journal.requests.size(); i++) {
    const resident::JournalRequest& request = journal.requests[i];
    const auto row = [&](const std::string& focus, std::optional<int64_t> value) {
      requests.push_back({{"metric", request.metric},
                          {"focus", focus},
                          {"value", value && !journal.is_unknown(i) ? nlohmann::ordered_json(*value)
                                                                    : nlohmann::ordered_json()},
                          {"units", request.units},
                          {"refused", journal.refused_of(i)}});
    };
    if (snapshot && request.thread == focus::kEachThread)
      for (const auto& [thread, value] : snapshot->each[i])
        row(focus::of_thread(request.focus, thread), value_of(*snapshot, journal, i, thread, value));
    else
      row(request.focus, snapshot && holds_value(journal, i)
                             ? value_of(*snapshot, journal, i, 0, snapshot->cells[i])
                             : std::nullopt);
  }
  const patch::Owner owner = patch::owner_of(journal);
  return {{"pid", pid},
          {"instrumented", true},
          {"by", patch::owner_text(journal)},
          {"runs", owner == patch::Owner::runs    ? nlohmann::ordered_json(true)
                   : owner == patch::Owner::ended ? nlohmann::ordered_json(false)
                                                  : nlohmann::ordered_json()},
          {"since", resident::began_text(journal)},
          {"plan", journal.plan},
          {"points", journal.points},
          {"requests", std::move(requests)}};
}

// Prints the stubs that a killed injector has left behind code, apart from a session.
void print_stubs(pid_t pid) {
  auto image = image::read_image(pid, image::Depth::code);
  auto memory = process::TargetMemory::open(pid);
  if (!image || !memory) return;
  size_t stubs = process::left_stubs(*memory, *image).size();
  if (stubs)
    say("behind its code lie {} parts of a remote call that was not ended; they are inert: take them out "
        "with mdl-inject --remove {}\n",
        stubs, pid);
}

int print_without_journal(pid_t pid, const resident::Footprint& session, const image::Memory& memory) {
  auto image = image::read_image(pid, image::Depth::code);
  if (!image) return fail(image.error());
  auto windows = patch::find_windows(*image, session, memory);
  say("process {} holds {} mappings of an mdl-inject, ", pid, session.mappings.size());
  if (session.damage.empty() && windows && windows->empty())
    say("which was killed before it changed any code");
  else if (windows)
    say("whose journal is lost ({}); {} windows of code lead there",
        session.damage.empty() ? "it is empty" : session.damage, windows->size());
  else
    say("whose journal is lost");
  say(": take them out with mdl-inject --remove {}\n", pid);
  return windows ? 0 : fail(windows.error());
}

kernel::BreakLock lock_breaker(const Options& options) {
  if (!options.break_lock) return {};
  return [](pid_t pid) -> Result<std::string> {
    auto ended = process::break_lock(pid);
    if (!ended) return ended.error();
    std::string out;
    for (const std::string& name : *ended) out += name + "\n";
    return out;
  };
}

}  // namespace

kernel::Trust trust_in(const Options& options, Audit* audit) {
  kernel::Trust out;
  for (const Target& one : options.targets)
    (one.how == Target::How::child ? out.children : out.named).push_back(one.pid);
  if (out.named.empty() && options.pid != 0) out.named.push_back(options.pid);
  if (audit)
    out.log = [audit](pid_t pid, std::string_view action, std::string_view text) {
      return audit->write(pid, action, text);
    };
  out.break_lock = lock_breaker(options);
  return out;
}

Result<void> separate_reading(const Options& options, Audit* audit) {
  if (!options.separate) return {};
  if (auto ok = kernel::separate(trust_in(options, audit)); !ok) return ok;
  if (audit) audit->write_through(kernel::log);
  return {};
}

int fail(const Error& error) {
  if (!error.is_quiet) say(stderr, "mdl-inject: {}\n", error.text);
  return static_cast<int>(error.status);
}

Result<void> break_lock(const Options& options) {
  if (!options.break_lock) return {};
  const kernel::BreakLock breaks = options.separate ? kernel::break_lock : lock_breaker(options);
  for (const pid_t pid : options.pids()) {
    const auto ended = breaks(pid);
    if (!ended) return ended.error();
    for (size_t at = 0, end; (end = ended->find('\n', at)) != std::string::npos; at = end + 1)
      say(stderr, "mdl-inject: ended {}, which held the lock on process {}\n", ended->substr(at, end - at),
          pid);
  }
  return {};
}

int list(const Options& options) {
  if (auto ok = separate_reading(options); !ok) return fail(ok.error());
  if (auto ok = process::check_target(options.pid); !ok) return fail(ok.error());
  auto image = image::read_image(options.pid);
  if (!image) return fail(image.error());
  const std::string hierarchy = options.glob.substr(0, options.glob.find('/', 1));
  if (hierarchy.starts_with('/') && hierarchy != "/Code" && hierarchy.find_first_of("*?[") == hierarchy.npos)
    return fail(
        {fmt::format(
             "there is no {} that can be listed; there are /Code, /Thread, /Memory, /SyncObject, /File and "
             "/Socket",
             hierarchy),
         Status::usage});
  const bool is_object = options.glob.starts_with("/Code/") && options.glob.rfind('/') == 5;  // its functions
  int printed =
      print_functions(stdout, *image, is_object ? options.glob + "/*" : options.glob, options.format);
  if (printed != 0)
    say(stderr, "mdl-inject: no function of process {} matches '{}'{}\n", options.pid, options.glob,
        options.glob.find_first_of("*?[/") == std::string::npos
            ? fmt::format(": the whole name is meant; '*{}*' has those that it is a part of", options.glob)
            : "");
  return printed;
}

int verify(const Options& options, const Policy& policy) {
  Options allowed = options;
  auto file = open_plan_file(allowed);
  if (!file) return fail(file.error());
  if (auto ok = separate_reading(options); !ok) return fail(ok.error());
  auto plan = parse_plan(*file, allowed);
  if (!plan) return fail(plan.error());
  if (auto ok = apply_policy(policy, *plan, allowed); !ok) return fail(ok.error());
  auto origin = check_origin(*plan, *file, allowed);
  if (!origin) return fail(origin.error());
  say("{}: a valid plan for {}: {} metrics, {} constraints, {} stencils\n", options.plan,
      plan->manifest.target, plan->manifest.metrics.size(), plan->manifest.constraints.size(),
      plan->stencils.size());
  if (!plan->signer)
    say("not signed\n");
  else
    say("signed with {}{}\n", name(*plan->signer), origin->empty() ? "" : ", trusted: " + *origin);
  say("checksum {}\n", plan->checksum);
  if (const format::Edition& edition = plan->manifest.edition; !edition.name.empty())
    say("edition {} of {}{}\n", edition.version, edition.name,
        edition.not_after.empty() ? "" : fmt::format(", to be used until {}", edition.not_after));
  print_capabilities(stdout, *plan, allowed.standard_plan);
  for (const format::Metric& metric : plan->manifest.metrics)
    say("  {} ({}, {})\n", metric.id, metric.name, metric.units);
  return 0;
}

namespace {

int print_status(pid_t pid, output::Rows& rows) {
  if (auto ok = process::check_target(pid, process::Purpose::look); !ok) return fail(ok.error());
  auto maps = image::read_maps(pid);
  if (!maps) return fail(maps.error());
  image::LiveMemory memory(kernel::live_thread(pid));
  resident::Footprint session = resident::find_footprint(*maps, memory);
  if (rows.has_objects()) {
    const nlohmann::ordered_json other = {
        {"pid", pid}, {"instrumented", !session.mappings.empty()}, {"mappings", session.mappings.size()}};
    say_text(stdout, rows.of(session.journal ? row_of(pid, *session.journal, memory) : other));
    return 0;
  }
  if (session.journal) {
    print_journal(pid, *session.journal, memory);
    return 0;
  }
  if (session.mappings.empty()) {
    say("process {} is not instrumented\n", pid);
    print_stubs(pid);
    return 0;
  }
  return print_without_journal(pid, session, memory);
}

// The worst of the exit statuses.
template <typename Command>
int of_each(const Options& options, Command command) {
  int out = 0;
  for (const pid_t pid : options.pids()) {
    if (options.several && !output::Rows(options.format).has_objects()) say("process {}:\n", pid);
    out = std::max(out, command(pid));
  }
  return out;
}

}  // namespace

int status(const Options& options) {
  if (auto ok = separate_reading(options); !ok) return fail(ok.error());
  output::Rows rows(options.format);
  const int out = of_each(options, [&](pid_t pid) { return print_status(pid, rows); });
  say_text(stdout, rows.end());
  return out;
}

// 1 when exits were missed, as when --list finds nothing.
int check(const Options& options) {
  if (auto ok = separate_reading(options); !ok) return fail(ok.error());
  if (auto ok = break_lock(options); !ok) return fail(ok.error());
  if (auto ok = process::check_target(options.pid); !ok) return fail(ok.error());
  auto memory = process::TargetMemory::open(options.pid);
  if (!memory) return fail(memory.error());
  auto maps = image::read_maps(options.pid);
  if (!maps) return fail(maps.error());
  const resident::Footprint session = resident::find_footprint(*maps, *memory);
  if (!session.journal) {
    say("process {} is not instrumented{}\n", options.pid,
        session.mappings.empty() ? "" : ", or its journal is lost: see mdl-inject --status");
    return session.mappings.empty() ? 0 : static_cast<int>(Status::failed);
  }
  auto checked = patch::check_exits(options.pid, *session.journal, *memory);
  if (!checked) return fail(checked.error());
  print_check(stdout, *checked);
  say_missed_exits(options.pid, *session.journal, *checked);
  return checked->missed.empty() ? 0 : static_cast<int>(Status::failed);
}

namespace {

int take_out(pid_t pid, process::TargetMemory& memory) {
  patch::Removal removal(pid, memory);
  if (auto ok = removal.restore(nullptr, patch::kRemovalPatience); !ok) return fail(ok.error());
  const resident::Footprint& session = removal.session();
  const bool owned =
      session.journal && patch::has_owner(*session.journal) && is_measured(pid, *session.journal, memory);
  if (auto ok = removal.finish(); !ok) return fail(ok.error());
  if (session.mappings.empty())
    say("process {} is not instrumented\n", pid);
  else
    say("removed: {} windows restored, {} mappings unmapped\n", removal.restored(), session.mappings.size());
  // Where not all of it was in place, flags say nothing.
  if (session.journal && removal.restored() == session.journal->windows.size())
    say_missed_exits(pid, *session.journal, removal.exits());
  if (removal.stubs()) say("removed: {} left parts of a remote call\n", removal.stubs());
  if (owned) say("{} was still measuring: it ends by itself\n", patch::owner_text(*session.journal));
  if (!session.journal && !session.damage.empty())
    say(stderr, "mdl-inject: its journal was lost ({}): the code was restored from its files\n",
        session.damage);
  say_breakpoints(pid, removal.breakpoints());
  return 0;
}

int remove_from(pid_t pid, Audit& audit) {
  if (auto ok = process::check_target(pid); !ok) return fail(ok.error());
  auto memory = process::TargetMemory::open(pid);
  if (!memory) return fail(memory.error());
  audit.is_about({pid}, "", "", {});
  if (auto ok = audit.say("removal", "begins"); !ok) return fail(ok.error());
  const int ended = take_out(pid, *memory);
  (void)audit.say("removal", ended == 0 ? "done" : fmt::format("exit status {}", ended));
  return ended;
}

}  // namespace

int remove(const Options& options, const Policy& policy) {
  auto audit = Audit::open(policy.audit_required, options.separate);
  if (!audit) return fail(audit.error());
  if (auto ok = separate_reading(options, &*audit); !ok) return fail(ok.error());
  if (auto ok = break_lock(options); !ok) return fail(ok.error());
  return of_each(options, [&](pid_t pid) { return remove_from(pid, *audit); });
}

}  // namespace mdl::inject
