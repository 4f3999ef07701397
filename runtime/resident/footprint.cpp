#include "runtime/resident/footprint.h"

#include <algorithm>

namespace mdl::resident {
namespace {

constexpr uint64_t kMaxText = 256u << 20;  // of a journal

// The first of a session's files; the others have longer names.
bool may_hold_journal(const image::Mapping& mapping) {
  const std::string name = std::string("/memfd:") + kSessionName;
  return mapping.offset == 0 && (mapping.path == name || mapping.path.starts_with(name + " "));
}

// All that it says to be the session's is.
bool is_within(const Journal& journal, const std::vector<image::Range>& mappings) {
  const auto is_mapped = [&](const image::Range& range) {
    return std::any_of(mappings.begin(), mappings.end(), [&](const image::Range& mapping) {
      return range.start >= mapping.start && range.end <= mapping.end;
    });
  };
  return is_mapped(journal.data) && (!journal.news.end || is_mapped(journal.news)) &&
         std::all_of(journal.tables.begin(), journal.tables.end(),
                     [&](const JournalTable& table) { return is_mapped(table.at); });
}

}  // namespace

bool is_session_mapping(const image::Mapping& mapping) {
  return mapping.path.starts_with(std::string("/memfd:") + kSessionName);
}

Footprint find_footprint(const std::vector<image::Mapping>& mappings, const image::Memory& memory) {
  Footprint out;
  std::vector<Journal> extensions;
  for (const image::Mapping& mapping : mappings) {
    if (!is_session_mapping(mapping)) continue;
    out.mappings.push_back({mapping.start, mapping.end});
    uint64_t size = std::min(mapping.end - mapping.start, kMaxText);
    if (!may_hold_journal(mapping)) continue;
    std::vector<std::byte> bytes(size);
    if (!memory.read(mapping.start, bytes)) continue;
    auto journal = read_journal(bytes);
    if (!journal) {
      if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; }))
        out.damage = journal.error().text;
      continue;
    }
    journal->at = {mapping.start, mapping.end};
    if (journal->extension)
      extensions.push_back(std::move(*journal));
    else if (!out.journal)
      out.journal = std::move(*journal);
  }
  if (out.journal && !is_within(*out.journal, out.mappings))
    out.damage = "the journal names memory that is not the session's";
  if (!out.damage.empty()) {  // of the session, or of what was added to it: not all is known any more
    out.journal.reset();
    return out;
  }
  std::sort(extensions.begin(), extensions.end(),
            [](const Journal& a, const Journal& b) { return a.extension < b.extension; });
  for (const Journal& extension : extensions)
    if (out.journal) absorb(*out.journal, extension);
  return out;
}

}  // namespace mdl::resident
