// A change of a session's requests while it runs.
//
// Some requests come and others go; the rest goes on, with exact values. The session gets a new generation of
// code: trampolines for all requests that it has now, for the same cells of the same blocks, and a journal of
// its own. All of this is staged while the program runs. Then one stop takes the old code out and puts the
// new one in (commit.h); then the old one is unmapped. No thread runs between the two, so nothing is counted
// twice and nothing is missed; frames that are active count as entered for new flags and timers only. A table of
// keys is mapped for a request that comes, and unmapped with the old code when it goes.
//
// Where a punned jump leads is fixed by the program's own bytes, so both generations need the same pages for
// its stubs. Those pages stay mapped, and are written anew in that stop, while nothing leads there.
//
// An injector that is killed half-way leaves windows of one generation, of the other, or none; the journals of
// both lie there, and a removal goes by both (resident/footprint.h).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/stage.h"

namespace mdl::patch {

// The cells of the new binding, in terms of those that the session has.
struct Continuation {
  Successor successor;
  std::vector<bool> fresh;              // by new cell: it begins now
  std::vector<image::Range> cleared;    // words of blocks that belong to nobody any more
  std::vector<image::Range> begun;      // words of cells that begin now
  std::vector<uint32_t> begun_entries;  // offsets of those of them that are entries
  bool lowers = false;                  // flags or timers go
};

// `kept`: by the new binding's cells, which cell of the session each of them is. An error when there is no room.
Result<Continuation> continue_cells(const resident::Journal& session, const focus::Binding& binding,
                                    std::span<const std::optional<uint32_t>> kept);

// The program's memory as it would be without the session.
class OriginalMemory final : public image::Memory {
 public:
  // `live` and `session` outlive it.
  OriginalMemory(const image::Memory& live, const resident::Journal& session,
                 const std::vector<image::Mapping>& mappings);
  bool read(uint64_t address, std::span<std::byte> into) const override;

 private:
  const image::Memory& live_;
  std::vector<const resident::PatchedWindow*> windows_;  // by address
};

// The pages with stubs of the session, of those that are mapped still: its next code may have them.
std::vector<image::Range> stub_pages(const resident::Journal& session,
                                     const std::vector<image::Mapping>& mappings);

// What the caller of a change does for it.
struct ChangeSteps {
  // Asked between steps that take long, before anything is mapped: an error ends it.
  std::function<Result<void>()> goes_on;
  std::function<Result<void>()> check_coverage;  // as of Addition
  // While no thread runs: reads the last values of what goes, and takes what threads that have ended left
  // behind.
  std::function<Result<void>()> read_last;
};

// `input`: the new binding with its coverage of the original code. An error leaves the session as it was.
Result<Inserted> change(const InsertInput& input, const process::TargetMemory& memory,
                        const resident::Journal& session, const Continuation& cells,
                        const ChangeSteps& steps);

}  // namespace mdl::patch
