#include "runtime/resident/footprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

namespace mdl::resident {
namespace {

// The first of a session's files.
bool may_hold_journal(const image::Mapping& mapping) {
  static const std::string path = process::session_path();
  return mapping.offset == 0 && mapping.path == path;
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
  Journals(const image::Memory& memory, const Journal* own) : memory_(memory), own_(own) {}

  // The one at the beginning of a mapping. Nothing where its head, which is written last, is not there, or cannot be
  // read; `damage` where what is there is none.
  std::optional<Journal> read(const image::Mapping& mapping, std::string& damage) {
    std::vector<std::byte> head(kJournalHead);
    if (!memory_.read(mapping.start, head)) return std::nullopt;
    if (std::ranges::all_of(head, [](std::byte b) { return b == std::byte{0}; })) return std::nullopt;
    if (own_ && own_->head == head) return *own_;
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
  const Journal* own_;
  JournalBudget budget_;
};

// Generations of one session lie in one process: each once, all with the same data.
bool are_generations(std::span<const Journal> sessions) {
  std::set<uint32_t> numbers;
  return std::ranges::all_of(sessions, [&](const Journal& one) {
    return numbers.insert(one.generation).second && one.data.start == sessions[0].data.start &&
           one.data.end == sessions[0].data.end && one.started_ns == sessions[0].started_ns;
  });
}

size_t windows_in_place(const Journal& journal, const image::Memory& memory) {
  return static_cast<size_t>(std::ranges::count_if(journal.windows, [&](const PatchedWindow& window) {
    std::vector<uint8_t> now(window.patched.size());
    return memory.read(window.address, std::as_writable_bytes(std::span(now))) && now == window.patched;
  }));
}

// The one that runs is the one whose windows are in place; the first one where none has any.
void choose(std::vector<Journal> sessions, const image::Memory& memory, Footprint& out) {
  std::ranges::sort(sessions, {}, &Journal::generation);
  size_t best = 0, most = 0;
  for (size_t i = 0; i < sessions.size() && sessions.size() > 1; i++)
    if (const size_t windows = windows_in_place(sessions[i], memory); windows > most)
      best = i, most = windows;
  for (size_t i = 0; i < sessions.size(); i++)
    if (i == best)
      out.journal = std::move(sessions[i]);
    else
      out.others.push_back(std::move(sessions[i]));
}

}  // namespace

bool is_session_mapping(const image::Mapping& mapping) {
  static const std::string first = process::session_path(), further = process::session_path("-more");
  return mapping.path == first || mapping.path == further;  // of thousands, while a process stands
}

std::vector<image::Range> session_mappings(const std::vector<image::Mapping>& mappings) {
  std::vector<image::Range> out;
  for (const image::Mapping& mapping : mappings)
    if (is_session_mapping(mapping)) out.push_back({mapping.start, mapping.end});
  return out;
}

Footprint find_footprint(const std::vector<image::Mapping>& mappings, const image::Memory& memory,
                         const Journal* own) {
  Footprint out;
  out.mappings = session_mappings(mappings);
  std::vector<Journal> extensions, sessions;
  Journals journals(memory, own);
  for (const image::Mapping& mapping : mappings) {
    // After the first that is none, not all is known any more, whatever the others say.
    if (!may_hold_journal(mapping) || !out.damage.empty()) continue;
    auto journal = journals.read(mapping, out.damage);
    if (!journal) continue;
    if (journal->extension)
      extensions.push_back(std::move(*journal));
    else
      sessions.push_back(std::move(*journal));
  }
  if (out.damage.empty() && !are_generations(sessions))
    out.damage = "there are two, and one of them is forged";
  std::ranges::sort(extensions, {}, &Journal::extension);
  for (const Journal& extension : extensions)
    for (Journal& session : sessions)
      if (session.generation == extension.generation) absorb(session, extension);
  for (const Journal& session : sessions) {
    if (out.damage.empty() && !is_within(session, out.mappings))
      out.damage = "the journal names memory that is not the session's";
    if (out.damage.empty() && !is_sound(session))
      out.damage = "the journal names cells or requests that it does not have";
  }
  if (out.damage.empty()) choose(std::move(sessions), memory, out);
  return out;
}

std::map<uint64_t, std::vector<std::byte>> journal_heads(const std::vector<image::Mapping>& mappings,
                                                         const image::Memory& memory) {
  std::map<uint64_t, std::vector<std::byte>> out;
  for (const image::Mapping& mapping : mappings) {
    if (!may_hold_journal(mapping)) continue;
    std::vector<std::byte>& head = out[mapping.start];
    head.resize(kJournalHead);
    if (!memory.read(mapping.start, head)) head.clear();
    if (!head.empty()) std::fill_n(head.begin() + kJournalTaken, sizeof(uint32_t), std::byte{0});
  }
  return out;
}

}  // namespace mdl::resident
