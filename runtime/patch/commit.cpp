#include "runtime/patch/commit.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "base/nap.h"
#include "runtime/arch/description.h"
#include "runtime/image/unwind.h"
#include "runtime/patch/active_frames.h"
#include "runtime/patch/edit.h"
#include "runtime/patch/inside.h"
#include "runtime/patch/map_stage.h"
#include "runtime/patch/old_code.h"
#include "runtime/patch/stack_scan.h"
#include "runtime/process/seccomp.h"
#include "runtime/process/target.h"

namespace mdl::patch {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kStopDeadline = 2000ms;
// To compare a window and to write it takes a microsecond or two, which the request decides, and not the target.
constexpr auto kWindow = 2us;

constexpr int kMostLate = 5;  // attempts that take too long
constexpr auto kBusy = 5s;    // for these on a busy machine, and for a change of requests

constexpr auto kDrain = 200ms;  // in one stop, for threads to come out, and at most half of it

constexpr int kWaits = 25;  // times that windows with an address on some stack are waited for

std::vector<Edit> edits(const Stage& stage) {
  std::vector<Edit> out;
  for (const StagedWindow& window : stage.windows)
    if (!window.window->relays) out.push_back({window.window->start, window.original, window.patched});
  return out;
}
// The edits of relays, and of hosts with theirs.
std::vector<Edit> relay_edits(const Stage& stage) {
  std::vector<Edit> out;
  for (const StagedWindow& window : stage.windows) {
    if (window.window->relays) out.push_back({window.window->start, window.original, window.patched});
    if (window.relay.address)
      out.push_back({window.relay.address, window.relay.original, window.relay.patched});
  }
  std::sort(out.begin(), out.end(), [](const Edit& a, const Edit& b) { return a.address < b.address; });
  return out;
}

// Of the session's pages of stubs, one at a time.
std::vector<Edit> stub_edits(const Stage& stage) {
  std::vector<Edit> out;
  for (const ReusedStubs& reused : stage.reused)
    for (uint64_t at = 0; at < reused.after.size(); at += arch::kPage)
      out.push_back({reused.at.start + at, std::span(reused.before).subspan(at, arch::kPage),
                     std::span(reused.after).subspan(at, arch::kPage)});
  return out;
}

// The commit: from the first stop to the last thread let go.
class Commit {
 public:
  Commit(const InsertInput& input, const process::TargetMemory& memory, Stage& stage, Inserted& out,
         const Replaced* replaced)
      : input_(input),
        memory_(memory),
        stage_(stage),
        out_(out),
        replaced_(replaced),
        unwinder_(input.image, stage.session_relays),
        active_(input, memory, stage, unwinder_),
        passed_(passed_returns()),
        limit_(input.max_pause + time_to_write()) {}

  Result<void> run() {
    const Clock::time_point begun = Clock::now();
    for (int waits = 0, late = 0;;) {
      process::Threads threads(input_.image.pid, memory_);
      const std::clock_t cpu = std::clock();
      auto stopped = threads.stop_all(kStopDeadline, limit_);
      if (!stopped && !threads.is_late()) return stopped;
      process::PausedMemory now(memory_, threads.stopped_since(), limit_);
      const size_t count = threads.stopped().size(), warnings = out_.warnings.size(), frames = out_.frames;
      const Clock::time_point since = threads.stopped_since();
      const Result<Attempt> done = !stopped    ? Result<Attempt>(Attempt::late)
                                   : replaced_ ? replace(threads, now)
                                               : attempt(threads, now, waits < kWaits);
      threads.release_all();
      const Clock::duration pause = Clock::now() - since;
      out_.paused.add(pause);
      if (!done) return done.error();
      if (*done == Attempt::done) {
        give_back();
        return {};
      }
      out_.warnings.resize(warnings), out_.frames = frames;
      if (*done == Attempt::busy) waits++;
      if (*done == Attempt::busy && replaced_ && Clock::now() - begun > kBusy) return stays_busy();
      // Where we have waited ourselves, for a processor or for a thread that sleeps in the kernel, another
      // attempt may be shorter. Where we have worked, it will not be, but for threads that had to come out.
      const bool have_worked =
          !replaced_ && 2 * (std::clock() - cpu) / (CLOCKS_PER_SEC / 1000) > limit_.count();
      if (*done == Attempt::late && ++late >= kMostLate && (have_worked || Clock::now() - begun > kBusy))
        return too_long(count, stopped ? now.slowest() : stopped.error().text);
      process::rest_after(pause);
    }
  }

 private:
  enum class Attempt {
    done,  // everything is committed
    busy,  // a busy window, or a thread inside code that is to go, is to be waited for
    late,  // the target has stood for as long as it may; nothing was changed
  };

  std::chrono::milliseconds time_to_write() const {
    size_t windows = edits(stage_).size();
    if (replaced_) windows += 2 * replaced_->session.windows.size();  // taken off, and perhaps put on again
    windows += 4 * stub_edits(stage_).size();                         // likewise, and each is a page
    return std::chrono::duration_cast<std::chrono::milliseconds>(kWindow * windows);
  }

  Error too_long(size_t threads, const std::string& why) const {
    return {fmt::format(
        "process {} would have to stand for more than {} ms to be patched safely ({}): nothing was changed. "
        "Allow more with --max-pause MS, or try again when there is more processor time",
        input_.image.pid, limit_.count(),
        threads == 0 ? why
                     : fmt::format("to look at {} threads takes longer{}{}", threads,
                                   why.empty() ? "" : ", of these the slowest is ", why))};
  }

  Error stays_busy() const {
    return {fmt::format("{} of process {} for {} s: nothing was changed, try again later", waits_for_,
                        input_.image.pid, std::chrono::seconds(kBusy).count())};
  }

  // The old code out and the new one in, or all as it was.
  Result<Attempt> replace(process::Threads& threads, process::PausedMemory& now) {
    const OldCode old(replaced_->session, memory_);
    auto mappings = image::read_maps(input_.image.pid);
    if (!mappings) return mappings.error();
    std::vector<image::Range> leaving = replaced_->old_code(*mappings), code = old.code(leaving);
    for (const ReusedStubs& reused : stage_.reused) code.push_back(reused.at);
    waits_for_ = "threads stayed inside the instrumentation";
    auto drained = drain(threads, code, input_.image.pid, now, unwinder_, std::min(kDrain, limit_ / 2));
    if (!drained) return drained.error();
    if (!*drained) return now.is_over() ? Attempt::late : Attempt::busy;
    auto ready = replaced_->first_look();
    if (!ready) return ready.error();
    if (!*ready) waits_for_ = "flags or timers that are to go ended behind tail jumps only, in threads";
    if (!*ready) return Attempt::busy;
    if (now.is_over()) return Attempt::late;
    if (auto ok = old.take_off(*mappings); !ok) return ok.error();
    Result<Attempt> done = attempt(threads, now, true);
    if (done && *done == Attempt::done) {
      if (auto ok = replaced_->last_look(); !ok) out_.warnings.push_back(ok.error().text);
      leaving_ = std::move(leaving);  // the journal among them, before the tables that it names
      leaving_.insert(leaving_.end(), replaced_->old_tables.begin(), replaced_->old_tables.end());
      return done;
    }
    if (stage_.code_written) return done;  // the old code may need what could not be put back
    waits_for_ = "stacks lead into code that is to be replaced, in threads";
    if (auto ok = old.put_on(*mappings); !ok) return ok.error();
    return done;
  }

  // Nobody is inside of what the old code alone needed, and nothing leads there: the process runs on meanwhile.
  // Code that cannot be unmapped now is at the next change, and all of it when the session ends.
  void give_back() const {
    if (leaving_.empty()) return;
    process::Threads threads(input_.image.pid, memory_);
    (void)unmap(input_.image.pid, threads, memory_, input_.image, leaving_).operator bool();
  }

  Result<Attempt> attempt(process::Threads& threads, process::PausedMemory& now, bool may_wait) {
    Regs regs;
    const std::vector<pid_t> stopped = threads.stopped();
    if (auto ok = check_calls(stopped); !ok) return ok.error();
    for (pid_t tid : stopped) {
      if (now.is_over()) return Attempt::late;
      auto r = threads.registers(tid);
      if (!r) return r.error();
      if (auto ok = check_thread(tid, *r); !ok) return ok.error();
      regs[tid] = *r;
    }
    if (auto ok = check_pointers_differ(regs); !ok) return ok.error();
    auto mappings = image::read_maps(input_.image.pid);  // once: there may be tens of thousands
    if (!mappings) return mappings.error();
    if (auto ok = check_unchanged(input_, memory_, stage_, *mappings); !ok) return ok.error();
    if (!resident::is_in_place(stage_.journal, memory_))
      return Error{fmt::format("another mdl-inject has taken out of process {} what was being inserted",
                               input_.image.pid)};
    pid_t unread = 0;
    std::set<const FunctionPlan*> busy = busy_functions(regs, *mappings, now, unread);
    if (now.is_over()) return Attempt::late;
    if ((!busy.empty() || unread != 0) && may_wait) return Attempt::busy;
    if (unread != 0) return unread_stack(unread);
    std::map<const FunctionPlan*, std::string> reasons;
    for (const FunctionPlan* function : busy) reasons[function] = "an interrupted thread stayed inside it";
    if (!reasons.empty()) {
      give_up(stage_, input_.coverage, reasons);
      active_.look_again();
      passed_ = passed_returns();
    }
    auto counted = active_.count(regs, now, out_);
    if (!counted) return counted.error();
    if (!*counted) return Attempt::late;
    // From here on there is no way back but a removal, and nothing whose length the target decides.
    stage_.entered = true;
    if (auto ok = move_threads(threads, regs); !ok) return ok.error();
    if (auto ok = write_windows(); !ok) return ok.error();
    out_.threads = regs.size();
    return Attempt::done;
  }

  // Inserted code makes system calls here and there.
  Result<void> check_calls(std::span<const pid_t> tids) const {
    const auto tid = process::find_self_caller(tids);
    if (!tid) return {};
    return Error{
        fmt::format("the system calls of thread {} of process {} come back to it as SIGSYS "
                    "(PR_SET_SYSCALL_USER_DISPATCH, as Wine uses it), and those of instrumentation would: it "
                    "cannot be instrumented safely",
                    *tid, input_.image.pid)};
  }

  Error unread_stack(pid_t tid) const {
    return {
        fmt::format("the stack of thread {} of process {} cannot be read (memfd_secret, userfaultfd?), so it "
                    "is not known where the thread will return to: nothing was changed",
                    tid, input_.image.pid)};
  }

  Error go_thread(pid_t tid) const {
    return {fmt::format(
        "process {} is a Go program whose threads keep their thread pointer in another way than C "
        "(thread {}): it cannot be instrumented",
        input_.image.pid, tid)};
  }

  // The lookup reads the word that the thread pointer points to: it must be there and hold itself.
  Result<void> check_thread(pid_t tid, const arch::ThreadRegisters& regs) {
    uint64_t pointer = arch::thread_pointer(regs), word = 0;
    if (pointer != 0 && memory_.read(pointer, std::as_writable_bytes(std::span(&word, 1))) && word == pointer)
      return {};
    if (input_.image.objects.front().is_go) return go_thread(tid);
    return Error{fmt::format(
        "thread {} of process {} has no thread pointer of the usual kind (it is starting up, or its "
        "run-time system keeps its own): it cannot be instrumented safely",
        tid, input_.image.pid)};
  }

  // Threads with one thread pointer would count in one block at a time, and lose counts. (A process that
  // shares the memory is no thread; of what it counts nothing is promised.) The kernel's own threads, of
  // io_uring and vhost, have their maker's, and no pc: they execute nothing of the program.
  Result<void> check_pointers_differ(const Regs& regs) const {
    std::map<uint64_t, std::vector<pid_t>> owners;
    for (const auto& [tid, r] : regs)
      if (arch::pc(r) != 0) owners[arch::thread_pointer(r)].push_back(tid);
    for (auto& [pointer, tids] : owners) {
      if (tids.size() < 2) continue;
      const std::vector<pid_t> own = process::live_threads(input_.image.pid);
      std::erase_if(tids, [&](pid_t tid) { return std::ranges::find(own, tid) == own.end(); });
      if (tids.size() < 2) continue;
      return Error{fmt::format(
          "threads {} and {} of process {} have the same thread pointer (one was made by clone "
          "without its C library): what they do could not be told apart, and not be counted exactly",
          tids[0], tids[1], input_.image.pid)};
    }
    return {};
  }

  const StagedWindow* window_around(
      uint64_t address) const {  // the window whose inside, less its first byte, holds it
    auto it = std::upper_bound(stage_.windows.begin(), stage_.windows.end(), address,
                               [](uint64_t a, const StagedWindow& w) { return a <= w.window->start; });
    if (it == stage_.windows.begin()) return nullptr;
    --it;
    return address > it->window->start && address < it->window->end ? &*it : nullptr;
  }

  // Functions with a window into which an address on some stack points: a handler
  // interrupted it and will return there. A thread's pc can be moved, such an address cannot.
  // `unread` becomes a thread of which it cannot be found out, if there is one.
  std::set<const FunctionPlan*> busy_functions(const Regs& regs, const std::vector<image::Mapping>& mappings,
                                               process::PausedMemory& now, pid_t& unread) const {
    std::set<const FunctionPlan*> out;
    for (const auto& [tid, r] : regs) {
      now.begin(tid);
      auto [places, unread_at] = return_places(r, mappings, now, unwinder_);
      if (now.is_over()) return out;
      if (unread_at != 0) unread = tid;
      for (uint64_t word : places)
        if (const StagedWindow* window = window_around(word)) out.insert(window->function);
      places.push_back(arch::pc(r));
      for (uint64_t word : places)
        if (auto at = passed_.find(word); at != passed_.end()) out.insert(at->second);
      if (const StagedWindow* window = window_around(arch::pc(r)); window && !moved_to(*window, arch::pc(r)))
        out.insert(window->function);
    }
    return out;
  }

  // Returns whose code stands on the ways there: who is about to execute one has passed the code by.
  std::map<uint64_t, const FunctionPlan*> passed_returns() const {
    std::map<uint64_t, const FunctionPlan*> out;
    for (const StagedWindow& window : stage_.windows)
      for (const Site& site : window.window->sites)
        if (site.instead_of) out[site.instead_of] = window.function;
    return out;
  }

  static const uint64_t* moved_to(const StagedWindow& window, uint64_t pc) {
    for (const auto& [from, to] : window.trampoline.moved)
      if (from == pc) return &to;
    return nullptr;
  }

  // Before a window is written, threads inside it are sent to the trampoline's copy: it does
  // the same whether the window is written or not.
  Result<void> move_threads(process::Threads& threads, Regs& regs) {
    for (auto& [tid, r] : regs) {
      const StagedWindow* window = window_around(arch::pc(r));
      if (!window) continue;
      arch::ThreadRegisters moved = r;
      arch::set_pc(moved, *moved_to(*window, arch::pc(r)));
      if (auto ok = threads.set_registers(tid, moved); !ok) return ok;
    }
    return {};
  }

  Result<void> write_windows() {
    // Stubs and relays first: nothing jumps there yet. A host is as good without those that jump to its relays.
    std::vector<Edit> stubs = stub_edits(stage_), relays = relay_edits(stage_), all = edits(stage_);
    stage_.code_written = true;
    const auto is_made = [&](const std::vector<Edit>& some) {
      return memory_.edit(some).changed.size() == some.size();
    };
    if (is_made(stubs) && is_made(relays) && is_made(all)) {
      for (const StagedWindow& window : stage_.windows)
        out_.points += window.function->sites_of(*window.window);
      return {};
    }
    bool undone = true;
    for (std::vector<Edit>* edits : {&all, &relays, &stubs}) {
      for (Edit& edit : *edits) std::swap(edit.from, edit.to);
      undone = undone && !memory_.edit(*edits).failed;
    }
    stage_.code_written = !undone;
    return Error{fmt::format("cannot write the code of process {}: {}", input_.image.pid,
                             undone ? "nothing was changed"
                                    : "some of it is patched and works; take it out with --remove"),
                 undone ? Status::failed : Status::left_inert};
  }

  const InsertInput& input_;
  const process::TargetMemory& memory_;
  Stage& stage_;
  Inserted& out_;
  const Replaced* replaced_;
  image::Unwinder unwinder_;
  ActiveFrames active_;
  std::map<uint64_t, const FunctionPlan*> passed_;
  std::chrono::milliseconds limit_;    // of a stop
  std::string waits_for_;              // of what is replaced
  std::vector<image::Range> leaving_;  // likewise, when it is replaced
};

}  // namespace

Result<void> check_unchanged(const InsertInput& input, const process::TargetMemory& memory,
                             const Stage& stage, const std::vector<image::Mapping>& mappings) {
  const resident::FilePlaces places(stage.journal.files, mappings);
  for (const resident::PatchedFile& file : stage.journal.files)
    if (!places.is_still_there(file.at.start))
      return Error{fmt::format("a library at {:#x} was unloaded while the insertion was prepared: try again",
                               file.at.start),
                   Status::failed, true};
  for (const std::vector<Edit>& all : {edits(stage), relay_edits(stage), stub_edits(stage)}) {
    Edited found = memory.edit(all, true);
    if (found.changed.size() == all.size()) continue;
    const uint64_t where = all[found.foreign.empty() ? 0 : found.foreign[0]].address;
    const image::Object* object = image::object_at(input.image, where);
    const image::Function* function = object ? image::function_at(*object, where) : nullptr;
    return Error{fmt::format("the code at {:#x} ({}) changed while the insertion was prepared: try again",
                             where, function ? function->name : "no function"),
                 Status::failed, true};
  }
  return {};
}

Result<void> commit(const InsertInput& input, const process::TargetMemory& memory, Stage& stage,
                    Inserted& out, const Replaced* replaced) {
  return Commit(input, memory, stage, out, replaced).run();
}

}  // namespace mdl::patch
