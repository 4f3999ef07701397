#include "runtime/patch/missed_exits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "base/nap.h"
#include "runtime/arch/description.h"
#include "runtime/arch/resident.h"
#include "runtime/arch/windows.h"
#include "runtime/image/code.h"
#include "runtime/process/lock.h"
#include "runtime/process/target.h"

namespace mdl::patch {
namespace {

// Libraries whose threads begin in them, so that a walk ends in a call of theirs.
constexpr std::string_view kThreadLibraries[] = {"libc.so", "libc-", "ld-musl"};
// Run-time systems that copy a stack away while it does not run: what lies there then is another one's.
constexpr std::string_view kStackCopiers[] = {"greenlet", "libaco"};

constexpr std::string_view kNotWalked = "on a stack that cannot be walked to its end";

constexpr uint64_t kMostFlags = 16 << 20;   // bytes of a block
constexpr uint64_t kStackStart = 256;       // from the end of _start's frame to where the kernel began
constexpr uint64_t kMostScanned = 1 << 20;  // bytes of a stack that may hold the address of an exception
constexpr size_t kMostLooks = 20'000;       // at what may be one, in all

// Itanium C++ ABI, exception handling: the first word of an exception says whose it is. The last byte of
// C++'s tells a dependent one.
constexpr std::array<uint64_t, 3> kExceptionClasses = {0x474e5543432b2b00,   // GNUCC++
                                                       0x434c4e47432b2b00,   // CLNGC++
                                                       0x4d4f5a0052555354};  // MOZ\0RUST

// struct _Unwind_Exception begins so: {class, cleanup, private_1, ..}. In one that ends a thread, private_1
// is a function, too.
using Exception = std::array<uint64_t, 4>;
constexpr size_t kThreadData = 2304;  // bytes of struct pthread, glibc

bool word_at(const image::Memory& memory, uint64_t address, uint64_t& word) {
  return memory.read(address, std::as_writable_bytes(std::span(&word, 1)));
}

bool is_code(std::span<const image::Mapping> mappings, uint64_t address) {
  const image::Mapping* mapping = mapping_at(mappings, address);
  return mapping && mapping->execute;
}

bool is_behind_indirect_call(const image::Memory& memory, uint64_t address) {
  const auto [shortest, longest] = arch::kMachine.indirect_calls;
  for (size_t size = shortest; size <= longest; size++) {
    std::vector<std::byte> bytes(size);
    if (!memory.read(address - size, bytes)) return false;
    const std::vector<image::Instruction> code = image::decode(bytes, address - size);
    if (code.size() == 1 && code[0].size == size && code[0].flow == image::Flow::call_indirect) return true;
  }
  return false;
}

// Where a flag or a timer says that it is up, in a thread's block.
std::optional<arch::Raised> raised_of(const resident::Journal& journal, const resident::RaisedCell& cell,
                                      std::span<const uint64_t> block) {
  if (cell.cell >= journal.kinds.size() || cell.cell >= journal.layout.cells.size()) return {};
  const format::CellKind kind = journal.kinds[cell.cell];
  if (!format::is_raised(kind)) return {};
  const arch::Raised out = resident::raised_cell(journal.layout, cell.cell, kind);
  if (static_cast<uint64_t>(out.outermost) / sizeof(uint64_t) >= block.size()) return {};
  return out;
}
uint64_t count(const arch::Raised& raised, std::span<const uint64_t> block) {
  return block[static_cast<uint64_t>(raised.count) / sizeof(uint64_t)];
}

struct Outside {
  arch::ThreadRegisters registers;
  uint64_t entered =
      0;  // where the return address of the function is that is being called; 0: it is on the stack
};

// A thread that waits at the end of its process (mdl_resident_exit), as it was at its call of _exit; any
// other as it is.
Outside outside_of_exit(const resident::Journal& journal, const image::Memory& memory,
                        const arch::ThreadRegisters& registers) {
  constexpr size_t kMostPushed = 32;
  const auto piece_of = [&](uint64_t address) {
    return std::ranges::find_if(journal.code,
                                [&](const image::Range& range) { return range.contains(address); });
  };
  if (piece_of(arch::pc(registers)) == journal.code.end()) return {registers};
  const uint64_t sp = arch::stack_pointer(registers);
  std::array<uint64_t, kMostPushed + 1> words{};
  if (!memory.read(sp, std::as_writable_bytes(std::span(words)))) return {registers};
  for (size_t i = 0; i < kMostPushed; i++) {
    const auto piece = piece_of(words[i]);
    std::vector<std::byte> call(arch::kMachine.jump_size);
    if (piece == journal.code.end() || !memory.read(words[i] - call.size(), call)) continue;
    const auto called = arch::branch_target(words[i] - call.size(), call);
    const auto is_hook = [&](arch::Hook hook) { return called == piece->start + arch::hook_offset(hook); };
    if (!is_hook(arch::Hook::exit) && !is_hook(arch::Hook::syscall) && !is_hook(arch::Hook::exec)) continue;
    Outside out{registers, sp + (i + 1) * sizeof(uint64_t)};
    arch::set_pc(out.registers,
                 words[i + 1] - 1);  // within the call: what follows it may be another function
    arch::set_stack_pointer(out.registers, out.entered + sizeof(uint64_t));
    return out;
  }
  return {registers};
}

}  // namespace

bool any_raised(const resident::Journal& journal, const image::Memory& memory) {
  const resident::Layout& layout = journal.layout;
  if (journal.raised.empty() || layout.calls > kMostFlags) return false;
  std::vector<uint64_t> directory(layout.slots * 2), block(layout.calls / sizeof(uint64_t));
  if (!memory.read(journal.data.start + layout.directory(), std::as_writable_bytes(std::span(directory))))
    return false;
  for (uint32_t slot = 0; slot < layout.slots; slot++) {
    if (directory[slot * 2] == 0) continue;
    if (!memory.read(journal.data.start + layout.block(slot), std::as_writable_bytes(std::span(block))))
      return false;
    for (const resident::RaisedCell& cell : journal.raised)
      if (auto raised = raised_of(journal, cell, block); raised && count(*raised, block) != 0) return true;
  }
  return false;
}

MissedExits::MissedExits(const resident::Journal& journal, const image::Image& image,
                         const process::TargetMemory& memory)
    : journal_(journal), image_(image), memory_(memory), stack_start_(process::stack_start(image.pid)) {
  for (uint32_t i = 0; i < journal.functions.size(); i++)
    for (const image::Range& range : journal.functions[i].code) code_.push_back({range, i, 0});
  std::ranges::sort(code_, {}, [](const CodeRange& code) { return code.range.start; });
  uint64_t reach = 0;
  for (CodeRange& code : code_) code.reach = reach = std::max(reach, code.range.end);
  copies_stacks_ = std::ranges::any_of(image.objects, [](const image::Object& object) {
    return std::ranges::any_of(
        kStackCopiers, [&](std::string_view name) { return object.name.find(name) != std::string::npos; });
  });
}

std::vector<uint32_t> MissedExits::functions_on(const image::Stack& stack) const {
  std::set<uint32_t> out;
  for (const image::Frame& frame : stack.frames) {
    const uint64_t where = frame.is_call ? frame.pc - 1 : frame.pc;
    auto behind =
        std::ranges::upper_bound(code_, where, {}, [](const CodeRange& code) { return code.range.start; });
    while (behind != code_.begin() && where < (--behind)->reach)
      if (where < behind->range.end) out.insert(behind->function);
  }
  return {out.begin(), out.end()};
}

// One check: all threads, one after the other.
class ThreadExits {
 public:
  ThreadExits(const MissedExits& what, const process::Threads& threads,
              const std::vector<image::Mapping>& mappings, WalkedStacks& stacks)
      : what_(what),
        journal_(what.journal_),
        memory_(what.memory_),
        threads_(threads),
        mappings_(mappings),
        stacks_(stacks) {}

  ExitCheck find() {
    const resident::Layout& layout = journal_.layout;
    if (layout.calls > kMostFlags) return {};  // a journal that lies
    directory_.resize(layout.slots * 2);
    if (!memory_.read(journal_.data.start + layout.directory(),
                      std::as_writable_bytes(std::span(directory_))))
      return {};
    out_.done = true;
    for (pid_t tid : threads_.stopped())
      if (auto registers = threads_.registers(tid)) look_at(tid, *registers);
    for (const auto& [cell, missed] : missed_) out_.missed.push_back(missed);
    for (const auto& [cell, elsewhere] : elsewhere_) out_.elsewhere.push_back(elsewhere);
    return std::move(out_);
  }

 private:
  static constexpr std::string_view kUnclear = "a coroutine that does not run, or an old word at its place";

  void look_at(pid_t tid, const arch::ThreadRegisters& stopped) {
    const resident::Layout& layout = journal_.layout;
    const auto [registers, entered] = outside_of_exit(journal_, memory_, stopped);
    const uint64_t pointer = arch::thread_pointer(registers);
    const uint32_t slot = resident::find_slot(directory_, pointer);
    if (slot == layout.slots || pointer == 0 || directory_[slot * 2] != pointer) return;
    block_.resize(layout.calls / sizeof(uint64_t));
    block_at_ = journal_.data.start + layout.block(slot);
    if (!memory_.read(block_at_, std::as_writable_bytes(std::span(block_)))) return;
    std::vector<const resident::RaisedCell*> up;
    for (const resident::RaisedCell& cell : journal_.raised)
      if (auto raised = raised_of(cell); raised && count(*raised) != 0) up.push_back(&cell);
    if (up.empty() || !is_of(tid, pointer)) return;
    out_.up += up.size();
    const image::Stack& stack = stacks_.of(tid, registers);
    if (!stack.complete || stack.frames.empty()) {
      out_.unclear[std::string(kNotWalked)] += up.size();
      return;
    }
    const std::vector<uint32_t> there = what_.functions_on(stack);
    std::optional<bool> quiet;
    for (const resident::RaisedCell* cell : up) {
      const auto is_one = [&](uint32_t f) { return std::ranges::binary_search(cell->functions, f); };
      if (std::ranges::any_of(there, is_one)) continue;
      const uint64_t at = place(*raised_of(*cell));
      if (at == entered && at != 0) continue;  // the walk begins at its caller
      if (is_frame_at(stack, at) && waits(*cell, at)) continue;
      std::string_view why = doubt(*cell, registers, stack);
      if (why.empty() && !quiet) quiet = !is_unwinding(registers, stack);
      if (why.empty() && !*quiet) why = "an exception is on its way";
      if (!why.empty()) {
        out_.unclear[std::string(why)]++;
        if (why != kUnclear) continue;
      }
      MissedExit& missed = (why.empty() ? missed_ : elsewhere_)[cell->cell];
      missed.cell = cell;
      missed.entries += count(*raised_of(*cell));
      missed.threads++;
    }
  }

  std::optional<arch::Raised> raised_of(const resident::RaisedCell& cell) const {
    return patch::raised_of(journal_, cell, block_);
  }
  uint64_t count(const arch::Raised& raised) const { return patch::count(raised, block_); }
  uint64_t place(const arch::Raised& raised) const {
    return block_[static_cast<uint64_t>(raised.outermost) / sizeof(uint64_t)];
  }

  static bool is_frame_at(const image::Stack& stack, uint64_t at) {
    return std::ranges::any_of(stack.frames,
                               [&](const image::Frame& frame) { return image::place_of(frame) == at; });
  }

  // False when the block is that of a thread that has ended, whose thread pointer this one has.
  bool is_of(pid_t tid, uint64_t pointer) const {
    uint64_t id = block_[kBlockThread / sizeof(uint64_t)];
    if (journal_.layout.thread_at == 0)
      return id == static_cast<uint64_t>(process::read_status(tid).inner_pid);
    uint32_t own = 0;
    return memory_.read(pointer + journal_.layout.thread_at, std::as_writable_bytes(std::span(&own, 1))) &&
           own == id;
  }

  // Why it is not certain that the frame for which the cell is up has ended; empty when it is. No frame of
  // its functions is on the stack.
  std::string_view doubt(const resident::RaisedCell& cell, const arch::ThreadRegisters& registers,
                         const image::Stack& stack) const {
    if (!cell.tied) return "it is raised and lowered in the middle of functions";
    if (what_.copies_stacks_) return "the program copies stacks away";
    const uint64_t at = place(*raised_of(cell));
    if (at == 0) return kUnclear;
    if (is_frame_at(stack, at)) return cell.moves ? "another function may have been jumped to" : "";
    uint64_t word = 0;
    if (!word_at(memory_, at, word)) return kUnclear;
    if (!is_code(mappings_, word)) return "";
    return is_below(at, registers, stack) ? "" : kUnclear;
  }

  // True when a tail jump has left the cell up for the frame at this place: the function that it leads to is
  // on the walked stack in its frame (docs/events.md, "Tail calls").
  bool waits(const resident::RaisedCell& cell, uint64_t at) const {
    const uint64_t used = block_[kBlockDeferred / sizeof(uint64_t)];
    if (journal_.layout.deferred == 0 || used == 0 || used > kDeferredBytes) return false;
    std::vector<std::array<uint64_t, 2>> notes(used / sizeof(std::array<uint64_t, 2>));
    if (!memory_.read(block_at_ + journal_.layout.deferred, std::as_writable_bytes(std::span(notes))))
      return false;
    return std::ranges::find(notes, std::array<uint64_t, 2>{at, journal_.layout.cells[cell.cell]}) !=
           notes.end();
  }

  // True when the place is on the stack with which the thread began, and below all that is in use of it.
  bool is_below(uint64_t at, const arch::ThreadRegisters& registers, const image::Stack& stack) const {
    const uint64_t sp = arch::stack_pointer(registers);
    const image::Mapping* own = mapping_at(mappings_, sp);
    if (!own || at >= sp || at < own->start) return false;
    const auto& frames = stack.frames;
    if (!std::all_of(frames.begin() + 1, frames.end(), [](const image::Frame& f) { return f.is_call; }))
      return false;  // a handler may have a stack of its own
    const image::Frame& first = frames.back();
    if (own->path == "[stack]")
      return first.cfa + kStackStart > what_.stack_start_ && first.cfa < what_.stack_start_ + kStackStart;
    // A C library maps a stack with a page below it that nobody may touch, and the thread's own data above
    // it.
    const image::Mapping* below = mapping_at(mappings_, own->start - 1);
    const uint64_t pointer = arch::thread_pointer(registers);
    if (!below || below->read || below->write || below->execute || !(pointer > sp && pointer < own->end))
      return false;
    const image::Object* object = image::object_at(what_.image_, first.pc);
    return object && first.is_call && first.cfa < pointer &&
           std::ranges::any_of(kThreadLibraries, [&](auto name) { return object->name.starts_with(name); }) &&
           is_behind_indirect_call(memory_, first.pc);
  }

  // True when an exception may be on its way: code that is run for that keeps its address, in a register or
  // on the stack, and the frames that it has left so far have not been taken out of the flags yet.
  bool is_unwinding(const arch::ThreadRegisters& registers, const image::Stack& stack) {
    const uint64_t sp = arch::stack_pointer(registers);
    const uint64_t end = stack.frames.back().cfa;
    if (end <= sp || end - sp > kMostScanned || is_ending(arch::thread_pointer(registers))) return true;
    std::vector<uint64_t> words((end - sp) / sizeof(uint64_t));
    if (!memory_.read(sp, std::as_writable_bytes(std::span(words)))) return true;
    const image::RegisterFile file = arch::unwind_registers(registers);
    words.insert(words.end(), file.begin(), file.end());
    std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    const image::Mapping* own = mapping_at(mappings_, sp);
    for (uint64_t word : words) {
      const image::Mapping* mapping = word % 16 == 0 ? mapping_at(mappings_, word) : nullptr;
      if (!mapping || !mapping->write || (mapping == own && word < arch::thread_pointer(registers))) continue;
      if (++looks_ > kMostLooks || is_exception(word)) return true;
    }
    return false;
  }
  // pthread_exit and cancellation unwind with an exception that lies in the thread's own data.
  bool is_ending(uint64_t pointer) const {
    std::array<uint64_t, kThreadData / sizeof(uint64_t)> words{};
    if (!memory_.read(pointer, std::as_writable_bytes(std::span(words)))) return false;
    for (size_t i = 0; i + 4 <= words.size(); i += 2)  // it is aligned to 16 bytes
      if (is_forced({words[i], words[i + 1], words[i + 2], words[i + 3]})) return true;
    return false;
  }
  bool is_exception(uint64_t address) const {
    Exception head{};
    if (!memory_.read(address, std::as_writable_bytes(std::span(head)))) return false;
    return std::ranges::find(kExceptionClasses, head[0] & ~uint64_t{0xff}) != kExceptionClasses.end() ||
           head[0] == kExceptionClasses.back() || is_forced(head);
  }
  bool is_forced(const Exception& head) const {
    return is_code(mappings_, head[1]) && is_code(mappings_, head[2]);
  }

  const MissedExits& what_;
  const resident::Journal& journal_;
  const process::TargetMemory& memory_;
  const process::Threads& threads_;
  const std::vector<image::Mapping>& mappings_;
  WalkedStacks& stacks_;
  std::vector<uint64_t> directory_, block_;
  uint64_t block_at_ = 0;
  size_t looks_ = 0;
  std::map<focus::CellId, MissedExit> missed_, elsewhere_;
  ExitCheck out_;
};

ExitCheck MissedExits::find(const process::Threads& threads, const std::vector<image::Mapping>& mappings,
                            WalkedStacks& stacks) const {
  return ThreadExits(*this, threads, mappings, stacks).find();
}

Result<ExitCheck> check_exits(pid_t pid, const resident::Journal& journal,
                              const process::TargetMemory& memory, std::chrono::milliseconds patience) {
  using namespace std::chrono_literals;
  using Clock = std::chrono::steady_clock;
  constexpr int kAttempts = 5;  // for threads that were just in a trampoline
  auto lock = process::TransactionLock::take(pid, patience);
  if (!lock) return lock.error();
  auto image = image::read_image(pid, image::Depth::code);
  if (!image) return image.error();
  if (!resident::is_in_place(journal, memory))
    return Error{fmt::format("process {} no longer holds the instrumentation", pid)};
  for (const resident::PatchedWindow& window : journal.windows) {
    std::vector<uint8_t> now(window.original.size());
    if (window.original != window.patched &&
        memory.read(window.address, std::as_writable_bytes(std::span(now))) && now == window.original)
      return Error{fmt::format(
          "not all of the instrumentation of process {} is in place: its flags say nothing", pid)};
  }
  const MissedExits missed(journal, *image, memory);
  const image::Unwinder unwinder(*image, resident::relay_places(journal.windows));
  ExitCheck out;
  for (int attempt = 0; attempt < kAttempts; attempt++) {
    process::Threads threads(pid, memory);
    const auto stopped = threads.stop_all(2s, process::kMaxPause);
    if (!stopped && (!threads.is_late() || attempt + 1 == kAttempts)) return stopped.error();
    const process::PausedMemory now(memory, threads.stopped_since(), process::kMaxPause);
    auto mappings = image::read_maps(pid);
    WalkedStacks stacks(unwinder, now);
    if (stopped && mappings) out = missed.find(threads, *mappings, stacks);
    threads.release_all();
    if (!mappings) return mappings.error();
    if (stopped && !out.unclear.contains(std::string(kNotWalked))) break;
    process::rest_after(Clock::now() - threads.stopped_since());
  }
  return out;
}

}  // namespace mdl::patch
