// The steps that an insertion and an extension have in common: stage, audit, map, write, commit.
//
// Where the addresses that a stage has chosen are taken before it is mapped, all of it is done again further
// away.
#pragma once

#include <functional>

#include "base/result.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/stage.h"

namespace mdl::patch {

// The addition to a process, besides InsertInput.
struct Addition {
  const resident::Journal* session = nullptr;  // what is extended; null: the session is new
  uint32_t number = 0;                         // Journal::extension
  // Asked with the mappings of each attempt; none: they are good.
  std::function<Result<void>(const std::vector<image::Mapping>&)> check = {};
  // Of a change (change.h): the session's next code, the program's memory as it is without a session, and
  // what the commit does with the stage.
  const Successor* successor = nullptr;
  const image::Memory* original = nullptr;
  std::function<Result<void>(Stage&)> commit = {};
  // Of a change: what may be lost by it, asked when all is known that is refused before the first stop.
  std::function<Result<void>()> check_coverage = {};
};

// The caller holds the lock. `out` gets all but the journal and the time that it took. Mappings stay after an
// error: then `take_back` is called, and says what failed. The stage that is committed.
Result<Stage> put_in(const InsertInput& input, const process::TargetMemory& memory, const Addition& addition,
                     Inserted& out, const std::function<Error(Stage&, const Error&)>& take_back);

}  // namespace mdl::patch
