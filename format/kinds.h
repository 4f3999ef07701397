// The open tables of a plan: kinds of points and of cells, and how threads fold.
// A new kind is a new line here; the compiler, the plan and the injector read the same table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace mdl::format {

// Points: where code can go. `args`: $arg is meaningful; `result`: $return is; `feature`: what a
// reader of the plan must know. A loop's points are those of a natural loop: on the edges into its
// head from outside, on the edges out of it, at its head, and on the edges back to the head. `every` is no
// place of its own: code for each point that has code anyway ($points).
//
// `owner` and `field`: how it is named, as a member of a procedure or a loop; `many`: there is a list of them
// in a procedure. `rank`: which code comes first where several points meet at one instruction; what ends comes
// before what begins. `noun` is for messages.
//          enumerator   name             args   result  feature      owner      field  many  rank  noun
#define MDL_POINT_KINDS(X)                                                                                   \
  X(entry, "entry", true, false, "entry-return", procedure, "entry", false, 0, "an entry")                   \
  X(return_, "return", false, true, "entry-return", procedure, "return", false, 8, "a return")               \
  X(call_before, "call", true, false, "calls", procedure, "calls", true, 7, "a call")                        \
  X(call_after, "call_after", false, true, "calls", none, "", false, 1, "the return from a call")            \
  X(loop_enter, "loop_enter", false, false, "loops", loop, "enter", false, 4, "a point of a loop")           \
  X(loop_exit, "loop_exit", false, false, "loops", loop, "exit", false, 2, "a point of a loop")              \
  X(loop_start, "loop_start_iter", false, false, "loops", loop, "start_iter", false, 5, "a point of a loop") \
  X(loop_end, "loop_end_iter", false, false, "loops", loop, "end_iter", false, 3, "a point of a loop")       \
  X(block, "block", false, false, "blocks", procedure, "blocks", true, 6, "a block")                         \
  X(every, "every", false, false, "costs", none, "", false, 9, "$points")

enum class PointKind : uint8_t {
#define X(id, name, args, result, feature, owner, field, many, rank, noun) id,
  MDL_POINT_KINDS(X)
#undef X
};

inline constexpr size_t kPointKinds = static_cast<size_t>(PointKind::every) + 1;

enum class PointOwner : uint8_t { none, procedure, loop };

struct PointKindInfo {
  std::string_view name;
  bool args;
  bool result;
  std::string_view feature;
  PointOwner owner;
  std::string_view field;
  bool many;
  int rank;
  std::string_view noun;
};

// Resident routines: code of the injector that stencils call, because a stencil may do none of it
// itself (architecture, decision 9). In: the target's routine registers (backend/target.h); out: the
// scratch register. They keep all else but the condition flags, and the thread's block where it is. A routine
// that updates a cell has the cell's address in the register for that (backend/target.h). `nanoseconds` is
// what a call of one takes, which is the kernel's to say and not the pipeline's: as bench/cost measured it on
// the machine of docs/benchmarks.md. The first four are system calls, `read` two. `call` is without what the
// function itself takes: it saves and restores the extended registers (XSAVE), on that machine with AVX-512.
//          enumerator     name     feature         nanoseconds
#define MDL_ROUTINES(X)                                                                                   \
  X(cpu, "cpu", "timers", 240)              /* -> the thread's CPU time in ns, plus 2^56 */               \
  X(event, "event", "events", 190)          /* number of an event -> its count, plus 2^56 */              \
  X(now, "now", "wall-clock", 140)          /* -> CLOCK_MONOTONIC in ns */                                \
  X(error, "error", "errno", 1)             /* -> the thread's errno */                                   \
  X(read, "read", "read-address", 480)      /* address -> the 8 bytes there, 0 where nothing is mapped */ \
  X(call, "call", "calls-out", 130)         /* address of a call cell -> the function's result */         \
  X(observe, "observe", "distributions", 2) /* a value, for a histogram, */                               \
  X(least, "least", "summaries", 2)         /* for a minimum, */                                          \
  X(largest, "largest", "summaries", 2)     /* for a maximum, */                                          \
  X(mean, "mean", "summaries", 1)           /* for an average */                                          \
  X(enter, "enter", "durations", 25)        /* a call begins, for entries, with a value to keep */        \
  X(kept, "kept", "kept-values", 6)         /* -> the value that its entry keeps */                       \
  X(elapsed, "elapsed", "durations", 20)    /* it ends -> for how long it ran in ns, or -1 */             \
  X(stayed, "stayed", "cpu-durations", 20)  /* likewise; -1, too, where it began in another thread */     \
  X(pause, "pause", "own-durations", 20)    /* the call's function calls: it stands, */                   \
  X(resume, "resume", "own-durations", 20)  /* and goes on */

enum class Routine : uint8_t {
#define X(id, name, feature, nanoseconds) id,
  MDL_ROUTINES(X)
#undef X
};

// Cells: per-thread values. `size` in bytes. A flag is a counter that guards test and that never
// goes below zero; the injector keeps in its second word where the outermost frame that raised it lies.
//
// A timer is {value, depth}. A start adds 1 to the depth, and where that was 0 subtracts the clock, read
// after, from the value; a stop subtracts 1, and where that leaves 0 adds the clock, read before, to
// the value; a stop at depth 0 counts an anomaly. So each change of the value is one instruction, a
// signal handler's starts and stops in between come out right, and the value's sign tells whether
// the timer runs: clocks are positive and larger than anything accrued, so a negative value is one of a
// running timer, which reads as value + clock. The clocks are those of MDL_ROUTINES: wall (the machine's
// counter, in ticks), cpu (of the thread, in nanoseconds), event (a count). An event counter is {value,
// last}: a sample adds what the count has grown since the last one. A call is what a call into the
// application needs: {busy, function, 6 arguments}.
//
// A span is how much another cell, its base, has grown while a flag was up: what one child of a request
// with `*` has counted. It is the injector's; no plan has one. While the flag is up, the word is the
// total less the base's value at the raise, with bit 62 turned over; totals are below 2^61, so bits 62 and
// 63 differ just then. So each change is one compare-and-exchange of one word.
//
// Keys are a thread's active keys of a request such as /Message/*, also the injector's: 8 entries {count,
// key, base at the raise, stack pointer of the frame that raised it, address of the key's total}, and how
// often there were more. A count of 0 is a free entry, below 0 one that is being changed.
//
// A histogram is {sum, buckets}: how often values of each size were observed. Values below 2^kHistogramBits
// have a bucket each; above, so many share the next power of two, so that the middle of a bucket is off by
// less than a part in 2^(kHistogramBits + 1). Negative values count as 0, too large ones in the last bucket.
// All words are sums: threads' histograms are added up word by word.
//
// A minimum and a maximum are {how many values were observed, the extreme one}, an average is {sum, how many}. Extremes
// are kept so that 0 is below all and the largest unsigned number of several is their extreme: a maximum with its sign
// bit turned over, a minimum as its complement, likewise.
//
// Entries are the calls that run, for code that asks at their returns how long they ran, or for a value that was known
// at their entries. Calls of all threads lie in one table of the process (resident_entries.inc), by the cell and by the
// place of their return address; the cell has the thread's number there, 0 as long as it has none.
//
// `type`: its name in sources, "" where it is no type of a value. `size`: what a stencil may use; `room`:
// what it takes in a block, with the injector's own words. `group`: which cells lie together in a block, and
// what is done with them when their thread ends, when a process forks and when frames vanish. `clock`: what a
// timer reads. `update`: the routine that takes a value for it.
//          enumerator     name             type            size   room   group    clock  update feature
#define MDL_CELL_KINDS(X)                                                                             \
  X(counter, "counter", "counter", 8, 8, sums, none, {}, "counters")                                  \
  X(flag, "flag", "", 16, 16, flags, none, {}, "counters")                                            \
  X(wall_timer, "wall_timer", "wallTimer", 16, 32, timers, wall, {}, "timers")                        \
  X(process_timer, "process_timer", "processTimer", 16, 32, timers, cpu, {}, "timers")                \
  X(event_timer, "event_timer", "hwTimer", 16, 32, timers, event, {}, "events")                       \
  X(event_counter, "event_counter", "hwCounter", 16, 16, samples, event, {}, "events")                \
  X(call, "call", "", 64, 64, calls, none, {}, "calls-out")                                           \
  X(span_, "span", "", 8, 8, spans, none, {}, "vectors")                                              \
  X(keys, "keys", "", 328, 328, keys, none, {}, "vectors")                                            \
  X(histogram, "histogram", "histogram", 22024, 22024, sums, none, Routine::observe, "distributions") \
  X(minimum, "minimum", "minimum", 16, 16, extremes, none, Routine::least, "summaries")               \
  X(maximum, "maximum", "maximum", 16, 16, extremes, none, Routine::largest, "summaries")             \
  X(average, "average", "average", 16, 16, sums, none, Routine::mean, "summaries")                    \
  X(entries, "entries", "", 16, 16, entries, wall, {}, "durations")

inline constexpr uint32_t kHistogramBits = 6;    // 64 buckets for each power of two
inline constexpr uint32_t kHistogramRange = 48;  // up to 2^48
inline constexpr uint32_t kHistogramBuckets = (kHistogramRange - kHistogramBits + 1) << kHistogramBits;

enum class CellKind : uint8_t {
#define X(id, name, type, size, room, group, clock, update, feature) id,
  MDL_CELL_KINDS(X)
#undef X
};

// In the order in which they lie in a block. Flags and timers are raised and lowered, by frames; a process's
// sums, samples among them, are the sums of its threads', its extremes the extremes of theirs.
enum class CellGroup : uint8_t { flags, timers, calls, samples, sums, spans, extremes, keys, entries };
inline constexpr int kCellGroups = 9;

enum class CellClock : uint8_t { none, wall, cpu, event };

struct CellKindInfo {
  std::string_view name;
  std::string_view type;
  uint32_t size;
  uint32_t room;
  CellGroup group;
  CellClock clock;
  std::optional<Routine> update;
  std::string_view feature;
};

// Events of event timers and counters: what hwCounter("NAME") and hwTimer("NAME") may name. They are what
// getrusage(2) counts for a thread: nothing has to be opened in the process. An event is one of its counts,
// or the sum of two: offsets in struct rusage (fields of 8 bytes), 0 for no second one. `alias` is perf's
// name.
//          enumerator         name                 alias           offsets
#define MDL_EVENTS(X)                                         \
  X(minor_faults, "MINOR_FAULTS", "minor-faults", 64, 0)      \
  X(major_faults, "MAJOR_FAULTS", "major-faults", 72, 0)      \
  X(blocks_in, "BLOCKS_IN", "", 88, 0)                        \
  X(blocks_out, "BLOCKS_OUT", "", 96, 0)                      \
  X(voluntary_switches, "VOLUNTARY_SWITCHES", "", 128, 0)     \
  X(involuntary_switches, "INVOLUNTARY_SWITCHES", "", 136, 0) \
  X(page_faults, "PAGE_FAULTS", "page-faults", 64, 72)        \
  X(context_switches, "CONTEXT_SWITCHES", "context-switches", 128, 136)

enum class Event : uint8_t {
#define X(id, name, alias, offset, more) id,
  MDL_EVENTS(X)
#undef X
};
inline constexpr int kEventCount = 0
#define X(id, name, alias, offset, more) +1
    MDL_EVENTS(X)
#undef X
    ;
// The value that the keyed form of a constraint's code leaves in its second counter; the key is in the first.
enum class KeyChange : uint8_t {
  none,
  raise,      // the key's flag += 1
  set,        // the key's flag = 1
  lower_all,  // the flag of each active key -= 1
  clear_all,  // ... = 0
  lower_key,  // the key's flag -= 1
  clear_key,  // ... = 0
  add,        // the total of the key += what the base's cell holds (of a metric by key)
  observe,    // the key's distribution,
  least,      // its minimum,
  largest,    // its maximum
  mean,       // or its average observes that
  note,       // the block at the key is allocated where the function returns to; or, of 0, is none any more
};

// Of the cell with the change, behind the name of what it belongs to.
inline constexpr std::string_view kKeyChangeSuffix = ".change";

// How a key is shown: as a number; as what lies at that address; as the file of that descriptor; the return address at
// an entry or a return, as the place that it is in, which no code has, but the injector reads it; as the text at that
// address, where equal texts are one key; as the function that begins there, or the object whose code begins there, whose
// path is the focus of a line; as an errno; as symbols are, as a lock of a kind, whose path is a focus, too; as what a
// descriptor is open for at the hit, which is a text: a file (whatever is no socket), a socket, or either; as symbols
// are, as a place in memory, whose path is a focus; and as where the block of the heap that begins at that address was
// allocated, which the resident code makes the key of it.
enum class KeyName : uint8_t {
  number,
  symbol,
  fd,
  caller,
  str,
  path,
  error,
  module,
  mutex,
  rwlock,
  condition,
  semaphore,
  barrier,
  file,
  socket,
  descriptor,
  memory,
  site
};
inline constexpr std::string_view kKeyNames[] = {
    "number", "symbol",    "fd",        "caller",  "str",  "path",   "error",      "module", "mutex",
    "rwlock", "condition", "semaphore", "barrier", "file", "socket", "descriptor", "memory", "site"};
// The hierarchies that such keys are resources of, as /SyncObject/Mutex; none where they are no resources.
std::span<const std::string_view> hierarchies_of(KeyName);
inline constexpr std::string_view kFiles = "/File", kSockets = "/Socket";
bool is_lock(KeyName);
bool is_descriptor(KeyName);  // of which the resident code asks what it is open for
bool is_text(KeyName);        // that, or a text at an address: the resident code makes the key of it
// Which way MDL writes as `NAME(VALUE)`.
std::optional<KeyName> key_call(std::string_view name);
inline constexpr size_t kMostKeysOfMetric = 3;

// How the threads of a process, and the processes of a run, combine.
enum class Aggregate : uint8_t { sum, min, max, avg };
inline constexpr std::string_view kAggregates[] = {"sum", "min", "max", "avg"};

const PointKindInfo& info(PointKind);
const CellKindInfo& info(CellKind);
std::string_view name(Aggregate);
std::optional<KeyChange> key_change(CellKind);  // what code leaves that has changed such a value of a key
Aggregate aggregate_of(CellKind);  // the only one of a metric with such a base, where a routine updates it
bool is_timer(CellKind);           // {value, depth}, see above
bool is_time(CellKind);            // a timer of time
bool is_raised(CellKind);          // a flag or a timer: for each raise there must be a fall
bool is_even(CellKind);            // one of these, or entries: code at entries and at exits belongs together

struct EventInfo {
  std::string_view name;
  std::string_view alias;  // "" where perf has none
  uint32_t offset;
  uint32_t more;
};
struct RoutineInfo {
  std::string_view name;
  std::string_view feature;
  uint32_t nanoseconds;
};
const EventInfo& info(Event);
const RoutineInfo& info(Routine);
std::optional<Event> event(std::string_view name);
std::optional<Event> event_or_alias(std::string_view name);  // what users may write
std::optional<Routine> routine(std::string_view name);

std::optional<PointKind> point_kind(std::string_view name);
std::optional<PointKind> point_field(PointOwner owner, std::string_view field);
std::optional<CellKind> cell_kind(std::string_view name);
std::optional<CellKind> cell_type(std::string_view type);  // by its name in sources
std::optional<Aggregate> aggregate(std::string_view name);

}  // namespace mdl::format
