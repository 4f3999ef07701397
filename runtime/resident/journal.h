// The journal: a record in the target of all that was done to it, from which any later
// mdl-inject can report the values, or finish the removal, of an injector that died.
//
// It lies at offset 0 of the session's memory (a memfd called mdl-session) in a mapping that
// the target cannot write: its head (magic, format version, length, SHA-256), then a record of each
// window, and JSON. The head is written last, before the first byte of code changes: a session
// without one has changed none. Its bytes come from the target and are not trusted.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/manifest.h"
#include "runtime/image/image.h"
#include "runtime/resident/key_table.h"
#include "runtime/resident/layout.h"

namespace mdl::resident {

inline constexpr uint32_t kJournalVersion = 17;
// Of a generation that is not the first: whoever does not know of these takes one for all there is.
inline constexpr uint32_t kJournalOfGenerations = 18;

struct PatchedWindow {
  uint64_t address = 0;
  std::vector<uint8_t> original;
  std::vector<uint8_t> patched;
  uint64_t points = 0;  // that it holds
  // Its kind, in the order in which the parts are written; they are put back the other way round (relay.h).
  enum class Part : uint8_t {
    relay,   // a jump in padding to which a short one of another window leads
    host,    // a jump, and behind it jumps to which short ones lead
    window,  // anything else
  };
  Part part = Part::window;
};

// A jump in the place of code to which only short jumps of ours lead: what is known of the code there (its
// call frame information) tells nothing of a thread that is about to execute it.
struct Relay {
  uint64_t at = 0;
  uint64_t target = 0;
};
// Those of a relay or a host, by address.
std::vector<Relay> relays_of(const PatchedWindow& window);
// Where all of them lie, sorted.
std::vector<uint64_t> relay_places(const std::vector<PatchedWindow>& windows);

// A file whose code is patched, and where: whether an address still holds it is told by its device and inode.
struct PatchedFile {
  image::Range at;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t offset = 0;  // in the file, of what is at the range's start
};

struct JournalRequest {
  std::string metric, focus, name, units;
  format::Aggregate aggregate = format::Aggregate::sum;
  uint32_t value = 0;     // index into Layout::cells
  uint64_t refused = 0;   // of a child: besides its vector's
  uint32_t children = 0;  // as in focus::BoundRequest
  uint32_t of = focus::BoundRequest::kNone;
  format::Event event = format::Event::minor_faults;  // of an event timer
  int64_t thread = focus::kAllThreads;                // as in focus::BoundRequest
  bool keyed = false;
  uint64_t early = 0;    // as Coverage::early_of; of a child: besides its vector's
  bool sampled = false;  // unitsType sampled: its values are levels
  // Nothing that was inserted writes its value, or a flag that it waits for; and there is what should (patch/reach.h).
  bool hollow = false, lost = false;
};
// A level may fall: the sum over threads of what is not sampled only grows.
inline bool is_level(const JournalRequest& request) {
  return request.sampled || request.aggregate != format::Aggregate::sum;
}

// A function that raises flags or starts timers.
struct JournalFunction {
  std::string name;                // as in a focus: /Code/OBJECT/FUNCTION
  std::vector<image::Range> code;  // all of it
};

// A flag or timer, and the functions that raise it and lower it (raised_cells.h).
struct RaisedCell {
  focus::CellId cell = 0;
  // Each change of it is at the entry or an exit of one of these, or before or after its calls: it is up for
  // a frame, whose return address lies where its second word says.
  bool tied = true;
  bool moves = false;               // some of them leave by jumps: their frame may be another function's then
  std::vector<uint32_t> functions;  // indices into Journal::functions, sorted
  std::vector<uint32_t> requests;   // that it is wrong for when it is wrong, likewise into Journal::requests
  // Its words of anomalies: the first of as many as it has functions at the attach; 0 = they have none.
  uint32_t words = 0, words_end = 0;
};

struct JournalTable {  // resident/key_table.h
  image::Range at;
  uint64_t most = 0;
  uint32_t request = 0;         // index of a keyed one
  uint32_t keys = 0, base = 0;  // offsets in a block
  bool by_thread = false;
  std::vector<format::KeyName> names = {};            // of a metric by key: how its keys are shown,
  format::CellKind kind = format::CellKind::counter;  // and what it keeps for each

  KeyTableShape shape() const { return KeyTableShape::of(most, kind, names); }
};

struct Journal {
  pid_t owner = 0;           // the injector
  uint64_t owner_start = 0;  // its start time: a reused pid is another process
  uint64_t owner_space = 0;  // the pid namespace in which `owner` and `target` are its ids; 0 = not known
  pid_t target = 0;
  int64_t started_ns = 0;          // CLOCK_REALTIME
  uint64_t ticks_per_second = 0;   // of wall timers; 0 = there are none
  std::string plan;                // hex SHA-256 of the plan's file
  uint64_t points = 0;             // inserted
  std::vector<image::Range> code;  // islands, and the journal itself
  image::Range data;
  image::Range news;  // empty where forks are not followed (layout.h)
  Layout layout;
  std::vector<format::CellKind> kinds;  // of Layout::cells
  std::vector<JournalRequest> requests;
  std::vector<JournalTable> tables;
  std::vector<PatchedWindow> windows;
  std::vector<PatchedFile> files;
  std::vector<JournalFunction> functions;
  std::vector<RaisedCell> raised;  // by cell
  uint32_t extension = 0;          // what was added to the session for libraries that came later: 1, 2, ...
  // How often requests have come or gone (patch/change.h); of an extension: its session's.
  uint32_t generation = 0;
  // Not in its text: where it lies, and its first bytes there, which no other one has; Stage::armed; pages with
  // stubs of punned jumps; TailScope::ends.
  image::Range at;
  std::vector<std::byte> head;
  image::Range armed;
  std::vector<image::Range> stubs;
  std::set<uint64_t> ends_deferred;

  // Points that a request wanted and does not have.
  uint64_t refused_of(size_t request) const {
    const JournalRequest& r = requests[request];
    return r.refused + (r.of == focus::BoundRequest::kNone ? 0 : requests[r.of].refused);
  }
  // What it is about is there, and not measured: its value is not known, and not 0.
  bool is_unknown(size_t request) const {
    const JournalRequest& r = requests[request];
    return r.hollow && (r.lost || (r.of != focus::BoundRequest::kNone && is_unknown(r.of)));
  }
  // Some of its flags or timers end at tail jumps, before their functions do.
  bool ends_early(size_t request) const {
    const JournalRequest& r = requests[request];
    return r.early || (r.of != focus::BoundRequest::kNone && requests[r.of].early);
  }
};

// When it began: 2026-01-31 12:00:00 UTC.
std::string began_text(const Journal& journal);
// METRIC@FOCUS, METRIC and 5 more: not more than so many by their names.
std::string requests_text(const Journal& journal, size_t most);

// Adds what an extension changed. Windows of what was mapped at its places before are gone.
void absorb(Journal& session, const Journal& extension);
// False where it names cells or requests that it does not have: it was forged.
bool is_sound(const Journal& journal);
// The files at these places now; an address whose file is another one by now is not to be written to.
std::vector<PatchedFile> files_at(const std::vector<image::Mapping>& mappings,
                                  const std::vector<PatchedWindow>& windows);
// The files that windows are in, among what is mapped now.
class FilePlaces {
 public:
  FilePlaces(std::vector<PatchedFile> files, const std::vector<image::Mapping>& mappings);
  bool is_still_there(uint64_t address) const;
  // Code of another mapping by now, but with our jump, of a file that is still mapped elsewhere: the program
  // has copied its code there.
  bool is_copied(const PatchedWindow& window, const image::Memory& memory) const;
  // Whether code of ours may be at the window's address: one of the two.
  bool may_be_at(const PatchedWindow& window, const image::Memory& memory) const {
    return is_still_there(window.address) || is_copied(window, memory);
  }
  // A mapping of the file that was at this address; null where there is none.
  const image::Mapping* any_mapping_of(uint64_t address) const;

 private:
  struct Place {
    PatchedFile file;
    const image::Mapping* mapping = nullptr;  // one of the file's
  };
  const Place* place_of(uint64_t address) const;

  const std::vector<image::Mapping>& mappings_;  // which must outlive this
  std::vector<Place> places_;                    // by address
};

// The bytes as they lie in the target.
std::vector<std::byte> write_journal(const Journal& journal);
inline constexpr size_t kJournalHead = 56;  // of them, what Journal::head holds
// u32 in the head, 0 at first: somebody else has put the original code back, and could not give back all
// memory. Then it is not in its place for who measures.
inline constexpr uint64_t kJournalTaken = 12;
// True while it lies there.
bool is_in_place(const Journal& journal, const image::Memory& memory);
// A journal's bytes without the rest of its mapping, and what all journals of a process may have together. They
// are many times what a large session has: one with a window at each entry and return of node (30 MB of code)
// has 180,000 windows in 10 MB.
struct JournalBudget {
  uint64_t bytes = uint64_t{32} << 20;
  size_t values = 2'500'000;
};
inline constexpr size_t kJournalWindow = 56;  // bytes of a window
inline constexpr size_t kMostWindows =
    JournalBudget().bytes / kJournalWindow;  // of one that may be read again
// Whether a new one fits into the budget.
bool is_readable(std::span<const std::byte> journal);
// Checks everything; ranges must not overflow and windows must be no longer than 16 bytes. `budget` is less by
// what was read.
Result<Journal> read_journal(std::span<const std::byte> bytes, JournalBudget& budget);
Result<Journal> read_journal(std::span<const std::byte> bytes);
// How long a journal is by its head, which is all that is looked at; an error where it is none of this version.
Result<uint64_t> journal_size(std::span<const std::byte> head);

}  // namespace mdl::resident
