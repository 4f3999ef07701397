#include "runtime/resident/footprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "runtime/arch/description.h"

namespace mdl::resident {
namespace {

// As the kernel shows a memfd: the name that it was created with, of a file that is in no folder.
std::string memfd_path(const char* suffix) {
  return fmt::format("/memfd:{}{} (deleted)", kSessionName, suffix);
}

// The first of a session's files.
bool may_hold_journal(const image::Mapping& mapping) {
  return mapping.offset == 0 && mapping.path == memfd_path("");
}

// All that it says to be the session's is. `mappings`: by address.
bool is_within(const Journal& journal, const std::vector<image::Range>& mappings) {
  const auto is_mapped = [&](const image::Range& range) {
    const auto after = std::ranges::upper_bound(mappings, range.start, {}, &image::Range::start);
    return after != mappings.begin() && range.end <= std::prev(after)->end;
  };
  return is_mapped(journal.data) && (!journal.news.end || is_mapped(journal.news)) &&
         std::all_of(journal.tables.begin(), journal.tables.end(),
                     [&](const JournalTable& table) { return is_mapped(table.at); });
}

// Reads the journals of one process.
class Journals {
 public:
  explicit Journals(const image::Memory& memory) : memory_(memory) {}

  // The one at the beginning of a mapping. Nothing where it was never begun, or cannot be read; `damage` where
  // what is there is none.
  std::optional<Journal> read(const image::Mapping& mapping, std::string& damage) {
    std::vector<std::byte> head(std::min(mapping.end - mapping.start, arch::kPage));
    if (!memory_.read(mapping.start, head)) return std::nullopt;
    if (std::ranges::all_of(head, [](std::byte b) { return b == std::byte{0}; })) return std::nullopt;
    auto journal = read(mapping, head);
    if (journal) return std::move(*journal);
    damage = journal.error().text;
    return std::nullopt;
  }

 private:
  Result<Journal> read(const image::Mapping& mapping, std::span<const std::byte> head) {
    // The program has asked for that: its own journal cannot be written, and is nobody else's.
    if (mapping.write || mapping.execute || mapping.shared)
      return Error{"the program has changed the access to the journal"};
    const Result<uint64_t> size = journal_size(head);
    if (!size) return size.error();
    if (*size > mapping.end - mapping.start) return Error{"the journal is truncated"};
    if (*size > budget_.bytes)
      return Error{fmt::format("its journals have more than {} MiB", JournalBudget().bytes >> 20)};
    std::vector<std::byte> bytes(*size);
    if (!memory_.read(mapping.start, bytes)) return Error{"the journal cannot be read"};
    auto journal = read_journal(bytes, budget_);
    if (journal) journal->at = {mapping.start, mapping.end};
    return journal;
  }

  const image::Memory& memory_;
  JournalBudget budget_;
};

}  // namespace

bool is_session_mapping(const image::Mapping& mapping) {
  return mapping.path == memfd_path("") || mapping.path == memfd_path("-more");
}

Footprint find_footprint(const std::vector<image::Mapping>& mappings, const image::Memory& memory) {
  Footprint out;
  std::vector<Journal> extensions;
  Journals journals(memory);
  for (const image::Mapping& mapping : mappings) {
    if (!is_session_mapping(mapping)) continue;
    out.mappings.push_back({mapping.start, mapping.end});
    // After the first that is none, not all is known any more, whatever the others say.
    if (!may_hold_journal(mapping) || !out.damage.empty()) continue;
    auto journal = journals.read(mapping, out.damage);
    if (!journal) continue;
    if (journal->extension)
      extensions.push_back(std::move(*journal));
    else if (!out.journal)
      out.journal = std::move(*journal);
    else
      out.damage = "there are two, and one of them is forged";
  }
  std::ranges::sort(extensions, {}, &Journal::extension);
  for (const Journal& extension : extensions)
    if (out.journal) absorb(*out.journal, extension);
  if (out.damage.empty() && out.journal && !is_within(*out.journal, out.mappings))
    out.damage = "the journal names memory that is not the session's";
  if (out.damage.empty() && out.journal && !is_sound(*out.journal))
    out.damage = "the journal names cells or requests that it does not have";
  if (!out.damage.empty()) out.journal.reset();
  return out;
}

}  // namespace mdl::resident
