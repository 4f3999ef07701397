// A request is a metric at a focus; binding it to a process yields what code goes where.
//
// bind() evaluates placement trees against an image: names to functions, conditions to
// decisions, cells to slots of the thread block. Its result is target independent and
// deterministic: snippets at points, in the order in which they must run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/image/codes.h"
#include "runtime/image/image.h"
#include "runtime/plan/plan.h"

namespace mdl::focus {

// One resource per hierarchy: {"Code","redis-server","call"} is /Code/redis-server/call.
struct Focus {
  std::vector<std::vector<std::string>> resources;
  std::string text;  // canonical: "" for the whole program, else resources joined by ','
};

Result<Focus> parse_focus(const std::string& text);

struct RequestText {  // METRIC[@FOCUS] as typed
  std::string metric;
  std::string focus;
};
RequestText split_request(const std::string& text);

// A cell of the thread block. Cells are shared where they mean the same: one flag per
// (constraint, resource), one value per (metric, focus).
using CellId = uint32_t;

struct CellSlot {
  format::CellKind kind = format::CellKind::counter;
  std::string label;  // for --status and --explain: "procedure_calls@/Code/app/work", "procedure@..."
  format::Event event = format::Event::minor_faults;  // of an event timer or counter
};

// A child of a request with `*` (runtime/focus/bind_children.h): while `flag` is up, `span` grows as `base`
// does.
struct TrackedCells {
  CellId flag = 0;
  CellId span = 0;
  CellId base = 0;
};

// A request such as /Message/*: the counters in which its constraint's code leaves what to do (manifest.h,
// Constraint::key_cells), the thread's active keys, and the base whose growth is each key's.
struct KeyTable {
  uint32_t request = 0;
  std::vector<CellId> of;  // the keys, one at least; a text is the first
  CellId change = 0;
  CellId keys = 0;
  CellId base = 0;
  bool by_thread = false;  // the growth of each key is kept for each thread
  // Of a metric by key (format::Metric::keys), which no constraint has a part in: a hit adds what the base's cell
  // holds to the total of the key. No key is active then.
  bool adds = false;
  std::vector<format::KeyName> names = {};            // of each key, in the metric's order
  std::optional<CellId> caller = {};                  // the key that is the return address
  format::CellKind kind = format::CellKind::counter;  // what is kept for each

  bool has_sites() const { return std::ranges::find(names, format::KeyName::site) != names.end(); }
};

// One stencil at one point, with what its holes refer to.
struct BoundSnippet {
  uint32_t stencil = 0;                   // index into Plan::stencils
  std::vector<CellId> cells;              // for StencilInfo::cells
  std::vector<CellId> guards;             // flags that must all be non-zero
  std::vector<int64_t> constants;         // for StencilInfo::constants
  std::vector<uint32_t> requests;         // indices of the requests that need it
  std::vector<TrackedCells> tracks = {};  // of the flag that it writes: what is to be done behind it
  static constexpr uint32_t kNoTable = UINT32_MAX;
  uint32_t keys = kNoTable;                 // index into Binding::key_tables: whose keys it changes,
  std::vector<format::KeyName> texts = {};  // of which these are texts that are made behind it
  std::string obstacle = {};                // why it is refused here, "" = it is not
};

struct BoundPoint {
  const image::Object* object = nullptr;
  const image::Function* function = nullptr;
  format::PointKind kind = format::PointKind::entry;
  // Which of the function's points of this kind: the address of the call, of the block's first instruction,
  // of the loop's head. 0 at an entry and a return (= all exits), and where the function's code is not
  // understood.
  uint64_t place = 0;
  std::vector<BoundSnippet> snippets;  // in execution order
};

// Entry and return of `function` must both be patched or neither (decision 6), because
// `flag` is raised at one and lowered at the other (or is a timer that is started and stopped); and threads
// that are inside the function when it is patched start with the flag raised once per active frame.
// `of_calls`: the same of the function's calls, where it is raised before and lowered after them.
struct Balance {
  const image::Function* function = nullptr;
  CellId flag = 0;
  bool of_calls = false;
  std::vector<uint32_t> requests;
};

// The threads whose values a request asks for: one thread's id, or one of these.
inline constexpr int64_t kAllThreads = 0;   // of all, combined
inline constexpr int64_t kEachThread = -1;  // of each, on its own

// The focus of one thread, of a focus with /Thread/*.
std::string of_thread(const std::string& focus, uint64_t thread);

// METRIC, or METRIC@FOCUS where there is one; the focus alone where there is no metric.
std::string request_text(const std::string& metric, const std::string& focus);

struct BoundRequest {
  std::string metric;  // identifier
  std::string focus;   // canonical text
  const format::Metric* definition = nullptr;
  CellId value = 0;                  // the base's cell; a child's span
  std::vector<std::string> missing;  // listed names that the process does not have (--explain)
  // A request with `*` that one base answers: `children` follow it, each with `of` its index. It has no
  // line of its own in the output.
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t children = 0;
  uint32_t of = kNone;
  int64_t thread = kAllThreads;
  bool idle = false;   // conditions keep all code of it, or of a flag that it waits for, out: it counts 0
  bool keyed = false;  // one of Binding::key_tables is for it: a line for each key, none of its own
};

struct Binding {
  std::map<uint32_t, std::vector<plan::SymbolValue>> symbols;  // by stencil: for StencilInfo::symbols
  std::vector<CellSlot> cells;
  std::vector<BoundRequest> requests;
  std::vector<BoundPoint> points;  // at most one per (function, kind, place)
  std::vector<Balance> balances;
  std::vector<TrackedCells> tracks;  // all of them
  std::vector<KeyTable> key_tables;
  std::vector<std::string> lost =
      {};  // with BindOptions::again: why requests have no place any more, or never had
  // By the requests as they were asked for: why there is none (only with BindOptions::again or elsewhere); ""
  // = there is.
  std::vector<std::string> absent = {};
  std::vector<const image::Function*> clones =
      {};  // that have no code, though what they were made of has (clones.h)
  // Metrics that nobody has asked for by name, and that the process cannot have: why.
  std::map<std::string, std::string> left_out = {};
};

struct BindOptions {
  std::vector<std::string> metrics;  // METRIC[@FOCUS]; empty: every metric the process can have
  std::vector<std::string> foci;     // for metrics that name none; empty: their own, or the whole program
  std::string flavor;                // "" = unix
  bool allow_calls = false;          // into the application
  bool allow_reads = false;          // of memory, at addresses that code computes
  bool await = false;                // objects that are not there may come: such a focus is no error
  bool again = false;                // bound before: what has gone since is no error either
  bool elsewhere = false;            // other programs may have what this one does not: so nothing is no error
  bool may_come() const { return await || again || elsewhere; }
  std::vector<uint64_t> starts = {};  // addresses in the start routines of the process's threads: $start
  double ps_per_cycle = 0;            // of this machine, in picoseconds: $cost
  std::map<format::Routine, std::string> denied = {};  // what the process may not run, with the reason
  std::string denied_links = {};          // why it may not ask what a descriptor is open for; "" = it may
  std::vector<std::string> queries = {};  // metrics besides; all that they name must be there
  std::vector<std::string> spare = {};    // those that are bound only where `metrics` has them

  bool operator==(const BindOptions&) const = default;
};

// True when code is placed at $start: then BindOptions::starts is wanted.
bool uses_start(const format::Manifest& manifest);

// Errors: unknown metric (with a did-you-mean), a focus that is no path, a resource that
// the process does not have (did-you-mean), a hierarchy that the metric has no constraint
// for (names the constraint path that is missing). The result points into plan and image. `codes`:
// of the image; where there is none, calls, loops and blocks are an error.
Result<Binding> bind(const plan::Plan& plan, const image::Image& image, const BindOptions& options,
                     image::Codes* codes = nullptr);

}  // namespace mdl::focus
