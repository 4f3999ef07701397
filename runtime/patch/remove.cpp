#include "runtime/patch/remove.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nap.h"
#include "runtime/arch/description.h"
#include "runtime/patch/edit.h"
#include "runtime/patch/map_stage.h"
#include "runtime/patch/moved_code.h"
#include "runtime/patch/recover.h"
#include "runtime/patch/stack_scan.h"
#include "runtime/process/remote.h"
#include "runtime/process/target.h"

namespace mdl::patch {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kLongestStop = 2000ms;  // for a thread that does not stop; a look at stacks may be longer

}  // namespace

Result<const std::vector<image::Mapping>*> Removal::mappings() {
  if (!mappings_) {
    auto read = image::read_maps(pid_);
    if (!read) return read.error();
    mappings_ = std::move(*read);
  }
  return &*mappings_;
}

void Removal::release_all() {
  mappings_.reset();
  threads_.release_all();
}

bool Removal::anyone_inside(WalkedStacks& stacks) {
  unread_ = 0;
  if (expects_nobody_) return false;
  auto mappings = this->mappings();
  if (!mappings) return true;
  std::vector<image::Range> code = process::left_stubs(memory_, *image_);
  code.insert(code.end(), relays_.begin(), relays_.end());
  for (const image::Mapping& mapping : **mappings)
    if (resident::is_session_mapping(mapping) && mapping.execute)
      code.push_back({mapping.start, mapping.end});
  auto inside = [&](uint64_t address) {
    return std::any_of(code.begin(), code.end(),
                       [&](const image::Range& range) { return range.contains(address); });
  };
  for (pid_t tid : threads_.stopped()) {
    auto regs = threads_.registers(tid);
    if (!regs || inside(arch::pc(*regs))) return true;
    const ReturnPlaces places = return_places(*regs, **mappings, stacks.memory(), stacks.of(tid, *regs));
    if (std::ranges::any_of(places.known, inside)) return true;
    if (places.unread != 0) {
      unread_ = tid;
      return true;
    }
  }
  return false;
}

// The lock is held: what is there now stays until we change it.
Result<void> Removal::look(const resident::Journal* own) {
  auto image = image::read_image(pid_, image::Depth::code);
  if (!image) return image.error();
  image_ = std::move(*image);
  session_ = resident::find_footprint(image_->mappings, memory_, own);
  if (check_)
    if (auto ok = check_(session_); !ok) return ok;
  if (own) {
    // Its own memory of it is better than what the target may have written over. An own journal that was
    // never written has changed no code.
    const auto is_own = [&](const resident::Journal& one) { return one.head == own->head; };
    bool other = session_.journal && !own->head.empty() && !is_own(*session_.journal) &&
                 std::ranges::none_of(session_.others, is_own);
    gone_ = other || session_.mappings.empty();
    if (!gone_) windows_ = own->windows, files_ = own->files;
  } else if (session_.journal) {
    windows_ = session_.journal->windows;
    files_ = session_.journal->files;
    // The target may have forged it: what is written is what the program has of its files.
    if (auto ok = check_originals(*image_, windows_, files_, memory_); !ok) return ok;
  } else if (!session_.mappings.empty()) {
    auto windows = find_windows(*image_, session_, memory_);
    if (!windows) return Error{windows.error().text, Status::left_inert};
    windows_ = std::move(*windows);
    files_ = resident::files_at(image_->mappings, windows_);
  }
  if (auto ok = add_other_generations(own); !ok) return ok;
  heads_ = resident::journal_heads(image_->mappings, memory_);
  for (const resident::PatchedWindow& window : windows_) {
    hosts_left_ = hosts_left_ || window.part == resident::PatchedWindow::Part::host;
    if (window.part == resident::PatchedWindow::Part::relay)
      relays_.push_back({window.address, window.address + window.patched.size()});
  }
  return {};
}

// An injector that was killed while requests changed has left windows of two generations: each place holds what
// one of them has put there, or the original code.
Result<void> Removal::add_other_generations(const resident::Journal* own) {
  if (gone_ || !session_.journal) return {};
  std::vector<const resident::Journal*> others = {&*session_.journal};
  for (const resident::Journal& other : session_.others) others.push_back(&other);
  for (const resident::Journal* other : others) {
    if (own ? other->head == own->head : other == &*session_.journal) continue;
    if (auto ok = check_originals(*image_, other->windows, other->files, memory_); !ok) {
      if (own) continue;  // what is ours is known without it
      return ok;
    }
    windows_.insert(windows_.end(), other->windows.begin(), other->windows.end());
    files_.insert(files_.end(), other->files.begin(), other->files.end());
  }
  return {};
}

Result<void> Removal::restore(const resident::Journal* own, std::chrono::milliseconds deadline,
                              const std::function<void()>& meanwhile) {
  Clock::time_point until = Clock::now() + deadline;
  if (threads_.executed()) return threads_.left_alone();
  auto lock = process::TransactionLock::take(pid_, deadline);
  if (!lock) return lock.error();
  lock_.emplace(std::move(*lock));
  if (auto ok = look(own); !ok) return ok;
  if (gone_) lock_.reset();
  if (gone_) return {};
  const image::Unwinder unwinder(*image_, resident::relay_places(windows_));
  const resident::Journal* journal = own ? own : session_.journal ? &*session_.journal : nullptr;
  std::optional<MissedExits> missed;
  if (journal) missed.emplace(*journal, *image_, memory_);
  Result<void> done = put_all_back(own, until, meanwhile, missed ? &*missed : nullptr, unwinder);
  if (!done) release_all();  // it may have been killed: then it ends only now
  return done;
}

Result<void> Removal::put_all_back(const resident::Journal* own, Clock::time_point until,
                                   const std::function<void()>& meanwhile, const MissedExits* missed,
                                   const image::Unwinder& unwinder) {
  bool written = false;
  std::chrono::milliseconds limit = process::kMaxPause;
  for (int round = 0;; round++) {
    auto stopped = threads_.stop_all(2000ms, std::min(limit, kLongestStop));
    process::PausedMemory now(memory_, threads_.stopped_since(), limit);
    WalkedStacks stacks(unwinder, now);
    if (!stopped && (Clock::now() > until || threads_.executed() || process::has_ended(pid_))) return stopped;
    if (stopped && is_another_there()) {
      if (!own) return another_there();
      gone_ = true;
      release_all();
      return {};
    }
    if (stopped && !written) {
      written = true;
      Result<void> done = put_back(resident::PatchedWindow::Part::window);
      if (!own) take_over();
      if (!done) return done;
      if (missed) check_exits(*missed, stacks);
    }
    if (stopped && hosts_left_)
      if (auto ok = put_back_hosts(stacks); !ok) return ok;
    if (stopped) {
      inside_ = hosts_left_ || anyone_inside(stacks) || (!expects_nobody_ && now.is_over());
      unknown_ = now.is_over();
      // Relays go last: a thread could be about to execute one.
      if (!inside_) return put_back(resident::PatchedWindow::Part::relay);
      if (Clock::now() > until) return {};
    }
    release_all();
    const Clock::duration pause = Clock::now() - threads_.stopped_since();
    const bool is_late = stopped ? now.is_over() : threads_.is_late();
    if (is_late) limit *= 4;
    if (meanwhile) meanwhile();
    if (is_late)
      process::rest_after(pause);
    else
      nap(std::min(round + 1, 20) * 500);
  }
}

// In a stop: whether there is a session that was not there when it was looked at. One that does not see our lock
// (process/lock.h) may have taken that out, and somebody may have inserted another one.
bool Removal::is_another_there() {
  auto mappings = this->mappings();
  return mappings && std::ranges::any_of(resident::journal_heads(**mappings, memory_), [&](const auto& head) {
           const auto known = heads_.find(head.first);
           return known == heads_.end() || known->second != head.second;
         });
}

Error Removal::another_there() const {
  return {fmt::format(
      "another mdl-inject has begun at process {0} meanwhile, and is left as it is: see mdl-inject "
      "--status {0}",
      pid_)};
}

void Removal::check_exits(const MissedExits& missed, WalkedStacks& stacks) {
  if (auto mappings = this->mappings()) exits_ = missed.find(threads_, **mappings, stacks);
}

// A measuring session must not put anything in again, nor take what is counted from now on for all there is.
void Removal::take_over() const {
  constexpr uint32_t kTaken = 1;
  const auto take = [&](const resident::Journal& one) {
    memory_.write(one.at.start + resident::kJournalTaken, std::as_bytes(std::span(&kTaken, 1)));
  };
  if (session_.journal) take(*session_.journal);
  std::ranges::for_each(session_.others, take);
}

// A relay that is there leads on whether a thread executes it or is put where it leads.
bool Removal::leave_relays(const std::map<uint64_t, uint64_t>& relays) {
  for (pid_t tid : threads_.stopped()) {
    auto regs = threads_.registers(tid);
    if (!regs) return false;
    auto relay = relays.find(arch::pc(*regs));
    if (relay == relays.end()) continue;
    arch::set_pc(*regs, relay->second);
    if (!threads_.set_registers(tid, *regs)) return false;
  }
  return true;
}

// Their windows are back already, so nobody comes to a relay any more but who is there, or will return there.
Result<void> Removal::put_back_hosts(WalkedStacks& stacks) {
  std::map<uint64_t, uint64_t> relays;  // where each leads
  std::map<uint64_t, uint64_t> hosts;   // in which each lies
  for (const resident::PatchedWindow& window : windows_) {
    if (window.part != resident::PatchedWindow::Part::host || !holds(window.address, window.patched))
      continue;
    for (const resident::Relay& relay : resident::relays_of(window))
      relays[relay.at] = relay.target, hosts[relay.at] = window.address;
  }
  auto mappings = this->mappings();
  if (!mappings) return mappings.error();
  std::set<uint64_t> waiting;
  const bool moved = leave_relays(relays);
  stacks.forget();
  for (pid_t tid : threads_.stopped()) {
    auto regs = threads_.registers(tid);
    if (!regs || !moved) return {};
    const ReturnPlaces places = return_places(*regs, **mappings, stacks.memory(), stacks.of(tid, *regs));
    if (places.unread != 0) return {};  // it may return to any
    for (uint64_t word : places.known)
      if (auto host = hosts.find(word); host != hosts.end()) waiting.insert(host->second);
  }
  if (stacks.memory().is_over()) return {};
  hosts_left_ = !waiting.empty();
  return put_back(resident::PatchedWindow::Part::host, waiting);
}

bool Removal::holds(uint64_t address, const std::vector<uint8_t>& bytes) const {
  std::vector<uint8_t> now(bytes.size());
  return memory_.read(address, std::as_writable_bytes(std::span(now))) && now == bytes;
}

// All windows that begin there hold what was there before any of them.
bool Removal::is_original(uint64_t address) const {
  return std::ranges::all_of(windows_, [&](const resident::PatchedWindow& window) {
    return window.address != address || holds(address, window.original);
  });
}

// While all threads stand, and what is in its place is restored.
Result<std::set<uint64_t>> Removal::moved_away() {
  auto mappings = this->mappings();
  if (!mappings) return mappings.error();
  const resident::FilePlaces places(files_, **mappings);
  std::vector<const resident::PatchedWindow*> gone;
  for (const resident::PatchedWindow& window : windows_)
    if (!places.may_be_at(window, memory_)) gone.push_back(&window);
  auto found = find_moved(gone, files_, **mappings, memory_);
  if (!found)
    return Error{
        fmt::format("process {0} has mapped its code too often for a search of what it has moved: "
                    "what may lead to the instrumentation stays; mdl-inject --remove {0} tries again",
                    pid_),
        Status::left_inert};
  return std::move(*found);
}

// Those of one part, but for the ones that begin at these addresses.
Result<void> Removal::put_back(resident::PatchedWindow::Part part, const std::set<uint64_t>& but) {
  // No thread runs: what is mapped now stays so. A library that was unloaded is not written to, nor what lies
  // at its place now; code that the program has copied to other memory, with the jumps in it, is.
  auto mappings = this->mappings();
  if (!mappings) return mappings.error();
  std::vector<Edit> edits;
  const resident::FilePlaces places(files_, **mappings);
  for (const resident::PatchedWindow& window : windows_) {
    if (window.part != part || but.contains(window.address)) continue;
    if (places.may_be_at(window, memory_)) edits.push_back({window.address, window.patched, window.original});
  }
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) { return a.address < b.address; });
  Edited done = memory_.edit(edits);
  restored_ += done.changed.size();
  for (size_t i : done.foreign)
    if (is_original(edits[i].address))  // what another generation had there is gone
      continue;
    else if (edit_around_breakpoints(edits[i], memory_))
      breakpoints_.insert(edits[i].address);
    else
      foreign_.insert(edits[i].address);
  if (done.failed)
    return Error{fmt::format("cannot restore all code of process {}", pid_), Status::left_inert};
  return {};
}

Result<void> Removal::finish() {
  if (gone_) return {};
  if (inside_) {
    release_all();
    lock_.reset();
    return Error{
        fmt::format(
            "{2}: {1}; take it out later with mdl-inject --remove {0}", pid_,
            hosts_left_ ? "some jumps are left, to code that does what the program's own would"
            : relays_.empty()
                ? "its text is restored and the code left behind is inert"
                : "its functions are restored; jumps between them and the code left behind are inert",
            unknown_ ? fmt::format("process {} would have to stand for too long to find out whether a thread "
                                   "is still inside the instrumentation",
                                   pid_)
            : unread_ != 0
                ? fmt::format("thread {} of process {} has a stack that cannot be read, so it is not known "
                              "whether it is still inside the instrumentation",
                              unread_, pid_)
                : fmt::format("a thread of process {} is still inside the instrumentation (asleep in a "
                              "signal handler?)",
                              pid_)),
        Status::left_inert};
  }
  stubs_ = process::restore_slack(memory_, *image_);
  std::erase_if(foreign_, [&](uint64_t address) { return is_original(address); });
  if (!foreign_.empty()) {
    release_all();
    lock_.reset();
    return Error{fmt::format("{1} windows of process {0}, the first at {2:#x}, hold neither our code nor the "
                             "original: somebody "
                             "has changed them since (another tool?), and what is there may lead to the "
                             "instrumentation, which stays; when that is undone, mdl-inject --remove {0}",
                             pid_, foreign_.size(), *foreign_.begin()),
                 Status::left_inert};
  }
  const auto moved = moved_away();
  if (!moved || !moved->empty()) {
    release_all();
    lock_.reset();
    if (!moved) return moved.error();
    return Error{
        fmt::format(
            "process {0} has moved code to other addresses (mremap(2)), with {1} windows in it, the first "
            "of which was at {2:#x}: what these lead to stays; when the code is back, mdl-inject "
            "--remove {0}",
            pid_, moved->size(), *moved->begin()),
        Status::left_inert};
  }
  Result<void> done;
  // One that does not run takes seconds to be found out.
  const auto deadline = std::chrono::steady_clock::now() + 15s;
  for (int attempt = 0; attempt < 20 && std::chrono::steady_clock::now() < deadline; attempt++) {
    auto mappings = this->mappings();
    if (!mappings || process::has_ended(pid_)) break;
    const std::vector<image::Range> left = resident::session_mappings(**mappings);
    done = left.empty() ? Result<void>{} : unmap(pid_, threads_, memory_, *image_, left);
    if (done) break;
    release_all();
    if (threads_.executed()) {
      lock_.reset();
      return threads_.left_alone();
    }
    nap(5000);
    const Result<void> stopped = threads_.stop_all(2000ms, kLongestStop);
    if (!stopped) done = stopped;
    if (stopped && is_another_there()) {
      release_all();
      lock_.reset();
      return another_there();
    }
  }
  release_all();
  lock_.reset();
  if (done) return {};
  if (process::has_ended(pid_)) return Error{fmt::format("process {} has ended", pid_)};
  return Error{
      fmt::format(
          "the text of process {0} is restored, but what was mapped could not be given back ({1}): it is "
          "inert; take it out later with mdl-inject --remove {0}",
          pid_, done.error().text),
      Status::left_inert};
}

}  // namespace mdl::patch
