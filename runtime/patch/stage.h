// Staging: everything an insertion needs in the target, computed while it runs. map_stage.h puts it there.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/trampoline.h"

namespace mdl::patch {

struct StagedWindow {
  const FunctionPlan* function = nullptr;
  const Window* window = nullptr;
  Trampoline trampoline;
  std::vector<uint8_t> original;
  std::vector<uint8_t> patched;
  resident::PatchedWindow relay;  // of a short jump, in padding; nothing is in it for other windows
};

// Pages of the session's stubs that hold those of the next code. They are written while no thread runs and the
// original code is in place.
struct ReusedStubs {
  image::Range at;
  arch::Bytes before, after;  // what is there, read when the stage is written, and what will be
};

// That is to be mapped for a request.
struct NewTable {
  image::Range at;
  resident::KeyTableHeaders headers;
};

struct Stage {
  resident::Layout layout;
  image::Range data;
  image::Range news;  // empty where forks are not followed
  image::Range journal_at;
  image::Range armed;                    // the areas of armed calls, empty when there are none
  bool new_armed = false;                // which nobody has yet
  std::vector<image::Range> tables;      // of keys, as Binding::key_tables
  std::vector<NewTable> new_tables;      // those of them that are not there yet
  std::vector<image::Range> islands;     // that are mapped for it
  std::vector<arch::Bytes> island_code;  // the resident code, then the trampolines
  std::vector<ReusedStubs> reused;       // of a change (change.h)
  std::vector<StagedWindow> windows;     // by address
  resident::Journal journal;
  std::map<const image::Function*, uint32_t> functions;  // indices into Journal::functions
  std::vector<uint64_t> session_relays;                  // of the session that is extended
  bool entered = false;                                  // threads may be inside, or come there
  bool code_written = false;                             // some of the windows are in place, or may be
  bool extends = false;  // a session that is there: islands, a journal of their own and some tables are new
};

// The next code of a session (change.h): cells and key tables that it has are where threads have them.
struct Successor {
  resident::Layout layout;  // of the binding's cells
  // As Binding::key_tables; none where a request comes that needs one.
  std::vector<std::optional<resident::JournalTable>> tables;
  std::vector<image::Range> stubs;  // pages of the session that stubs may have
};

// The windows of these functions are not staged any more, and are refused, each for its reason; likewise
// those of functions that rely on them.
void give_up(Stage& stage, Coverage& coverage, std::map<const FunctionPlan*, std::string> reasons);

// Chooses addresses in the gaps of `mappings`, `apart` bytes from what is mapped where there is
// room, and builds all code for them.
// `session`: null, or what is to be extended; its data and layout are used then. `successor`: null, or what
// replaces all code of the session.
Result<Stage> build_stage(const InsertInput& input, const std::vector<image::Mapping>& mappings,
                          uint64_t apart, const resident::Journal* session = nullptr,
                          const Successor* successor = nullptr);

}  // namespace mdl::patch
