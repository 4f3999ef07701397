// What a table's keys have asked for, from when they are read to the next turn of the session, and what came for it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/output/formats.h"

namespace mdl::inject {

class Drills {
 public:
  void ask(output::Drill drill) { asked_.push_back(std::move(drill)); }
  bool any() const { return !asked_.empty(); }
  std::vector<output::Drill> take() { return std::exchange(asked_, {}); }

  std::map<output::Drill, std::vector<std::string>> open;  // the requests that came

 private:
  std::vector<output::Drill> asked_;
};

}  // namespace mdl::inject
