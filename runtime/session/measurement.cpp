#include "runtime/session/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/say.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/patch/remove.h"
#include "runtime/process/lock.h"
#include "runtime/process/target.h"
#include "runtime/session/anomalies.h"
#include "runtime/session/report.h"
#include "runtime/session/session_values.h"
#include "runtime/session/users.h"
#include "runtime/values/cell_kinds.h"

namespace mdl::inject {

using namespace std::chrono_literals;

constexpr auto kRemovalDeadline = 15000ms;  // for threads inside trampolines to leave, or to become stoppable
constexpr auto kAskUsers = 1s;              // for a process from which no sample is taken for long
constexpr auto kEnds = 1s;  // a process that said that it ends and still has its memory after this, has not

namespace {

constexpr double kHighOverhead = 0.1;
constexpr uint64_t kLeastCpuNs = 20'000'000;  // a part of less says nothing about what follows
constexpr int kHighSamples = 20;  // after so many it is said also when it is not known whose hits these are

// CPU time of a process, of all its threads that are and were; 0 when it cannot be read.
uint64_t cpu_ns(pid_t pid) {
  clockid_t clock{};
  timespec now{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &now) != 0) return 0;
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

Measurement::Measurement(const SessionOptions& options, ProcessHandle process, resident::Journal journal,
                         process::TargetMemory memory, output::Feed& feed, double began_s)
    : options_(options),
      process_(std::move(process)),
      journal_(std::move(journal)),
      memory_(std::move(memory)),
      feed_(feed),
      began_s_(began_s),
      auxiliary_(kernel::proc_text(process_.pid(), "auxv")),
      clocks_(process_.pid()),
      sampler_(block_layout(journal_), values::now()),
      requests_(journal_, block_layout(journal_), feed, process_.pid()),
      children_(process_.pid()),
      cpu_at_begin_(cpu_ns(process_.pid())),
      compared_(arch::read_clocks()) {}

// One sample; ended threads' values that it has taken over need not be kept in the target any more.
Result<values::Sample> Measurement::take_sample() {
  compare_clocks();
  auto out = sampler_.sample(memory_, clocks_, values::now());
  if (!out) return out;
  requests_.read_keys(memory_);
  // The values that were read are ours only if the journal is still there afterwards: whoever unmaps does it
  // while everything stands still.
  if (!resident::is_in_place(journal_, memory_)) return Error{"the journal is not in its place"};
  if (!is_permitted()) return Error{*denied_};
  if (options_.users) permitted_ = *out;
  free_taken();
  return out;
}

bool Measurement::is_permitted() {
  asked_ = Clock::now();
  if (denied_) return false;
  if (auto ok = check_users(pid(), options_); !ok) denied_ = ok.error().text;
  return !denied_;
}

bool Measurement::free_taken() {
  std::vector<uint64_t> taken = sampler_.collector().taken();
  if (!taken.empty()) write_data(sampler_.collector().taken_address(), taken);
  return !taken.empty();
}

// Another mdl-inject may have taken the session out, and the target may have got the address for itself
// since: nothing is written but under the lock that a removal takes, and only while the journal is there.
bool Measurement::write_data(uint64_t address, std::span<const uint64_t> words) {
  if (removes_) return memory_.write(address, std::as_bytes(words));
  auto lock = process::TransactionLock::take(pid(), 0ms);
  return lock && resident::is_in_place(journal_, memory_) && memory_.write(address, std::as_bytes(words));
}

// Something failed: whether because the process ends, of which one thread after the other loses its memory.
// The kernel may take long over the rest of it.
bool Measurement::ends_soon(std::chrono::milliseconds patience) const {
  const Clock::time_point begun = Clock::now();
  while (!process_.ends_within(1ms))
    if (Clock::now() - begun > (process::has_ended(pid()) ? kRemovalDeadline : patience)) return false;
  return true;
}

void Measurement::sample(std::vector<output::Point>& points, output::Feed& feed) {
  auto sample = take_sample();
  if (!sample) {
    // The kernel may take long over the end of one that had much memory.
    if (!process::has_ended(pid())) result_ = lost(sample.error());
    return;
  }
  if (at_end_ && &feed == &feed_)
    append(*std::exchange(at_end_, std::nullopt), points, feed);  // it has not ended yet
  append(*sample, points, feed);
}

Result<void> Measurement::read_last_before_change() {
  removes_ = true;
  auto sample = take_sample();
  removes_ = false;
  if (!sample) return sample.error();
  before_change_ = std::move(*sample);
  return {};
}

void Measurement::change(Next next, const output::Feed* sampled, std::vector<output::Point>& points) {
  if (before_change_) {
    changed_s_ = began_s_ + before_change_->elapsed_s;
    if (sampled) append(*before_change_, points, *sampled);
    before_change_.reset();
  }
  if (!journal_.layout.keeps_hit_time) cpu_at_begin_ = cpu_ns(pid());  // of what may be known from now on
  journal_ = std::move(next.journal);
  std::vector<std::pair<uint64_t, uint64_t>> words;
  for (const image::Range& range : next.cleared) words.emplace_back(range.start, range.end);
  sampler_.change(block_layout(journal_), next.kept, words);
  requests_.change(block_layout(journal_), next.kept, std::move(next.feeds));
  const auto now = feeds();
  std::erase_if(last_at_, [&](const auto& one) { return std::ranges::count(now, one.first) == 0; });
  std::set<uint32_t> suspect;
  for (uint32_t i = 0; i < next.kept.size(); i++)
    if (next.kept[i] && suspect_.contains(*next.kept[i])) suspect.insert(i);
  suspect_ = std::move(suspect);
  dearest_ = {};
}

// Most looks find nothing: they make one call.
std::optional<Measurement::Ends> Measurement::read_ends() const {
  std::array<uint64_t, (kHeaderEnded - kHeaderExit) / sizeof(uint64_t) + 1> words{};
  if (!memory_.read(journal_.data.start + kHeaderExit, std::as_writable_bytes(std::span(words))))
    return std::nullopt;
  return Ends{words.front(), words.back()};
}

bool Measurement::is_quiet() const {
  if (result_ || announced_ || Clock::now() - asked_ > kAskUsers) return false;
  const std::optional<Ends> ends = read_ends();
  return ends && ends->exits == exits_ && !sampler_.collector().has_many(ends->threads);
}

bool Measurement::look() {
  if (!result_ && !removes_ && Clock::now() - asked_ > kAskUsers && !is_permitted() &&
      !process::has_ended(pid())) {
    result_ = lost({*denied_});
    return true;
  }
  const std::optional<Ends> ends = read_ends();
  if (!ends) {
    // Said now: at the next sample the other program may have ended.
    if (auto program = other_program()) result_ = replaced(*program);
    return true;
  }
  // So that the ring of ended threads does not fill up.
  const bool taken = sampler_.collector().drain(memory_, ends->threads) && free_taken();
  if (ends->exits != exits_) return read_end(ends->exits);
  if (announced_ && Clock::now() - *announced_ > kEnds) announced_.reset();
  return taken;
}

bool Measurement::read_end() {
  uint64_t exits = 0;
  return memory_.read(journal_.data.start + kHeaderExit, std::as_writable_bytes(std::span(&exits, 1))) &&
         exits != exits_ && read_end(exits);
}

// `exits`: as often it has come there.
bool Measurement::read_end(uint64_t exits) {
  if (auto last = take_sample()) {
    at_end_ = std::move(*last);
    announced_ = Clock::now();
  }
  check_at_end();
  if (set_word(kHeaderExit + 8, exits)) exits_ = exits;
  return true;
}

// It waits for its last values, but not for long.
void Measurement::check_at_end() {
  if (removes_ || !patch::any_raised(journal_, memory_)) return;
  if (auto checked = patch::check_exits(pid(), journal_, memory_, 50ms)) take(*checked);
}

double Measurement::overhead(const values::Sample& sample) {
  if (!journal_.layout.keeps_hit_time) return -1;
  const uint64_t cpu = cpu_ns(pid());
  if (cpu <= cpu_at_begin_) return last_overhead_;  // it has ended, or has done nothing yet
  last_overhead_ =
      std::min(1.0, static_cast<double>(sample.values.taken_ns) / static_cast<double>(cpu - cpu_at_begin_));
  if (last_overhead_ <= kHighOverhead || warned_ || cpu - cpu_at_begin_ < kLeastCpuNs) return last_overhead_;
  if (high_ < kHighSamples) dearest_.watch(sampler_.collector(), memory_);
  const bool may_know_more = !dearest_.request() && ++high_ < kHighSamples;
  warned_ = !may_know_more;
  if (warned_)
    say(stderr,
        "warning: {:.0f} % of the CPU time of process {} is taken by the instrumentation{}: times leave it "
        "out, but caches and threads that wait for each other feel it; ask for fewer functions\n",
        100 * last_overhead_, pid(), dearest_text());
  return last_overhead_;
}

std::string Measurement::dearest_text() const {
  const std::optional<uint32_t> index = dearest_.request();
  if (!index || *index >= journal_.requests.size()) return "";
  const resident::JournalRequest& request = journal_.requests[*index];
  return fmt::format(", most of it by {}{}{}", request.metric, request.focus.empty() ? "" : "@",
                     request.focus);
}

void Measurement::take(const patch::ExitCheck& check) {
  if (options_.check) print_check(stderr, check);
  say_missed_exits(pid(), journal_, check);
  for (const patch::MissedExit& missed : check.missed)
    suspect_.insert(missed.cell->requests.begin(), missed.cell->requests.end());
}

bool Measurement::is_suspect(size_t request) const {
  const uint32_t of = journal_.requests[request].of;
  return suspect_.contains(static_cast<uint32_t>(request)) ||
         (of != focus::BoundRequest::kNone && suspect_.contains(of));
}

void Measurement::compare_clocks() {
  if (journal_.ticks_per_second == 0 || uneven_) return;
  const arch::ClockPair now = arch::read_clocks();
  uneven_ = !arch::agree(compared_, now, journal_.ticks_per_second);
  compared_ = now;
  if (uneven_)
    say(stderr,
        "warning: the processor's time stamp counter does not agree with the system's clock any more (was "
        "the machine suspended, or moved to another host?): times of process {} are not to be trusted "
        "from here on; measure again\n",
        pid());
}

// Hits keep what they have taken of a thread's CPU time in ticks of the counter, too.
bool Measurement::is_time(size_t request) const {
  const format::CellKind kind = block_layout(journal_).cells[request].value_kind();
  const format::CellClock clock = format::info(kind).clock;
  return clock == format::CellClock::wall ||
         (clock == format::CellClock::cpu && journal_.layout.keeps_hit_time);
}

std::vector<output::Feed*> Measurement::feeds() const {
  std::vector<output::Feed*> out = {&feed_};
  for (size_t i = 0; i < journal_.requests.size(); i++)
    if (output::Feed* feed = &requests_.feed_of(i); std::ranges::count(out, feed) == 0) out.push_back(feed);
  return out;
}

void Measurement::append(const values::Sample& sample, std::vector<output::Point>& points,
                         const output::Feed& feed) {
  const auto known = last_at_.find(&feed);
  const auto before = known == last_at_.end() ? std::nullopt : std::optional(known->second);
  last_at_.insert_or_assign(&feed, sample.at);
  const auto interval_s = before ? std::optional(values::seconds(*before, sample.at)) : std::nullopt;
  const auto anomalies = anomalies_of(journal_, sample.values.anomaly_words);
  output::Point point;
  point.time_ns = sample.at.wall_ns;
  point.elapsed_s = began_s_ + sample.elapsed_s;
  point.anomalies = sample.values.anomalies;
  point.overhead = overhead(sample);
  for (size_t i = 0; i < journal_.requests.size(); i++) {
    if (journal_.requests[i].children) continue;  // its children have the points
    if (&requests_.feed_of(i) != &feed) continue;
    if (i < hidden_.size() && hidden_[i]) continue;
    point.refused = journal_.refused_of(i);
    point.complete = sample.complete && !journal_.ends_early(i) && !(uneven_ && is_time(i));
    point.suspect = is_suspect(i);
    const auto own = anomalies.find(static_cast<uint32_t>(i));
    point.anomalies_of = own == anomalies.end() ? std::vector<output::Anomaly>() : own->second;
    const std::vector<RequestValue> values = requests_.of(i, sample.values);
    if (points.empty()) points.reserve(values.size());
    for (const RequestValue& value : values) {
      point.series = &requests_.series(i, value, static_cast<size_t>(&value - values.data()));
      const output::Number number = requests_.feed_of(i).next(*point.series, value.total, interval_s);
      if (journal_.is_unknown(i))
        point.value = output::Unknown{};
      else if (!value.observed)
        point.value = number;
      else if (values::routines(value.kind).is_distribution)
        point.value = output::Observed{number, value.observed->distribution};
      else
        point.value = output::Summary{number, value.observed->count, value.observed->sum(value.kind)};
      points.push_back(point);
    }
  }
}

Result<void> Measurement::write_last(const values::Sample& sample) {
  if (denied_ && !permitted_) return {};
  std::vector<output::Point> points;
  high_ = kHighSamples;  // nothing more will be known
  append(sample, points, feed_);
  if (is_hidden()) return {};
  if (auto ok = feed_.sample(points, true); !ok) return ok;
  if (!options_.follow_fork) children_.say(points);
  for (output::Feed* feed : feeds()) {
    if (feed == &feed_) continue;
    points.clear();
    append(sample, points, *feed);
    (void)feed->sample(points, true);
  }
  say_anomalies(pid(), journal_, sample.values.anomaly_words);
  if (sample.values.overflows)
    say(stderr, "warning: more threads than slots: {} hits shared one block and may have lost counts\n",
        sample.values.overflows);
  if (sample.values.unrecorded)
    say(stderr, "warning: {} threads ended so fast that only the sums of their values are known\n",
        sample.values.unrecorded);
  if (requests_.has_more_threads())
    say(stderr,
        "warning: there were too many lines for each thread to have its own: what further threads counted is "
        "in those of /Thread/0; ask for fewer functions\n");
  if (requests_.more_keys())
    say(stderr,
        "warning: threads had more than 8 active keys {} times; what they counted under the others is "
        "missing\n",
        requests_.more_keys());
  say_other_keys();
  say_no_keys(sample);
  return {};
}

void Measurement::say_other_keys() const {
  for (const resident::JournalTable& table : journal_.tables)
    if (requests_.has_other_keys(table.request))
      say(stderr,
          "note: `{}` had more keys than the {} that there was room for: the further ones share the line ? "
          "(--max-keys N makes room for N)\n",
          journal_.requests[table.request].metric, table.most);
}

// A heading without lines does not say that all is well. Of several processes, some often have none.
void Measurement::say_no_keys(const values::Sample& sample) const {
  if (options_.several || options_.follow_fork) return;
  for (size_t i = 0; i < journal_.requests.size(); i++)
    if (const resident::JournalRequest& request = journal_.requests[i];
        request.keyed && requests_.of(i, sample.values).empty()) {
      const uint64_t refused = journal_.refused_of(i);
      say(stderr, "note: `{}` has no line, because no call was seen that it is about{}\n", request.metric,
          refused == 0 ? ""
                       : fmt::format(" at the points that are measured; {} of its points are refused "
                                     "(--verbose names them), and calls there are not seen",
                                     refused));
    }
}

// What was read last, or last before that was denied.
values::Sample Measurement::repeated() {
  return denied_ && permitted_ ? *permitted_ : sampler_.repeat(values::now());
}

values::Sample Measurement::last_known() {
  values::Sample out = at_end_ ? *std::exchange(at_end_, std::nullopt) : repeated();
  out.complete = announced_.has_value();
  return out;
}

void Measurement::expect_program(bool follows) {
  program_follows_ = follows;
  if (!follows) return;
  auto last = take_sample();
  if (!last) return;
  at_end_ = std::move(*last);
  announced_ = Clock::now();
}

bool Measurement::is_hidden() const {
  return std::ranges::all_of(hidden_, [](bool hidden) { return hidden; }) &&
         hidden_.size() == journal_.requests.size() && options_.follows_programs();
}

void Measurement::end() {
  result_ = ended();
}

Result<int> Measurement::ended() {
  const values::Sample last = last_known();
  Result<void> written = write_last(last);
  std::optional<int> signal = process_.killed_by();
  if (signal && *signal) {
    say(stderr, "mdl-inject: process {} was killed by signal {} ({})\n", pid(), *signal,
        sigdescr_np(*signal));
    return static_cast<int>(Status::target_killed);
  }
  if (!is_hidden())
    say(stderr, "mdl-inject: process {} has ended{}{}\n", pid(),
        last.complete ? "" : ": its last values could not be read",
        last.complete || !options_.follow_fork ? "" : ", and processes that it made last may be missing");
  if (!written) return written.error();
  return 0;
}

// The data cannot be read any more: the process executes another program or ends, somebody removed us, or
// the process has written over it.
Result<int> Measurement::lost(const Error& why) {
  if (auto program = other_program()) return replaced(*program);
  if (ends_soon(200ms)) return ended();
  patch::Removal removal(pid(), memory_);
  Result<void> out = restore(removal);
  if (out) out = removal.finish();
  const bool same_program = !removal.is_executed();
  if (!out && same_program && ends_soon(200ms)) return ended();
  if (!same_program) out = {};
  if (same_program) announced_.reset();
  Result<void> written = write_last(last_known());
  if (!out) return still_there(out.error());
  if (denied_ && !options_.has_name(pid())) {  // as a child that is looked at only after it has changed
    say(stderr, "warning: process {} is not measured any more: {}\n", pid(), *denied_);
    return 0;
  }
  if (same_program && !removal.is_gone()) return damaged(why);
  say(stderr, "mdl-inject: process {} no longer holds the instrumentation: {}\n", pid(),
      same_program ? "another mdl-inject has removed it" : "it executes another program");
  if (!written) return written.error();
  return 0;
}

std::optional<std::string> Measurement::other_program() {
  const std::string now = kernel::proc_text(pid(), "auxv");
  if (now.empty() || auxiliary_.empty() || now == auxiliary_) return std::nullopt;
  if (memory_.runs(kernel::live_thread(pid())) == process::Runs::here) {
    auxiliary_ = now;  // the program itself has forged it; it cannot foresee that of the next one
    return std::nullopt;
  }
  return process::program_of(pid());
}

// The program that --run starts is the one to be measured: when it was only the way to another, this failed.
Result<int> Measurement::replaced(const std::string& program) {
  const bool started = options_.start && options_.pid == pid();
  Result<void> written = write_last(last_known());
  if (program_follows_) return written ? Result<int>(0) : written.error();
  say(stderr,
      "mdl-inject: process {} no longer holds the instrumentation: it executes another program, {}which is "
      "not measured{}\n",
      pid(), program.empty() ? "" : program + ", ",  // it may have ended since
      options_.follow ? " by what was inserted"
      : started       ? "; start that one itself with --run, not by a shell, or follow it with --follow-fork"
                      : "");
  if (!written) return written.error();
  return started ? static_cast<int>(Status::failed) : 0;
}

Error Measurement::damaged(const Error& why) const {
  if (denied_)
    return {
        fmt::format("{}: the instrumentation is taken out, and the values are those of before", *denied_)};
  return {
      fmt::format("process {} has damaged what was measured in it, or kept it from being measured ({}); the "
                  "instrumentation is taken out, and the values are those of the last good sample",
                  pid(), why.text)};
}

Error Measurement::still_there(const Error& why) const {
  return {fmt::format("{}: process {} is still instrumented: take it out later with mdl-inject --remove {}",
                      why.text, pid(), pid()),
          Status::left_inert};
}

void Measurement::take_out() {
  result_ = options_.detach ? leave() : remove();
}

Result<int> Measurement::leave() {
  set_word(kHeaderWaits, 0);
  look();  // who stands there already
  if (options_.check) {
    auto checked = patch::check_exits(pid(), journal_, memory_);
    if (checked)
      take(*checked);
    else
      say(stderr, "warning: exits were not checked: {}\n", checked.error().text);
  }
  auto sample = take_sample();
  if (!sample) return lost(sample.error());
  if (auto ok = write_last(*sample); !ok) return ok.error();
  say(stderr, "left in process {0}: see mdl-inject --status {0}, take it out with mdl-inject --remove {0}\n",
      pid());
  return 0;
}

// It may stand at its end, or come there, and waits for us.
Result<void> Measurement::restore(patch::Removal& removal) {
  return removal.restore(&journal_, kRemovalDeadline, [this] {
    removes_ = true;
    look();
    removes_ = false;
  });
}

Result<int> Measurement::remove() {
  patch::Removal removal(pid(), memory_);
  if (auto ok = restore(removal); !ok)
    return removal.is_executed() ? lost(ok.error()) : ends_soon(2000ms) ? ended() : left(ok.error());
  if (removal.is_gone()) return lost({"it was removed"});
  take(removal.exits());
  auto sample = take_sample();  // nobody counts any more: these are exact
  Result<void> finished = removal.finish();
  say_breakpoints(pid(), removal.breakpoints());
  if ((!sample || !finished) && !removal.is_executed() && ends_soon(finished ? 200ms : 2000ms)) {
    if (sample) at_end_ = std::move(*sample), announced_ = Clock::now();
    return ended();
  }
  Result<void> written = write_last(sample ? *sample : repeated());
  if (!finished && !removal.is_executed()) return finished.error();
  if (!written) return written.error();
  if (!sample) return damaged(sample.error());
  return 0;
}

// It could not be taken out: the values up to now, and what to do.
Result<int> Measurement::left(const Error& why) {
  set_word(kHeaderWaits, 0);
  auto sample = take_sample();
  if (auto ok = write_last(sample ? *sample : repeated()); !ok) return ok.error();
  return still_there(why);
}

void Measurement::abandon(const Error& why) {
  patch::Removal removal(pid(), memory_);
  Result<void> out = restore(removal);
  if (out) out = removal.finish();
  if (!out) set_word(kHeaderWaits, 0);
  result_ = out || removal.is_executed() || ends_soon(200ms)
                ? why
                : Error{fmt::format("{}; {}; take it out with mdl-inject --remove {}", why.text,
                                    out.error().text, pid()),
                        Status::left_inert};
}

}  // namespace mdl::inject
