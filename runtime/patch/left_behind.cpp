#include "runtime/patch/left_behind.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "runtime/process/target.h"
#include "runtime/resident/layout.h"

namespace mdl::patch {
namespace {

// While somebody measures, the process is to wait for him at its end, from the journal on. --detach takes that back.
bool is_waited_for(const resident::Journal& journal, const image::Memory& memory) {
  uint64_t waits = 0;
  return memory.read(journal.data.start + kHeaderWaits, std::as_writable_bytes(std::span(&waits, 1))) &&
         waits != 0;
}

bool is_in_place(const resident::PatchedWindow& window, const image::Memory& memory) {
  std::vector<uint8_t> now(window.patched.size());
  return memory.read(window.address, std::as_writable_bytes(std::span(now))) && now == window.patched;
}

}  // namespace

bool is_elsewhere(const resident::Journal& journal) {
  return journal.owner_space != 0 && journal.owner_space != process::pid_namespace();
}

Owner owner_of(const resident::Journal& journal) {
  if (process::is_running(journal.owner, journal.owner_start)) return Owner::runs;
  if (!is_elsewhere(journal)) return Owner::ended;
  if (process::is_running_inside(journal.owner, journal.owner_start)) return Owner::runs;
  return process::sees_all_processes() ? Owner::ended : Owner::unseen;
}

std::string owner_text(const resident::Journal& journal) {
  return fmt::format("mdl-inject {}{}", journal.owner,
                     is_elsewhere(journal) ? " of another pid namespace" : "");
}

bool is_left_behind(const resident::Footprint& session, const image::Memory& memory) {
  if (session.mappings.empty()) return false;
  if (!session.journal) return session.damage.empty();
  const resident::Journal& journal = *session.journal;
  if (has_owner(journal) || std::ranges::any_of(session.others, has_owner)) return false;
  return is_waited_for(journal, memory) ||
         std::ranges::none_of(journal.windows, [&](const auto& one) { return is_in_place(one, memory); });
}

}  // namespace mdl::patch
