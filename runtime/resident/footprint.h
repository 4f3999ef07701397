// The traces of a session in a process: mappings by their name, and the journal in them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/process/target_memory.h"
#include "runtime/resident/journal.h"

namespace mdl::resident {

using process::kSessionName;  // of the memfds

// Between two generations of a session (patch/change.h) both have their journals there, and windows hold what
// one or the other of them says, or the original code.
struct Footprint {
  std::vector<image::Range> mappings;  // all of the session, also without a valid journal
  std::optional<Journal> journal;      // none when it was never completed, or is damaged
  std::vector<Journal> others;         // of generations that have nothing in place, or less than it
  std::string damage;                  // what is wrong with one that is not empty
};
bool is_session_mapping(const image::Mapping& mapping);
std::vector<image::Range> session_mappings(const std::vector<image::Mapping>& mappings);
// `own`: what is known of a session (may be null). A journal with its head is not read.
Footprint find_footprint(const std::vector<image::Mapping>& mappings, const image::Memory& memory,
                         const Journal* own = nullptr);
// By address, the heads of all journals, and of what is to become one. Nobody writes them again, but for kJournalTaken,
// which is left out.
std::map<uint64_t, std::vector<std::byte>> journal_heads(const std::vector<image::Mapping>& mappings,
                                                         const image::Memory& memory);

}  // namespace mdl::resident
