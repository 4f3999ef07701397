#include "mdl-inject/clean.h"

#include <fmt/format.h>

#include "base/say.h"
#include "runtime/image/image.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/patch/left_behind.h"
#include "runtime/patch/remove.h"
#include "runtime/resident/footprint.h"
#include "runtime/session/report.h"
#include "runtime/session/users.h"

namespace mdl::inject {

Result<void> clean(const Options& options, pid_t pid, const process::TargetMemory& memory, Audit& audit) {
  auto maps = image::read_maps(kernel::live_thread(pid));
  if (!maps || !patch::is_left_behind(resident::find_footprint(*maps, memory), memory)) return {};
  if (auto ok = check_users(pid, options); !ok) return ok;
  if (auto ok = audit.say_of(pid, "removal", "begins"); !ok) return ok;
  patch::Removal removal(pid, memory);
  removal.only_if([&](const resident::Footprint& session) {
    return patch::is_left_behind(session, memory) ? Result<void>{} : Error{"it is another one's by now"};
  });
  Result<void> done = removal.restore(nullptr, patch::kRemovalPatience);
  if (done) done = removal.finish();
  (void)audit.say_of(pid, "removal", done ? "done" : done.error().text);
  if (!done) return done.error().status == Status::left_inert ? done : Result<void>{};
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
