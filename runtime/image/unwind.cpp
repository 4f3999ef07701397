// A frame's caller has pc and registers as the row of the frame's pc says (frames.h). A walk
// ends soundly at a return address that is undefined (glibc marks _start and clone so) or
// zero. Everything else is a doubt.
//
// A signal frame interrupts its caller: the caller's pc is where it executes, not a return
// address, and its stack may be another one, so that the CFA need not grow there. The kernel's
// frame is recognised by the augmentation 'S' that glibc gives its restorer, or by the
// restorer's bytes.
#include "runtime/image/unwind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "runtime/arch/description.h"
#include "runtime/arch/signal_frame.h"
#include "runtime/image/expression.h"
#include "runtime/image/frames.h"

namespace mdl::image {
namespace {

constexpr size_t kMaxSignalFrames = 64;

std::optional<uint64_t> load(const Memory& memory, uint64_t address) {
  uint64_t value = 0;
  if (!memory.read(address, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
  return value;
}

std::span<const std::byte> part(const FrameTable& table, uint32_t from, uint32_t to) {
  return table.section().subspan(from, to - from);
}

std::optional<uint64_t> find_cfa(const FrameTable& table, const Row& row, const FrameValues& values,
                                 const Memory& memory) {
  if (row.cfa_is_expression)
    return evaluate(part(table, row.expression, row.expression_end), values, std::nullopt, memory);
  if (row.cfa_register >= values.size() || !values[row.cfa_register]) return std::nullopt;
  return *values[row.cfa_register] + static_cast<uint64_t>(row.cfa_offset);
}

std::optional<uint64_t> apply(const FrameTable& table, const Rule& rule, size_t number, uint64_t cfa,
                              const FrameValues& values, const Memory& memory) {
  switch (rule.kind) {
    case Rule::Kind::same:
      return values[number];
    case Rule::Kind::undefined:
      return std::nullopt;
    case Rule::Kind::at_cfa:
      return load(memory, cfa + static_cast<uint64_t>(rule.value));
    case Rule::Kind::is_cfa:
      return cfa + static_cast<uint64_t>(rule.value);
    case Rule::Kind::in_register: {
      auto other = static_cast<uint64_t>(rule.value);
      return other < values.size() ? values[other] : std::nullopt;
    }
    case Rule::Kind::at_expression:
    case Rule::Kind::is_expression: {
      std::optional<uint64_t> value =
          evaluate(part(table, rule.expression, rule.expression_end), values, cfa, memory);
      if (!value || rule.kind == Rule::Kind::is_expression) return value;
      return load(memory, *value);
    }
  }
  return std::nullopt;
}

}  // namespace

uint64_t place_of(const Frame& frame) {
  return frame.cfa - static_cast<uint64_t>(arch::kMachine.frames.cfa_at_entry);
}

struct Unwinder::State {
  struct Entry {
    Range text;
    const FrameTable* table;
  };
  std::vector<std::shared_ptr<const FrameTable>> tables;
  std::vector<Entry> entries;  // by address
  std::vector<uint64_t> unknown;

  const FrameTable* table_at(uint64_t pc) const {
    auto after = std::upper_bound(entries.begin(), entries.end(), pc, [](uint64_t value, const Entry& entry) {
      return value < entry.text.start;
    });
    if (after == entries.begin()) return nullptr;
    return (--after)->text.contains(pc) ? after->table : nullptr;
  }
  bool is_unknown(uint64_t pc) const { return std::binary_search(unknown.begin(), unknown.end(), pc); }
  void add(const std::shared_ptr<const FrameTable>& table, const Range& text) {
    if (table) entries.push_back({text, table.get()});
  }
};

Unwinder::Unwinder(const Image& image, std::vector<uint64_t> unknown) : state_(std::make_unique<State>()) {
  state_->unknown = std::move(unknown);
  for (const Object& object : image.objects) {
    if (object.frame_table) state_->tables.push_back(object.frame_table);
    for (const Range& range : object.text) state_->add(object.frame_table, range);
  }
  if (image.vdso_frames) {
    state_->tables.push_back(image.vdso_frames);
    const std::vector<Fde>& entries = image.vdso_frames->entries();
    state_->add(image.vdso_frames, {entries.front().start, entries.back().end});
  }
  std::sort(state_->entries.begin(), state_->entries.end(),
            [](const State::Entry& a, const State::Entry& b) { return a.text.start < b.text.start; });
}

Unwinder::~Unwinder() = default;
Unwinder::Unwinder(Unwinder&&) noexcept = default;

namespace {

// Keeps the last page read: a walk goes over a stack in order, and each read from another process
// is a system call.
class PageMemory final : public Memory {
 public:
  explicit PageMemory(const Memory& memory) : memory_(memory), bytes_(kPage) {}
  bool read(uint64_t address, std::span<std::byte> into) const override {
    uint64_t page = address & ~(kPage - 1);
    uint64_t at = address - page;
    if (into.size() > kPage - at) return memory_.read(address, into);
    if (page != page_) {
      page_ = kNoPage;
      if (!memory_.read(page, bytes_)) return memory_.read(address, into);
      page_ = page;
    }
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(at), into.size(), into.begin());
    return true;
  }

 private:
  static constexpr uint64_t kPage = 4096;
  static constexpr uint64_t kNoPage = 1;
  const Memory& memory_;
  mutable uint64_t page_ = kNoPage;
  mutable std::vector<std::byte> bytes_;
};

// One thread's walk: where it is, and what it knows of the registers there.
class Walk {
 public:
  Walk(const RegisterFile& registers, const Memory& memory) : memory_(memory) {
    std::copy_n(registers.begin(), frames_.registers, values_.begin());
  }

  uint64_t pc() const { return *values_[frames_.pc]; }
  bool is_call() const { return is_call_; }
  // The address whose row holds: a call's is the one before its return address.
  uint64_t lookup_pc() const { return is_call_ ? pc() - 1 : pc(); }
  const std::string& doubt() const { return doubt_; }
  bool ended() const { return ended_; }

  // To the caller; the frame's CFA, or nothing at the end of the walk.
  std::optional<uint64_t> step(const FrameTable& table, const Fde& entry);
  std::optional<uint64_t> step_over_signal();
  // As if nothing were on the stack but the return address.
  std::optional<uint64_t> step_over_leaf();

 private:
  std::optional<uint64_t> stop(std::string doubt) {
    doubt_ = std::move(doubt);
    ended_ = true;
    return std::nullopt;
  }

  std::optional<uint64_t>& stack_pointer() { return values_[frames_.stack_pointer]; }

  const arch::Description::Frames& frames_ = arch::kMachine.frames;
  const Memory& memory_;
  FrameValues values_, caller_;
  bool is_call_ = false;
  bool ended_ = false;
  std::string doubt_;
};

std::optional<uint64_t> Walk::step(const FrameTable& table, const Fde& entry) {
  std::optional<Row> row = table.row_at(entry, lookup_pc());
  if (!row) return stop(fmt::format("the call frame information at {:#x} is malformed", pc()));
  std::optional<uint64_t> cfa = find_cfa(table, *row, values_, memory_);
  if (!cfa) return stop(fmt::format("the frame at {:#x} cannot be found", pc()));
  bool is_signal = table.cie(entry).is_signal_frame;
  for (size_t i = 0; i < frames_.registers; ++i)
    caller_[i] = apply(table, row->registers[i], i, *cfa, values_, memory_);
  const Rule& stack_rule = row->registers[frames_.stack_pointer];
  if (stack_rule.kind == Rule::Kind::same) caller_[frames_.stack_pointer] = *cfa;  // it is, by definition
  const uint64_t column = table.cie(entry).return_register;
  const Rule& return_rule = row->registers[column < frames_.registers ? column : frames_.return_address];
  bool grows = !is_call_ || !stack_pointer() || *cfa > *stack_pointer();
  if (!is_signal && !grows)
    return stop(fmt::format("the frame at {:#x} does not lie above its callee", pc()));
  if (return_rule.kind == Rule::Kind::undefined) {
    ended_ = true;
    return cfa;
  }
  // It is in its register still, in the innermost frame.
  const bool is_in_register = frames_.return_address != frames_.pc && !is_call_;
  if ((return_rule.kind == Rule::Kind::same && !is_in_register) || !caller_[frames_.return_address])
    return stop(fmt::format("the return address of the frame at {:#x} cannot be read", pc()));
  caller_[frames_.pc] = caller_[frames_.return_address];
  std::copy_n(caller_.begin(), frames_.registers, values_.begin());
  is_call_ = !is_signal;
  return cfa;
}

std::optional<uint64_t> Walk::step_over_leaf() {
  if (!stack_pointer()) return std::nullopt;
  const std::optional<uint64_t> caller =
      arch::kMachine.call_pushes == 0 ? values_[frames_.return_address] : load(memory_, *stack_pointer());
  if (!caller) return std::nullopt;
  values_[frames_.pc] = caller;
  *stack_pointer() += static_cast<uint64_t>(arch::kMachine.call_pushes);
  is_call_ = true;
  return stack_pointer();
}

std::optional<uint64_t> Walk::step_over_signal() {
  uint64_t at = stack_pointer().value_or(0);
  if (!arch::restore_signal_context(memory_, values_))
    return stop(fmt::format("the signal frame at {:#x} cannot be read", at));
  is_call_ = false;
  return at;
}

}  // namespace

Stack Unwinder::walk(const RegisterFile& registers, const Memory& uncached, size_t limit) const {
  Stack stack;
  PageMemory memory(uncached);
  Walk walk(registers, memory);
  size_t signal_frames = 0;
  while (!walk.ended()) {
    Frame frame{walk.pc(), 0, walk.is_call()};
    if (frame.pc == 0) break;
    if (stack.frames.size() == limit) {
      stack.doubt = fmt::format("there are more than {} frames", limit);
      return stack;
    }
    if (!walk.is_call() && state_->is_unknown(frame.pc)) {
      stack.doubt = fmt::format("the code at {:#x} was changed", frame.pc);
      return stack;
    }
    const FrameTable* table = state_->table_at(walk.lookup_pc());
    const Fde* entry = table ? table->find(walk.lookup_pc()) : nullptr;
    // glibc's restorer is described from the byte before it on; another one may just follow code.
    if (entry && entry->end <= frame.pc && arch::is_signal_return(memory, frame.pc)) entry = nullptr;
    bool is_signal = entry ? table->cie(*entry).is_signal_frame : arch::is_signal_return(memory, frame.pc);
    if (is_signal && ++signal_frames > kMaxSignalFrames) {
      stack.doubt = fmt::format("there are more than {} signal frames", kMaxSignalFrames);
      return stack;
    }
    // glibc ends clone's description before its system call, where the return address is on top.
    if (!entry && !is_signal && stack.frames.empty() && state_->table_at(frame.pc)) {
      std::optional<uint64_t> cfa = walk.step_over_leaf();
      if (cfa && state_->table_at(walk.lookup_pc()) &&
          state_->table_at(walk.lookup_pc())->find(walk.lookup_pc())) {
        frame.cfa = *cfa;
        stack.frames.push_back(frame);
        continue;
      }
    }
    if (!entry && !is_signal) {
      stack.doubt = fmt::format("no call frame information describes {:#x}", frame.pc);
      return stack;
    }
    std::optional<uint64_t> cfa = entry ? walk.step(*table, *entry) : walk.step_over_signal();
    if (!cfa) break;
    frame.cfa = *cfa;
    stack.frames.push_back(frame);
  }
  stack.complete = walk.doubt().empty();
  stack.doubt = walk.doubt();
  return stack;
}

}  // namespace mdl::image
