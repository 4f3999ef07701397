// The lines of requests such as /Message/*: one for each key that was seen, and one for what found no room.
#pragma once

#include <cstdio>
#include <map>
#include <optional>
#include <vector>

#include "runtime/output/writer.h"
#include "runtime/patch/journal.h"
#include "runtime/values/keys.h"
#include "runtime/values/sampler.h"

namespace mdl::inject {

class KeyRows {
 public:
  KeyRows(const patch::Journal& journal, const values::BlockLayout& layout);

  // Reads the keys as they are now. What cannot be read keeps its last values.
  void read(const image::Memory& memory);
  // Appends the rows of the request, with the differences to the rows before. `like` has all else; `threads`
  // is how many the metric is folded over.
  void append(size_t request, const output::Row& like, int64_t threads, double elapsed_s,
              std::vector<output::Row>& rows);
  // How often a thread had more active keys than it can keep.
  uint64_t more() const;

 private:
  struct Table {
    size_t request;
    values::KeyReader reader;
    format::Aggregate aggregate = format::Aggregate::sum;
    int64_t thread = focus::kAllThreads;       // as in focus::BoundRequest
    std::map<values::KeyOf, int64_t> written;  // the values of the rows before
    int64_t others_written = 0;
    std::optional<double> written_at = std::nullopt;
  };
  std::vector<Table> tables_;
};

}  // namespace mdl::inject
