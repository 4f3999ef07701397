#include "runtime/session/follow.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/say.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/patch/remove.h"
#include "runtime/process/lock.h"
#include "runtime/process/target.h"
#include "runtime/resident/child.h"
#include "runtime/resident/footprint.h"
#include "runtime/session/measurement.h"
#include "runtime/session/users.h"

namespace mdl::inject {
namespace {

bool read_word(const image::Memory& memory, uint64_t address, uint64_t& word) {
  return memory.read(address, std::as_writable_bytes(std::span(&word, 1)));
}
void write_word(const process::TargetMemory& memory, uint64_t address, uint64_t word) {
  memory.write(address, std::as_bytes(std::span(&word, 1)));
}

}  // namespace

Follow::Follow(const resident::Journal& session, const SessionOptions& options)
    : session_(session), options_(options), since_(process::start_time(getpid())) {}

std::vector<Follow::Child> Follow::look(Measured measured, bool thoroughly,
                                        const std::function<bool(pid_t)>& busy) {
  busy_ = busy;
  found_.clear();
  incomplete_ = false;
  read_news(measured);
  if (thoroughly || incomplete_) look_everywhere(measured);
  return std::exchange(found_, {});
}

// Through any of the family. As in Measurement::write_data(): nothing is written where a removal may be under
// way, or has been.
bool Follow::write(Measured measured, uint64_t offset, std::span<const uint64_t> words) const {
  return std::ranges::any_of(measured, [&](const Measurement* one) {
    auto lock = process::TransactionLock::take(one->pid(), std::chrono::milliseconds(100));
    return lock && resident::is_in_place(session_, one->memory()) &&
           one->memory().write(session_.news.start + offset, std::as_bytes(words));
  });
}

void Follow::expect_programs(Measured measured) {
  write(measured, kNewsPrograms, std::array<uint64_t, 1>{1});
}

std::vector<Follow::Asker> Follow::asking(Measured measured) {
  std::vector<Asker> out;
  if (!may_ask_) return out;
  std::array<uint64_t, kNewsAskers> ids{};
  const auto reader = std::ranges::find_if(measured, [&](const Measurement* one) {
    return one->memory().read(session_.news.start + kNewsAsking, std::as_writable_bytes(std::span(ids)));
  });
  if (reader == measured.end()) return out;
  for (size_t i = 0; i < ids.size(); i++) {
    if (ids[i] == 0) continue;
    const auto tid = static_cast<pid_t>(ids[i]);
    const process::ProcessStatus status = process::read_status(tid);
    Asker asker{tid, status.group, kNewsAsking + i * sizeof(uint64_t), std::nullopt};
    if (ids[i] <= INT32_MAX && status.inner_pid == tid && is_young(asker.process))
      if (auto memory = process::TargetMemory::open(asker.process);
          memory && resident::is_in_place(session_, *memory))
        asker.memory.emplace(std::move(*memory));
    if (asker.memory)
      out.push_back(std::move(asker));
    else
      answer(asker, measured);
  }
  return out;
}

bool Follow::answer(const Asker& asker, Measured measured) {
  return write(measured, asker.place, std::array<uint64_t, 1>{});
}

void Follow::ignore_programs(Measured measured) {
  write(measured, kNewsPrograms, std::array<uint64_t, 1>{});
  write(measured, kNewsAsking, std::array<uint64_t, kNewsAskers>{});
}

void Follow::say_missed(Missed now) {
  const Missed before = std::exchange(missed_, now);
  const auto warn = [](uint64_t number, std::string_view who) {
    if (number != 0 && number < UINT32_MAX)  // the page is the target's
      say(stderr, "warning: mdl-inject was held up: {} {} on without being measured\n", number, who);
  };
  warn(now.forks - before.forks, "children of forks went");
  warn(now.programs - before.programs, "programs were executed and went");
}

// Any of the family shows them, unless it has ended or executes another program.
std::optional<Follow::News> Follow::see_news(Measured measured) const {
  constexpr size_t kAskers = kNewsAsking / sizeof(uint64_t);
  std::array<uint64_t, kAskers + kNewsAskers> page{};
  const auto reader = std::ranges::find_if(measured, [&](const Measurement* one) {
    return !one->result() && one->memory().read(session_.news.start, std::as_writable_bytes(std::span(page)));
  });
  if (reader == measured.end()) return std::nullopt;
  const auto word = [&](uint64_t offset) { return page[offset / sizeof(uint64_t)]; };
  return News{
      .reader = *reader,
      .made = word(kNewsMade),
      .nobody = word(kNewsNobody),
      .missed = {word(kNewsMissedForks), word(kNewsMissedPrograms)},
      .any_asks = std::ranges::any_of(std::span(page).subspan(kAskers), [](uint64_t id) { return id != 0; })};
}

bool Follow::is_quiet(Measured measured) const {
  const auto news = see_news(measured);
  return news && news->made == read_ && !news->nobody && news->missed == missed_ && !news->any_asks;
}

void Follow::read_news(Measured measured) {
  const auto seen = see_news(measured);
  may_ask_ = !seen || seen->any_asks;
  if (!seen) return;
  say_missed(seen->missed);
  const uint64_t news = session_.news.start, made = seen->made;
  if (made == read_ && !seen->nobody) return;
  // As in Measurement::write_data(): nothing is written where a removal may be under way, or has been.
  const process::TargetMemory& memory = seen->reader->memory();
  constexpr std::chrono::milliseconds kPatience{5};  // the beat has the lock for some microseconds at a time
  auto lock = process::TransactionLock::take(seen->reader->pid(), kPatience);
  if (!lock || !resident::is_in_place(session_, memory)) return;
  if (seen->nobody) write_word(memory, news + kNewsNobody, 0);  // we are here, after all
  if (made - read_ > kNewsEntries) {
    read_ = made;
    incomplete_ = true;
  }
  std::vector<pid_t> announced;
  for (; read_ != made; read_++) {
    const uint64_t at = news + kNewsRing + (read_ & (kNewsEntries - 1)) * sizeof(uint64_t);
    uint64_t pid = 0;
    if (!read_word(memory, at, pid)) break;
    write_word(memory, at, 0);
    if (pid == 0 || pid > INT32_MAX)
      incomplete_ = true;  // not written yet
    else
      announced.push_back(static_cast<pid_t>(pid));
  }
  { auto released = std::move(*lock); }
  for (pid_t pid : announced) consider(pid, measured);
}

void Follow::look_everywhere(Measured measured) {
  const std::vector<pid_t> list = kernel::processes();
  const std::set<pid_t> all(list.begin(), list.end());
  std::erase_if(others_, [&](pid_t pid) { return !all.contains(pid); });
  for (pid_t pid : all) {
    if (others_.contains(pid)) continue;
    if (is_young(pid) && is_family(pid))
      consider(pid, measured);
    else
      others_.insert(pid);
  }
}

bool Follow::is_young(pid_t pid) const {
  return process::start_time(pid) >= since_;
}

bool Follow::is_family(pid_t pid) const {
  auto memory = process::TargetMemory::open(pid);
  return memory && resident::is_in_place(session_, *memory);
}

void Follow::consider(pid_t pid, Measured measured) {
  const auto known = [&](pid_t one) {
    return std::any_of(measured.begin(), measured.end(),
                       [&](const Measurement* m) { return m->pid() == one && !m->result(); }) ||
           std::any_of(found_.begin(), found_.end(),
                       [&](const Child& child) { return child.process.pid() == one; });
  };
  const auto given_up = std::find(unmeasured_.begin(), unmeasured_.end(), pid) != unmeasured_.end();
  if (known(pid) || given_up || busy_(pid)) return;
  if (!is_young(pid) || !is_family(pid)) {
    incomplete_ = true;
    if (process::start_time(pid) == 0 && !admitted_.contains(pid))
      say(stderr, "warning: process {} was forked and has ended before it could be measured\n", pid);
    return;
  }
  // The memory is that of whoever forked last.
  for (const Measurement* one : measured)
    if (!one->result() && process::shares_memory(pid, one->pid()))
      return resident::let_sharer_pass(pid, session_, one->memory());
  pid_t owner = pid;
  for (pid_t parent = process::read_status(pid).parent; parent > 0 && process::shares_memory(owner, parent);
       parent = process::read_status(owner).parent)
    owner = parent;
  if (!known(owner) && !busy_(owner)) admit(owner);
  if (owner == pid) return;
  if (auto memory = process::TargetMemory::open(pid)) resident::let_sharer_pass(pid, session_, *memory);
}

void Follow::admit(pid_t pid) {
  auto process = ProcessHandle::open(pid);
  if (!process) return give_up(pid, process.error().text);
  auto memory = process::TargetMemory::open(pid);
  if (!memory) return give_up(pid, memory.error().text);
  if (auto ok = check_users(pid, options_); !ok) {
    give_up(pid, ok.error().text);
    return clean(pid);
  }
  auto maps = image::read_maps(pid);
  if (!maps) return give_up(pid, maps.error().text);
  auto session = resident::find_footprint(*maps, *memory);
  if (!session.journal || session.journal->head != session_.head)
    return give_up(pid, "its copy of the session is damaged");
  // The place of armed calls is in no journal.
  session.journal->armed = session_.armed;
  auto admitted = resident::admit(pid, *session.journal, *memory);
  if (!admitted) return give_up(pid, admitted.error().text);
  switch (*admitted) {
    case resident::Admitted::yes:
      admitted_.insert(pid);
      found_.push_back({std::move(*process), std::move(*session.journal), std::move(*memory)});
      return;
    case resident::Admitted::missed:
      return give_up(pid, "it waited in vain for this mdl-inject, which was held up");
    case resident::Admitted::foreign:
      return give_up(pid, "it was not made by its C library, which does not know of it");
  }
}

void Follow::give_up(pid_t pid, const std::string& why) {
  others_.insert(pid);
  unmeasured_.push_back(pid);
  if (auto memory = process::TargetMemory::open(pid)) resident::let_miss(pid, session_, *memory);
  say(stderr, "warning: process {} was forked and is not measured: {}\n", pid, why);
}

void Follow::leave(Measured measured) {
  write(measured, kNewsNobody, std::array<uint64_t, 1>{1});
}

void Follow::clean(pid_t pid) {
  if (!is_young(pid) || !is_family(pid)) return;
  auto memory = process::TargetMemory::open(pid);
  if (!memory) return;
  patch::Removal removal(pid, *memory);
  Result<void> done = removal.restore(nullptr, patch::kRemovalPatience);
  if (done) done = removal.finish();
  if (!done && !removal.is_executed())
    say(stderr, "warning: process {0} is still instrumented ({1}): mdl-inject --remove {0}\n", pid,
        done.error().text);
}

void Follow::clean() {
  for (pid_t pid : unmeasured_) clean(pid);
}

}  // namespace mdl::inject
