// The bytes of a plan, and what decides about it besides its contents. All of that is read while mdl-inject may open files;
// the contents are parsed behind that, where it has no privileges any more (kernel/broker.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/program_output.h"
#include "base/result.h"
#include "format/signature.h"
#include "mdl-inject/options.h"
#include "runtime/plan/plan.h"

namespace mdl::inject {

struct PlanFile {
  std::string bytes;
  bool is_compiled = false;
  std::optional<RunningProgram> compiler;                  // whose output they are to be
  std::optional<std::vector<format::TrustedKey>> trusted;  // of --require-signed
};

// What the options name, or what their queries and sources are being compiled to (compile.h). Notes in them how messages
// name it, and whether it is a standard plan.
Result<PlanFile> open_plan_file(Options& options);
// Waits for its bytes where they are compiled.
Result<plan::Plan> parse_plan(PlanFile& file, Options& options);

// True for a plan of share/mdl/plans beside the program, where nobody but root and the user can change it. A
// plan is taken for its place and not for a digest in the program, because both come with one installation
// and each can be replaced without the other; who can write there could replace the program.
bool is_installed_plan(const std::string& path);

}  // namespace mdl::inject
