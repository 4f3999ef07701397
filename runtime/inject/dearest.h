// Which request takes most of the time that the instrumentation takes.
//
// Hits do not add up for each request; that would make them dearer. But each leaves behind whose it was, so
// looking again and again tells: what a thread's hits have taken between two looks that saw the same
// request is put down to it. Hits in long loops are dearest, and many pairs of looks see these.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "runtime/image/memory.h"
#include "runtime/values/values.h"

namespace mdl::inject {

class DearestRequest {
 public:
  void look(const values::Collector& values, const image::Memory& memory);
  // Index of the request; none where too few hits were seen.
  std::optional<uint32_t> request() const;

 private:
  std::map<uint32_t, values::Collector::Hit> last_;  // by slot, when it was looked at last
  std::map<uint32_t, uint64_t> of_;                  // by request
  size_t seen_ = 0;
};

}  // namespace mdl::inject
