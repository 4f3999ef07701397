// Which request takes most of the time that the instrumentation takes.
//
// Hits do not add up for each request; that would make them dearer. But each leaves behind whose it was, so
// looking again and again tells: what a thread's hits have taken between two looks is put down to the
// two requests that these saw, by halves. A look that comes late counts, too: they are late while the process
// computes and in time while it waits, so that else only what it does beside its work would be seen.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "runtime/image/memory.h"
#include "runtime/values/values.h"

namespace mdl::inject {

class DearestRequest {
 public:
  // Looks for some 20 ms.
  void watch(const values::Collector& values, const image::Memory& memory);
  // Index of the request; none where too little has been seen.
  std::optional<uint32_t> request() const;

 private:
  void look(const values::Collector& values, const image::Memory& memory);

  std::map<uint32_t, values::Collector::Hit> last_;  // by slot, when it was looked at last
  std::map<uint32_t, uint64_t> of_;                  // by request: what was taken, in ticks
  size_t seen_ = 0;                                  // how often something was
};

}  // namespace mdl::inject
