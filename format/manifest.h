// The manifest of a plan: everything in plan.bin that is not machine code.
//
// A plan is an ELF relocatable object. Its .text holds the stencils, its symbols name
// them, its relocations are their holes, and the section below holds this manifest as
// JSON. Both sides share these shapes: compiler/ fills them (sema), backend/ writes
// them, runtime/ reads them. docs/plan-format.md describes the file byte by byte.
//
// Everything here is target independent and deterministic: no addresses, no paths, no
// times; a source position names a file by its ordinal on mdlc's command line.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/edition.h"
#include "format/kinds.h"

namespace mdl::format {

inline constexpr int kFormat = 1;     // the format this code writes
inline constexpr int kMinReader = 1;  // the oldest reader that can read what it writes

inline constexpr const char* kManifestSection = ".mdl.manifest";
// SHA-256 (32 bytes) over the whole file with these 32 bytes taken as zero.
inline constexpr const char* kChecksumSection = ".mdl.checksum";

// Reserved symbols: what a stencil's relocations may refer to. `<k>` is a decimal index.
inline constexpr const char* kCellSymbol = "mdl_cell_";    // + k: byte offset, in the thread block, of the
                                                           // k-th cell that StencilInfo::cells declares
inline constexpr const char* kConstSymbol = "mdl_const_";  // + k: the integer that StencilInfo::constants[k]
                                                           // has where the request is bound
// + k: of StencilInfo::symbols[k]. A function's address. A variable's address rounded down to 8, and how far
// the 8 bytes there are shifted left, then right (arithmetically), to yield the variable alone: a variable
// is an integer of 1, 2, 4 or 8 bytes that lies within 8 aligned ones, so that no load faults.
inline constexpr const char* kSymbolSymbol = "mdl_symbol_";
inline constexpr const char* kSymbolLeft = "mdl_symbol_left_";
inline constexpr const char* kSymbolRight = "mdl_symbol_right_";
inline constexpr const char* kRoutineSymbol = "mdl_routine_";   // + name: the resident routine's address
inline constexpr const char* kThreadSymbol = "mdl_thread";      // byte offset of the thread's id in its block
inline constexpr const char* kGuardSymbol = "mdl_guard";        // byte offset of the flag that a guard tests
inline constexpr const char* kNextSymbol = "mdl_next";          // the continuation: the first byte after the
                                                                // group of stencils that a guard protects
inline constexpr const char* kAnomalySymbol = "mdl_anomalies";  // byte offset of the block's anomaly counter
inline constexpr const char* kGuardStencil = "mdl.guard";       // the stencil's symbol that tests one guard

// Features that a reader must know to use a plan, besides those of points, cells and routines (kinds.h).
inline constexpr const char* kOtherFeatures[] = {
    "symbols",         "thread-id",     "named-arguments",   "value-types",        "metric-flags",
    "editions",        "focus",         "metric-keys",       "keyed-observations", "text-keys",
    "several-keys",    "function-keys", "several-text-keys", "object-keys",        "lock-keys",
    "descriptor-keys", "memory-keys",   "site-keys"};
// An unknown one is refused (exit status 4).
bool is_known_feature(std::string_view name);

struct Position {
  uint32_t file = 0;    // ordinal of the file on the command line
  uint32_t line = 0;    // from 1; 0 = no position
  uint32_t column = 0;  // from 1, in bytes
  bool operator==(const Position&) const = default;
};

// Binding-time expressions: evaluated by the injector when a request meets a process.
enum class ExprKind : uint8_t {
  string,      // text; a floating-point number is its shortest form, in lists likewise
  integer,     // number
  list,        // text: a resource list of the plan
  procedures,  // $procedures
  modules,     // $modules
  machine,     // $machine
  start,       // $start: a procedure list (main and thread start routines)
  exit,        // $exit: a procedure
  global_id,   // $globalId
  points,      // $points: each point that has code
  cost,        // $cost: what the code at the point is predicted to take
  variable,    // text: the variable of an enclosing foreach
  selected,    // number: $constraint[n], 0 = the most specific component
  field,       // text of operands[0]: name, entry, return, calls, funcs, loops, blocks, ...
  binary,      // text is the operator: == != < <= > >= && || + - * / % & | ^ << >>
  unary,       // text is the operator: - ! ~
  parameter,   // of the function at the point operands[0], called at a call: text is a parameter's name,
               // number a ParameterFact
  value_type,  // of `text`, $arg[n] or $return, at the point operands[0]: number is mask or sign,
               // ParameterFact; -1 and 0 where its type is not known
};

// The facts that debug information gives of `$args.name`, `$arg[n]` or `$return` when a request is bound. A
// value that is narrower than its register is ((register & mask) ^ sign) - sign.
enum class ParameterFact : uint8_t {
  place,  // n, where it is $arg[n]; -1 where that is not known, which is no error in a condition
  mask,   // of the bits that are its own
  sign,   // its sign bit; 0 for one without sign and for one of 64 bits
};
inline constexpr int64_t kParameterFacts = 3;

struct Expr {
  ExprKind kind = ExprKind::integer;
  std::string text;
  int64_t number = 0;
  std::vector<Expr> operands;
  Position position;
  bool operator==(const Expr&) const = default;
};

enum class PlacementKind : uint8_t { block, foreach_, if_, insert };
enum class Order : uint8_t { append, prepend };
enum class When : uint8_t { pre, post };  // preInsn, postInsn

// A placement tree: the statements of a base or a constraint, less their code.
struct Placement {
  PlacementKind kind = PlacementKind::block;
  std::string variable;         // foreach_: the variable's name
  Expr expr;                    // foreach_: the list; if_: the condition; insert: the point
  std::vector<Placement> body;  // block, foreach_, if_
  Order order = Order::append;  // insert
  When when = When::pre;        // insert
  bool constrained = false;     // insert: runs only when every selected constraint's flag is not 0
  uint32_t stencil = 0;         // insert: index into Manifest::stencils
  Position position;
  bool operator==(const Placement&) const = default;
};

// A value kept per thread. `name` is how stencils refer to it (StencilInfo::cells).
struct Cell {
  std::string name;
  CellKind kind = CellKind::counter;
  std::string event = {};  // of an event timer or counter: its name in kinds.h
  bool operator==(const Cell&) const = default;
};

struct ResourceList {
  std::string name;
  std::string type;  // procedure module string int float
  std::vector<std::string> items;
  std::vector<std::string> flavors;
  bool library = false;
  Position position;
  bool operator==(const ResourceList&) const = default;
};

// A named constraint. Its flag is the first of `cells` and has the constraint's name.
struct Constraint {
  std::string name;
  std::vector<std::string> path;  // {"Code","*","*"}: the hierarchy, then one entry a component
  bool is_default = false;        // valid for the hierarchy, no code needed
  bool replaces = false;          // in-line: replaces the metric's base when selected
  std::vector<Cell> cells;
  std::vector<Placement> placement;
  Position position = {};
  // The same for all resources at once, where the resource is a number (compiler/passes/keyed_constraints.h):
  // code that leaves a key and a KeyChange in the two key_cells. Or the reason why there is none.
  std::vector<Cell> key_cells = {};
  std::vector<Placement> key_placement = {};
  std::string not_keyed = {};
  bool operator==(const Constraint&) const = default;
};

// What tells the values of a metric by key apart: the counter that holds it at a hit, and how it is shown.
struct MetricKey {
  std::string cell;
  KeyName name = KeyName::number;
  bool operator==(const MetricKey&) const = default;
};

// A metric. Its value is the first of `cells` and has the metric's identifier; the
// others are its temporaries.
struct Metric {
  std::string id;
  std::string name;        // display name
  std::string units;       // "Calls", ...
  std::string units_type;  // normalized unnormalized sampled
  std::string style;       // EventCounter SampledFunction
  std::string mode;        // developer normal
  Aggregate aggregate = Aggregate::sum;
  std::vector<std::string> flavors;
  std::string focus;                     // of requests that name none; "" = the whole program
  std::vector<std::string> constraints;  // names of Manifest::constraints, in the metric's order
  std::vector<Constraint> replacements;  // in-line constraints
  std::vector<Cell> cells;
  // Its value, of the kind `keyed`, is kept for each key. Code that changes it leaves the key in one of `cells`, what it
  // adds or observes in the first, and in the cell `key_change` the KeyChange of that kind.
  std::vector<MetricKey> keys = {};
  CellKind keyed = CellKind::counter;
  std::string key_change = {};
  std::vector<Placement> placement;
  // The count of a request while a flag was up is the growth of one that runs unconstrained: each piece of
  // the base is `constrained` and only adds to the value what reads no cell, or, of a timer, only starts or
  // stops it with the frames that raise and lower flags (compiler/passes/vectorize.h finds it out).
  bool additive = false;
  Position position;
  bool operator==(const Metric&) const = default;
};

// How many keys are texts (is_text).
uint64_t text_keys(const Metric& metric);
uint64_t text_keys(const std::vector<KeyName>& names);
std::vector<KeyName> texts_of(
    const std::vector<KeyName>& names);  // these, in the order in which they come in memory
// Which key comes when in memory: texts first, and else in their own order.
std::vector<size_t> order_of_keys(const std::vector<KeyName>& names);

struct Exclude {
  std::string pattern;
  bool regex = false;
  bool no_case = false;
  bool operator==(const Exclude&) const = default;
};

// A program that `mdl-inject --run` starts when it is given no command: `process ID { ... }`, what its
// daemon says where it says nothing itself.
struct ProcessDefinition {
  std::string name;
  std::string command;    // split at white space
  std::string directory;  // to start it in; "" = where mdl-inject is
  std::string flavor;     // "" = the default
  Position position;
  bool operator==(const ProcessDefinition&) const = default;
};

// A default of mdl-inject; it knows samplingRate (seconds between samples) and maxKeys. Booleans are 0 or 1.
struct Tunable {
  std::string name;
  double value = 0;
  bool operator==(const Tunable&) const = default;
};

// The kinds of things in the application that a stencil refers to.
enum class SymbolKind : uint8_t { variable, function };
struct SymbolUse {
  std::string name;  // as the user wrote it
  SymbolKind kind = SymbolKind::variable;
  bool operator==(const SymbolUse&) const = default;
};

struct CellUse {
  std::string name;  // a cell of the owner (metric or constraint)
  CellKind kind = CellKind::counter;
  bool reads = false;
  bool writes = false;
  bool starts = false;  // of a timer: the code starts it (it may also stop it)
  bool operator==(const CellUse&) const = default;
};

// The facts that the injector must know of a stencil besides its code and holes. On entry to a stencil the
// target's block register holds the thread block; the stencil leaves it there.
struct StencilInfo {
  std::string name;  // the ELF symbol: <owner>_<point>, made unique by a suffix .2, .3, ...
  PointKind point = PointKind::entry;
  std::vector<CellUse> cells;
  std::vector<std::string> clobbers;  // registers written besides the target's two lookup registers
  bool writes_flags = false;
  bool uses_result = false;     // reads $return: has no meaning at a tail jump, where nothing is returned yet
  bool only_notes = false;      // changes nothing but what is known of blocks of the heap (KeyChange::note)
  std::vector<Expr> constants;  // integers known when the request is bound; a function means its address
  std::vector<SymbolUse> symbols;
  std::vector<Routine> routines;  // that it calls, each once
  uint32_t instructions = 0;      // on the longest path
  uint32_t cycles = 0;            // predicted for Manifest::cpu, in hundredths: what one more execution takes
  uint32_t routine_ns = 0;        // besides: what the routines on that path take (MDL_ROUTINES)
  Position position;
  bool operator==(const StencilInfo&) const = default;
};

struct Manifest {
  std::string target;                 // "x86_64", ...
  std::string cpu;                    // that StencilInfo::cycles was predicted for
  std::vector<std::string> features;  // sorted
  std::vector<ResourceList> lists;
  std::vector<Constraint> constraints;
  std::vector<Metric> metrics;
  std::vector<Placement> statements;  // top-level: belong to no metric
  std::vector<Cell> statement_cells;  // for their calls: all that their code can do
  std::vector<Exclude> excludes;
  std::vector<ProcessDefinition> processes;
  std::vector<Tunable> tunables;
  std::vector<StencilInfo> stencils;
  Edition edition = {};
  bool operator==(const Manifest&) const = default;
};

// JSON text of the manifest: keys in a fixed order, one line, no trailing newline.
std::string write_manifest(const Manifest&);

// An expression alone, as the manifest holds it.
std::string write_expr(const Expr&);
Result<Expr> read_expr(const std::string& text);

// The inverse. The text is untrusted: every key is checked for presence, type, range and
// known enumerator; unknown keys are ignored (a newer writer's), an unknown feature, a
// newer min_reader and a reference to something not there are errors (plan_rejected).
Result<Manifest> read_manifest(const std::string& text);

}  // namespace mdl::format
