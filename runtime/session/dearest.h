// Which request takes most of the time that the instrumentation takes.
//
// Hits do not add up for each request; that would make them dearer. But each leaves behind whose it was, so
// looking again and again tells: what a thread's hits have taken between two looks is put down to the request that both
// saw. Where they saw two, many others may have been between them: a look is late while the process computes, and comes
// when it waits, behind another function. Of requests whose hits alternate, looks agree on the most frequent one most
// often.
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
