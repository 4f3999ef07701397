#include "mdl-inject/clean.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/say.h"
#include "runtime/image/image.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/patch/left_behind.h"
#include "runtime/patch/remove.h"
#include "runtime/resident/footprint.h"
#include "runtime/session/report.h"
#include "runtime/session/users.h"

namespace mdl::inject {

namespace {

// A child that was forked while its parent was measured by us has a copy of the code, which nobody reads. With
// --follow-fork it is read, and the child is measured already.
bool is_own_copy(const resident::Footprint& session, pid_t pid) {
  return session.journal && !session.journal->news.end && session.journal->owner == getpid() &&
         !patch::is_elsewhere(*session.journal) && session.journal->target != pid;
}

}  // namespace

Result<void> clean(const Options& options, pid_t pid, const process::TargetMemory& memory, Audit& audit) {
  auto maps = image::read_maps(kernel::live_thread(pid));
  if (!maps) return {};
  const resident::Footprint found = resident::find_footprint(*maps, memory);
  const bool is_copy = is_own_copy(found, pid);
  if (!is_copy && !patch::is_left_behind(found, memory)) return {};
  if (auto ok = check_users(pid, options); !ok) return ok;
  if (auto ok = audit.say_of(pid, "removal", "begins"); !ok) return ok;
  patch::Removal removal(pid, memory);
  removal.only_if([&](const resident::Footprint& session) {
    return is_own_copy(session, pid) || patch::is_left_behind(session, memory)
               ? Result<void>{}
               : Error{"it is another one's by now"};
  });
  Result<void> done = removal.restore(nullptr, patch::kRemovalPatience);
  if (done) done = removal.finish();
  (void)audit.say_of(pid, "removal", done ? "done" : done.error().text);
  if (!done) return done.error().status == Status::left_inert ? done : Result<void>{};
  if (is_copy) return {};
  const auto& journal = removal.session().journal;
  say(stderr,
      "process {} held what an mdl-inject that was killed{} had left: it was taken out ({} windows "
      "restored)\n",
      pid, journal ? fmt::format(" ({}, since {})", journal->owner, resident::began_text(*journal)) : "",
      removal.restored());
  say_breakpoints(pid, removal.breakpoints());
  return {};
}

}  // namespace mdl::inject
