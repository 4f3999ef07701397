#include "runtime/patch/transaction.h"

#include <chrono>
#include <iterator>

#include "base/phases.h"
#include "runtime/patch/commit.h"
#include "runtime/patch/map_stage.h"
#include "runtime/patch/stage_audit.h"

namespace mdl::patch {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

// The bytes that are kept free around our mappings, by attempt. The kernel maps the next thread's stack
// beside the lowest mapping, so in a program that starts threads all the time a near gap is soon taken.
constexpr uint64_t kAparts[] = {kApart,          kApart,           16 * kMegabyte,  64 * kMegabyte,
                                256 * kMegabyte, 512 * kMegabyte,  640 * kMegabyte, 192 * kMegabyte,
                                896 * kMegabyte, 1280 * kMegabyte, kApart};
// A program may map and unmap gigabytes all the time: then more places are tried. On a busy machine 20 s were not enough
// for one attach of fifty to four such threads.
constexpr std::chrono::seconds kPlacing{60};

uint64_t apart_of(size_t attempt) {
  if (attempt < std::size(kAparts)) return kAparts[attempt];
  constexpr uint64_t kStep = 137, kMost = 1280;  // they have no common divisor: all over the reach of a jump
  return (1 + attempt * kStep % kMost) * kMegabyte;
}

}  // namespace

Result<Stage> put_in(const InsertInput& input, const process::TargetMemory& memory, const Addition& addition,
                     Inserted& out, const std::function<Error(Stage&, const Error&)>& take_back) {
  const auto until = std::chrono::steady_clock::now() + kPlacing;
  for (size_t attempt = 0;; attempt++) {
    phases::begin("layout");
    auto mappings = image::read_maps(input.image.pid);
    if (!mappings) return mappings.error();
    if (addition.check)
      if (auto ok = addition.check(*mappings); !ok) return ok.error();
    auto stage = build_stage(input, *mappings, apart_of(attempt), addition.session, addition.successor);
    if (!stage) return stage.error();
    stage->journal.extension = addition.number;
    phases::begin("audit");
    auto refused = audit_stage(input, addition.original ? *addition.original : memory, *stage);
    if (!refused) return refused.error();
    if (*refused) {  // of a library that is being unloaded, the audit sees but a part
      // What a change replaces is not the code that its audit is about.
      if (!addition.successor) {
        mappings = image::read_maps(input.image.pid);
        if (!mappings) return mappings.error();
        if (auto ok = check_unchanged(input, memory, *stage, *mappings); !ok) return ok.error();
      }
      out.warnings.push_back(audit_warning(*refused));
    }
    if (addition.check_coverage)
      if (auto ok = addition.check_coverage(); !ok) return ok.error();
    phases::begin("insertion");
    bool taken = false;
    if (auto ok = map_stage(input, memory, *stage, addition.session, taken, out.paused); !ok) {
      const bool may_try = attempt + 1 < std::size(kAparts) || std::chrono::steady_clock::now() < until;
      if (taken && may_try) continue;
      return ok.error();
    }
    Result<void> done = write_stage(memory, *stage);
    if (done) done = addition.commit ? addition.commit(*stage) : commit(input, memory, *stage, out);
    if (!done) return take_back(*stage, done.error());
    return stage;
  }
}

}  // namespace mdl::patch
