// The lines of requests such as /Message/*: one for each key that was seen, and one for what found no room.
#pragma once

#include <cstdio>
#include <map>
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
  // Appends the rows of the request, with the differences to the rows before. `like` has all else.
  void append(size_t request, const output::Row& like, double elapsed_s, std::vector<output::Row>& rows);
  // How often a thread had more active keys than it can keep.
  uint64_t more() const;

 private:
  struct Table {
    size_t request;
    values::KeyReader reader;
    std::map<int64_t, int64_t> written;  // the totals of the rows before
    int64_t others_written = 0;
    double written_at = 0;
  };
  std::vector<Table> tables_;
};

}  // namespace mdl::inject
