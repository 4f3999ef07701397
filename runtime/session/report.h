// Text for people: what was decided about a process, on standard error or for --list.
#pragma once

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/focus/inlined_calls.h"
#include "runtime/focus/request.h"
#include "runtime/patch/coverage.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/missed_exits.h"
#include "runtime/session/options.h"

namespace mdl::inject {

// --dry-run: what each request would get, sites by tactic, and every refusal with its bytes.
void print_coverage(std::FILE* out, const focus::Binding& binding, const patch::Coverage& coverage);
// The same, as a row of --format json.
nlohmann::ordered_json row_of(pid_t pid, const focus::Binding& binding, const patch::Coverage& coverage);
// Said on a terminal before the code of so many points is looked at: "" where that takes no two seconds.
std::string patience_text(size_t points);
// --explain, --dry-run: tail jumps at which flags fall and timers stop, though their functions go on.
void print_early_ends(std::FILE* out, const patch::Coverage& coverage);
// --explain: what each request became: its points, its constraints, names that are not there.
void print_binding(std::FILE* out, const plan::Plan& plan, const focus::Binding& binding);
// Each point that is refused, and why.
void print_refused(std::FILE* out, const patch::Coverage& coverage);
// Clones of what is measured that are not measured themselves (focus/clones.h).
void print_clones(std::FILE* out, const focus::Binding& binding, bool verbose);
// Functions that count as what is measured (focus/folded.h).
void print_folded(std::FILE* out, const focus::Binding& binding);
// Calls of it that are not counted (focus/inlined_calls.h).
void print_inlined(std::FILE* out, const std::vector<focus::InlinedCalls>& calls);
// The metrics that nobody has asked for by name, and that the process cannot have.
void print_left_out(std::FILE* out, pid_t pid, const focus::Binding& binding, bool verbose);
// "812 points in 41.0 ms, paused 0.6 ms": all stops together, and where these are long, the longest one.
std::string points_text(const patch::Inserted& inserted);
// "inserted 812 points in 41.0 ms, paused 0.6 ms (4 threads)", and warnings.
void print_inserted(const patch::Inserted& inserted, const patch::Coverage& coverage);
// --list: every function as it is named in a focus.
int print_functions(std::FILE* out, const image::Image& image, const std::string& glob,
                    std::string_view format = "");

// Functions whose exits were missed, or that seem to be active in coroutines, and the requests that are about them: on
// standard error.
void say_missed_exits(pid_t pid, const resident::Journal& journal, const patch::ExitCheck& check);

// --check: how many flags and timers were up, and what is known of them.
void print_check(std::FILE* out, const patch::ExitCheck& check);

// Breakpoints that a removal has found in its windows and left there, if any.
void say_breakpoints(pid_t pid, size_t windows);

}  // namespace mdl::inject
