#include "runtime/patch/old_code.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/arch/description.h"
#include "runtime/patch/edit.h"

namespace mdl::patch {

using Part = resident::PatchedWindow::Part;

std::vector<image::Range> OldCode::code(std::vector<image::Range> mapped) const {
  for (const resident::PatchedWindow& window : session_.windows)
    for (const resident::Relay& relay : resident::relays_of(window))
      mapped.push_back({relay.at, relay.at + arch::kMachine.jump_size});
  return mapped;
}

// True when all of them are as they should be now.
bool OldCode::edit(Part part, Way way, const std::vector<image::Mapping>& mappings) const {
  std::vector<Edit> edits;
  const resident::FilePlaces places(session_.files, mappings);
  for (const resident::PatchedWindow& window : session_.windows) {
    if (window.part != part || !places.is_still_there(window.address)) continue;
    edits.push_back({window.address, window.patched, window.original});
    if (way == Way::on) std::swap(edits.back().from, edits.back().to);
  }
  std::ranges::sort(edits, {}, &Edit::address);
  const Edited done = memory_.edit(edits);
  return done.foreign.empty() && !done.failed;
}

Result<void> OldCode::take_off(const std::vector<image::Mapping>& mappings) const {
  const resident::FilePlaces places(session_.files, mappings);
  for (const resident::PatchedWindow& window : session_.windows)
    if (!places.is_still_there(window.address) && places.is_copied(window, memory_))
      return Error{
          fmt::format("process {} has copied its code with the instrumentation: nothing of that is replaced",
                      session_.target)};
  if (edit(Part::window, Way::off, mappings) && edit(Part::host, Way::off, mappings) &&
      edit(Part::relay, Way::off, mappings))
    return {};
  if (auto ok = put_on(mappings); !ok) return ok;
  return Error{fmt::format(
      "the instrumentation of process {} is not as it was put there (a debugger's breakpoint?): nothing was "
      "changed",
      session_.target)};
}

Result<void> OldCode::put_on(const std::vector<image::Mapping>& mappings) const {
  bool whole = edit(Part::relay, Way::on, mappings);
  whole = whole && edit(Part::host, Way::on, mappings);
  if (whole) (void)edit(Part::window, Way::on, mappings);
  if (whole) return {};
  return Error{fmt::format("not all code of process {} could be put back: what is there works; take it out "
                           "with mdl-inject --remove {}",
                           session_.target, session_.target),
               Status::left_inert};
}

}  // namespace mdl::patch
