// The code of a session that is to be replaced: taken off its windows and put on again, while no thread runs.
//
// Windows go before the jumps that they lead to, and come after them. So whoever is killed in between leaves
// each window whole, with all that it needs. While they are off, nothing leads to the pages of the session's
// stubs, and nobody is inside: then the next code may write its own there.
#pragma once

#include <vector>

#include "base/result.h"
#include "runtime/process/target_memory.h"
#include "runtime/resident/journal.h"

namespace mdl::patch {

class OldCode {
 public:
  // Both outlive it.
  OldCode(const resident::Journal& session, const process::TargetMemory& memory)
      : session_(session), memory_(memory) {}

  // Where a thread is inside of it: `mapped` for it, and its jumps elsewhere.
  std::vector<image::Range> code(std::vector<image::Range> mapped) const;

  // The original bytes; after an error the old code is there as before, or Status::left_inert.
  Result<void> take_off(const std::vector<image::Mapping>& mappings) const;
  Result<void> put_on(const std::vector<image::Mapping>& mappings) const;

 private:
  enum class Way { off, on };
  bool edit(resident::PatchedWindow::Part part, Way way, const std::vector<image::Mapping>& mappings) const;

  const resident::Journal& session_;
  const process::TargetMemory& memory_;
};

}  // namespace mdl::patch
