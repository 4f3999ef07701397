// A focus resolved against a process: what its resources are there, and what $constraint
// means in code that is bound to one of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/focus/names.h"
#include "runtime/focus/request.h"

namespace mdl::focus {

struct Resource {
  std::vector<std::string> path;  // {"Code","app","work"}
  // Code: what the path names. Several functions may have one name: statics of different
  // files, overloads. They are one resource, true while any of them is active.
  std::vector<Module> modules;
  std::vector<Procedure> procedures;  // when the path names a function
  std::string text;                   // "/Code/app/work"
  bool fitted = false;                // one of those that a pattern stands for
  bool every = false;                 // all that there will be: /SyncObject/Message/*

  // The same for two paths that name the same thing.
  std::string identity() const;
};

struct ResolvedFocus {
  std::vector<Resource> resources;
  std::string text;       // canonical
  std::string code_text;  // the same without the thread: what code is needed for it
  std::vector<Resource> only =
      {};                        // of a metric by function: those that are asked for; empty: all that it has
  int64_t thread = kAllThreads;  // whose values are asked for; by the id that the process itself knows it by
};

// One focus, or one for each child when a resource ends in `*` or another pattern.
// Process and machine are checked against the process and then left out: they restrict nothing. So is a
// thread: values are kept by thread anyway.
// `await`: an object that the process does not have may come; until then it has no functions.
Result<std::vector<ResolvedFocus>> resolve(const Focus& focus, const Names& names, bool await = false);

// The name of the machine that this runs on: of /Machine, and $machine.
std::string host_name();

}  // namespace mdl::focus
