// What shared code asks of the machine it runs on. One folder per target implements
// this header (runtime/arch/<target>/); CMake compiles the folder of the host, because
// an injector and its target run on the same machine. Shared code never asks which it is.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/arch/system_calls.h"
#include "runtime/arch/target_data.h"
#include "runtime/image/code.h"
#include "runtime/image/unwind.h"
#include "runtime/plan/plan.h"

namespace mdl::arch {

inline constexpr uint64_t kPage = 4096;  // the smallest page there is
inline constexpr uint8_t kBreakpoint =
    0xcc;  // int3 (SDM volume 2, INT n), of debuggers and of the kernel's uprobes

extern const std::string_view kTarget;  // as in a plan's manifest
extern const uint16_t kElfMachine;      // e_machine of programs it can instrument
extern const uint32_t kJumpSize;        // bytes of the jump that a window holds
extern const uint32_t kShortJumpSize;   // bytes of one that reaches the next hundred bytes
extern const uint32_t kFarJumpSize;     // bytes of one that reaches everything
extern const int32_t kReturnAddress;    // bytes that a call pushes
extern const uint64_t kReach;           // how far that jump and pc-relative data safely go, in bytes

using Bytes = std::vector<uint8_t>;

// ---- A stopped thread's registers -------------------------------------------------

using ThreadRegisters = user_regs_struct;

uint64_t pc(const ThreadRegisters&);
void set_pc(ThreadRegisters&, uint64_t);
uint64_t stack_pointer(const ThreadRegisters&);
void set_stack_pointer(ThreadRegisters&, uint64_t);
uint64_t thread_pointer(const ThreadRegisters&);
image::RegisterFile unwind_registers(const ThreadRegisters&);

// The system call that the thread was stopped in, or -1. When the stop interrupted a call
// that the kernel would now fail with EINTR although no signal asked for it (epoll_wait,
// semop, sigtimedwait, io_getevents, sockets with a time-out: signal(7), "Interruption of
// system calls by stop signals"), makes the kernel restart it and returns true.
long system_call(const ThreadRegisters&);
bool hide_interruption(ThreadRegisters&);

// ---- Remote system calls (process/remote.h) -----------------------------------------

// One system call of a remote stub. An argument equal to kLastResult stands for the
// result of the last call marked `keep`.
struct RemoteCall {
  long number = 0;
  std::vector<uint64_t> args;  // at most 6
  bool keep = false;
};
inline constexpr uint64_t kLastResult = 0xfdfdfdfdfdfdfdfdu;
// An argument that is an offset into the stub's own text data: kTextTag + offset.
inline constexpr uint64_t kTextTag = 0x7e7e7e7e00000000u;

// Code that makes `calls` in order on the thread with `registers` and then puts it back where
// it was, on its own: a thread whose tracer dies at any instruction of it runs on correctly.
// `text` is data that the calls may point to. `address` is where the code will lie; its size does not depend
// on it. All signals are blocked meanwhile, by a call of its own before the first and one behind the last,
// which sets `signal_mask`, the thread's.
struct RemoteStub {
  struct Call {
    long number = 0;
    uint64_t next =
        0;  // the address behind it: where the thread is when it enters and when it leaves the call
  };
  Bytes code;
  std::vector<Call> calls;  // all that it makes, its own among them
};
RemoteStub remote_stub(std::span<const RemoteCall> calls, std::string_view text,
                       const ThreadRegisters& registers, uint64_t signal_mask, uint64_t address);
// True for a thread that enters or leaves this call.
bool is_at(const ThreadRegisters&, const RemoteStub::Call& call);
// Of a thread that is about to enter a call: it enters none, and leaves it with an error.
void drop_call(ThreadRegisters&);
// Registers with which the thread executes the stub.
ThreadRegisters remote_entry(const ThreadRegisters&, uint64_t address);
// The result of the system call that the thread has just left (a system-call stop).
int64_t remote_result(const ThreadRegisters&);

// ---- The entry of a started program (process/arrival.h) ------------------------------

// Code at which a program waits in front of its entry, in the process that knows itself as `pid`; in any
// other it goes on at once. It writes `entry` to the address `word` and waits for as long as the word at
// `beat` changes at least every 0.8 s; then it goes on to `entry`. `mark` stands behind its first jump. It is
// position dependent, of one size.
struct EntryStub {
  Bytes code;
  uint64_t beat = 0;   // an address
  image::Range waits;  // while a thread is here, the stack has kEntryStubStack bytes of its own
};
EntryStub entry_stub(std::string_view mark, pid_t pid, uint64_t entry, uint64_t word, uint64_t address);
extern const size_t kEntryStubStack;
// The registers of a thread that waits there, as they were, at the entry. `stack`: from its stack pointer on.
ThreadRegisters leave_entry_stub(const ThreadRegisters&, std::span<const std::byte> stack, uint64_t entry);
std::vector<PlannedCall> entry_stub_calls();

struct RemoteNumbers {
  long memfd_create, ftruncate, mmap, munlock, mprotect, munmap, close, signal_mask;
};
extern const RemoteNumbers kCalls;

// ---- Trampolines (patch/trampoline.h) -------------------------------------------------

// What hits take of a thread's time is kept in its block, so that timers can leave it out (hit_time.h). All
// in ticks of the wall clock.
struct HitTime {
  bool kept = false;
  double between = 0;  // of a hit that reads the counter first and last and does nothing else: between these,
  double around = 0;   // and outside of them when it saves no register,
  double per_saved = 0;  // and more for each that it does
  double plain = 0;      // of a hit that reads no counter, without its stencils
  double per_cycle = 0;  // of the processor: what is known of stencils is in cycles,
  double per_ns = 0;     // and of routines in nanoseconds
};
// Measured in this process, with the code that emit_point makes, over some milliseconds.
HitTime measure_hit_time(uint64_t ticks_per_second, double ps_per_cycle);

// Where the trampoline of a point finds the thread's block (docs/injection.md, "Thread blocks").
struct Lookup {
  uint64_t directory = 0;  // address of the first slot, 16 bytes each: thread pointer, block
  uint32_t slots = 0;      // a power of two
  uint64_t slow_path = 0;  // address of the resident code
  // Where, behind the thread pointer, the C library keeps the thread's id. Compared with the one in the
  // block at each hit, so that a thread pointer that is used again gets a fresh block; 0 = not compared.
  uint32_t thread_at = 0;
  HitTime hit_time = {};
};
// Places behind the thread pointer where known C libraries keep a thread's id (4 bytes).
std::span<const uint32_t> thread_id_places();
// From a block's kBlockBegan: whose Piece::request the last hit was; none while one runs, and where that is
// not known.
constexpr std::optional<uint32_t> last_request(uint64_t began) {
  const uint64_t number = ~began;
  return number < UINT64_C(0x7fffffff) ? std::optional(static_cast<uint32_t>(number)) : std::nullopt;
}
// In kBlockCpuClock: it is not that of the hit that runs.
inline constexpr uint64_t kCpuStale = uint64_t{1} << 62;
// The slot at which the search for a thread pointer begins: what the emitted code computes.
uint32_t home_slot(uint64_t thread_pointer, uint32_t slots);

// The clock of a timer: of its kind, with its event.
struct TimerClock {
  format::CellKind kind = format::CellKind::wall_timer;
  format::Event event = format::Event::minor_faults;
};

// What follows code that writes a flag (focus::TrackedCells).
struct Track {
  int64_t flag = 0;  // byte offsets in the block
  int64_t span = 0;
  int64_t base = 0;
  // Where the base is a timer, the clock of it; then resident code does what is to be done: the addresses of
  // its routine and of what it knows of the span.
  std::optional<TimerClock> clock = {};
  uint64_t routine = 0, entry = 0;
};

// A flag or a timer that a function's entry raises and its exits lower. Its own words are `count`, and
// `outermost`: the stack pointer of the outermost frame that raised it. When that frame ends, the count
// goes to zero, whatever frames in between vanished.
struct Raised {
  int64_t count = 0;  // byte offsets in the block
  int64_t outermost = 0;
  // A timer's stencil does more than count: it must see its last stop. A flag is just set to zero.
  bool is_timer = false;
};

// What follows code that may change keys (focus::KeyTable).
struct Keys {
  int64_t key = 0, change = 0;  // byte offsets in the block
  uint64_t table = 0;           // its address
  uint64_t routine = 0;         // of the resident code that does it
  bool balanced = false;        // the frame that raises a key is the one that lowers it
};

// One piece of code at a point: a stencil with its holes' values.
struct Piece {
  const plan::Stencil* stencil = nullptr;
  std::vector<int64_t> cells;  // byte offsets in the block, for StencilInfo::cells
  std::vector<int64_t> constants;
  std::vector<int64_t> guards;  // byte offsets of flags
  std::vector<Raised> raises;   // what the stencil raises at an entry,
  std::vector<Raised> lowers;   // or lowers at an exit
  std::vector<Track> tracks = {};
  std::span<const plan::SymbolValue> symbols = {};  // for StencilInfo::symbols
  std::optional<Keys> keys = {};
  // Of a piece that lowers one cell and does nothing else: the cell's byte offset in the block. It can wait
  // at a tail jump (Deferral). 0 = it cannot.
  uint32_t waits = 0;
  uint32_t request = 0;  // one of those that it is for
  // Where an anomaly of this piece is counted: a byte offset in the block, 0 = with all that are not told
  // apart.
  int64_t anomalies = 0;
};

// Where a call has come back to, when a branch leads there, too: the call arms, what follows it tests
// (docs/injection.md, "Calls"). Each thread's block has an area of kArmedBytes for its armed calls, the areas
// in the order of the blocks.
struct ArmedCalls {
  uint64_t blocks = 0, stride = 0;  // of the blocks: resident/layout.h
  uint64_t area = 0;                // of the first block
};
inline constexpr uint64_t kArmedBytes = uint64_t{1} << 16;  // 8 for a call that has not come back
enum class Arming : uint8_t {
  none,
  arm,     // in front of the call
  test,    // behind it: the point's code runs only when it was armed
  catch_,  // at the entry of __cxa_begin_catch, and
  jump,    // of longjmp: calls that vanish are forgotten
};

// What a tail jump leaves raised for the return of the function that it leads to (docs/injection.md, "Tail
// calls"). A thread's block lists what waits: for each {the place of the frame's return address, the byte
// offset of the cell}. Only the outermost frame that raised a cell waits; an inner one lowers it at once.
struct Deferral {
  // A word that the jump goes through, and what it must hold: otherwise nothing waits, which is an anomaly.
  uint64_t slot = 0;  // 0 = it is direct
  uint64_t value = 0;
  uint64_t unbound = 0;  // or this: the dynamic linker will fill it with that value at the jump
};

// The frame that a point is about.
struct PointFrame {
  int32_t distance = 0;  // from the stack pointer to where its return address lies
  Arming arming = Arming::none;
  uint64_t returns_to = 0;             // test: the address behind the call
  const ArmedCalls* calls = nullptr;   // where there is any arming
  const Deferral* deferral = nullptr;  // of a tail jump at which pieces wait
  bool ends_deferred = false;          // of a return: what waits for it is lowered
  bool reads_clock = false;            // as if a stencil did, where hit times are kept
  // Nothing below the stack pointer is alive. Else the code stays clear of the red zone.
  bool below_is_dead = false;
};

// Emits the code of one point: save what is live, find the block, run the pieces, restore.
// Guards that stand in front of several pieces in a row are tested once where nothing
// between writes them. `live` are the registers whose values must survive.
// `address` is where the next byte of `out` will lie. The slow path that it needs is emitted
// later, behind the trampoline's fast path, with emit_slow_path on the same `out`.
struct SlowPath {
  std::vector<size_t> fields;  // of the branches to it, in `out`
  uint64_t found = 0;          // where it goes on
};
// Where a stencil was put, so that it can be verified again as it is.
struct PlacedStencil {
  const plan::Stencil* stencil = nullptr;
  size_t at = 0;  // in `out`
};
// The filled code of a stencil as it would be where hit times are not kept.
Bytes as_planned(const plan::Stencil& stencil, std::span<const uint8_t> placed);
SlowPath emit_point(Bytes& out, uint64_t address, std::span<const Piece> pieces, const plan::Stencil& guard,
                    image::Registers live, const Lookup& lookup, int64_t anomalies_offset,
                    std::vector<PlacedStencil>& placed, const PointFrame& frame = {});
void emit_slow_path(Bytes& out, uint64_t address, const SlowPath& from, const Lookup& lookup);

// True when an instruction does elsewhere what it does at its place, after emit_displaced has
// adjusted it. A call is not: its return address would change (architecture, decision 4).
bool can_displace(const image::Instruction& instruction);
// Emits it; false when a pc-relative operand is out of reach from there.
bool emit_displaced(Bytes& out, uint64_t address, const image::Instruction& instruction);
// Emits a conditional jump that is taken when `branch` is not, and returns its field for
// fill_branch: what stands between them runs only when the branch is taken.
size_t emit_inverted_branch(Bytes& out, uint64_t address, const image::Instruction& branch);
void fill_branch(Bytes& out, uint64_t address, size_t field);
void emit_jump(Bytes& out, uint64_t address, uint64_t target);

// Where a direct jump or call of kJumpSize bytes leads; nothing for any other bytes.
std::optional<uint64_t> branch_target(uint64_t at, std::span<const std::byte> bytes);
// Where a short jump leads.
std::optional<uint64_t> short_jump_target(uint64_t at, std::span<const std::byte> bytes);
// How many bytes at the end of `before` are the prefixes that window_call writes in front of a call.
size_t call_prefixes(std::span<const std::byte> before);

// Bytes of the stack that an instruction takes, when control is sure to run on from it: it reads and writes
// registers and pushes, and touches no other memory. A function's entry may as well be seen behind it.
std::optional<uint32_t> pushed_by(const image::Instruction& instruction);

// True when a call can be turned to a trampoline in its place, so that it returns to where it did.
bool can_turn(const image::Instruction& call);
// What such a trampoline goes on with: a jump to what was called; false when its operand is out of reach.
bool emit_turned(Bytes& out, uint64_t address, const image::Instruction& call);

// What a window holds: a jump, a call in the place of a call of `size` bytes, or a short jump to another
// jump.
Bytes window_jump(uint64_t at, uint64_t target);
Bytes window_call(uint64_t at, uint32_t size, uint64_t target);
Bytes window_short_jump(uint64_t at, uint64_t target);
bool short_jump_reaches(uint64_t at, uint64_t target);

// A jump of which only the first `written` bytes are written; those behind it stay what they are and are a
// part of its displacement. Where it leads, by the bytes that may be chosen.
image::Range punned_targets(uint64_t at, uint32_t written, std::span<const uint8_t> kept);
// A jump to anywhere, for the place where a punned one leads.
Bytes far_jump(uint64_t target);

// The resident code (resident.S): position independent, the search for a block at its start.
struct ResidentParameters {
  uint64_t header = 0;  // address of the data's header (resident/layout.h)
  uint64_t directory = 0;
  uint64_t directory_bytes = 0;
  uint64_t overflow_block = 0;
  uint64_t ended_block = 0;   // what did not fit into the ring, added up
  uint64_t taken_block = 0;   // what the injector has taken from the ring: only it writes there
  uint64_t ring = 0;          // of ended threads' blocks
  uint64_t ring_entries = 0;  // a power of two
  uint64_t stride = 0;
  uint64_t timers = 0, calls = 0, sums = 0, cells_end = 0;  // offsets in a block; flags begin it
  uint64_t news = 0;                                        // where forks are followed: of children
  uint64_t thread_at = 0;                                   // as in Lookup
  uint64_t deferred = 0;  // offset in a block of the list of Deferral, 0 = there is none
  uint64_t anomalies =
      0;                  // likewise of {vanished, other} of each flag and timer, 0 = they are not told apart
  HitTime hit_time = {};  // likewise
  uint64_t ticks_per_second = 0;
};
// `timers`: as they lie in a block. `spans`: all that are kept, to be closed where frames vanish; `tables`:
// addresses of key tables, likewise.
Bytes resident_code(const ResidentParameters&, std::span<const TimerClock> timers = {},
                    std::span<const Track> spans = {}, std::span<const uint64_t> tables = {});
uint64_t cpu_clock_offset();  // in it, of what does the routine `cpu` where hit times are kept
uint64_t keys_offset();       // in it, of the routine for Keys::routine
uint64_t span_offset();       // of the routine for Track::routine
// Of what it knows of a span, by the index in `spans`.
uint64_t span_entry_offset(size_t timers, size_t index);
// Where a stencil's routine begins in it.
uint64_t routine_offset(format::Routine routine);
// What can be hooked at a function's entry, and where in the resident code its routine begins. All
// keep every register and flag.
enum class Hook : uint8_t {
  none,
  exit,   // _exit: a process that ends waits for its last values to be read
  exec,   // execve, where forks are followed: likewise, and for its program to be followed
  prctl,  // prctl and syscall, there: a process that puts itself under a seccomp filter does not wait any
          // more
  syscall,
  catch_,  // __cxa_begin_catch and its like: frames below the one that calls it have vanished
  jump,    // longjmp(buffer, ...): frames below the buffer's stack pointer vanish
  end,     // __call_tls_dtors, where a thread ends: likewise; a thread without a block stays without
};
uint64_t hook_offset(Hook hook);
void emit_call(Bytes& out, uint64_t address, uint64_t target);

// Registers that an instruction behind a call must leave alone for code that belongs right behind the call to
// run after it: the stack pointer, and where the code reads it (`result`) the returned value.
image::Registers kept_behind_calls(bool result);

// Registers that no calling convention passes a value in, but for a static chain: a
// caller keeps a value in one across a call only when it knows that the callee leaves it
// alone (GCC's -fipa-ra).
image::Registers scratch_registers();
// Of these, the one that may carry a static chain into a nested function.
image::Registers static_chain_register();

}  // namespace mdl::arch
