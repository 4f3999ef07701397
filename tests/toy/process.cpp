// What has to do with a process: registers, stubs, system calls, clocks. No toy process exists, so code here
// is made and never executed; it does what its header says but for what only a kernel could see.
#include <algorithm>

#include "runtime/arch/clock.h"
#include "runtime/arch/conventions.h"
#include "runtime/arch/entry_stub.h"
#include "runtime/arch/hit_time.h"
#include "runtime/arch/remote_stub.h"
#include "runtime/arch/signal_frame.h"
#include "runtime/arch/system_calls.h"
#include "runtime/arch/thread_registers.h"
#include "tests/toy/encoding.h"

namespace mdl::arch {
namespace {

// Words of ThreadRegisters: those that are looked at here. The number of the call is in kResult before it.
enum : size_t { kWordResult = 0, kWordPc = 1, kWordStack = 2, kWordThread = 3, kWordCall = 4, kWordLink = 5 };
constexpr uint64_t kNoCall = ~uint64_t{0};

}  // namespace

uint64_t pc(const ThreadRegisters& regs) {
  return regs.words[kWordPc];
}
void set_pc(ThreadRegisters& regs, uint64_t address) {
  regs.words[kWordPc] = address;
}
uint64_t stack_pointer(const ThreadRegisters& regs) {
  return regs.words[kWordStack];
}
void set_stack_pointer(ThreadRegisters& regs, uint64_t address) {
  regs.words[kWordStack] = address;
}
bool are_whole(const ThreadRegisters&) {
  return true;
}
uint64_t thread_pointer(const ThreadRegisters& regs) {
  return regs.words[kWordThread];
}
image::RegisterFile unwind_registers(const ThreadRegisters& regs) {
  image::RegisterFile out{};
  out[30] = regs.words[kWordLink];
  out[31] = regs.words[kWordStack];
  out[32] = regs.words[kWordPc];
  return out;
}
long system_call(const ThreadRegisters& regs) {
  return regs.words[kWordCall] == kNoCall ? -1 : static_cast<long>(regs.words[kWordCall]);
}
// Its kernel restarts all calls by itself.
bool hide_interruption(ThreadRegisters&) {
  return false;
}

bool interrupted_wait(const ThreadRegisters&) {
  return false;
}

// It has no signals.
bool is_signal_return(const image::Memory&, uint64_t) {
  return false;
}
bool restore_signal_context(const image::Memory&, image::FrameValues&) {
  return false;
}

// Registers are not saved: kResult and the arguments are lost.
RemoteStub remote_stub(std::span<const RemoteCall> calls, std::string_view text,
                       const ThreadRegisters& registers, uint64_t /*signal_mask*/, uint64_t address) {
  RemoteStub out;
  toy::Assembler a(out.code, address);
  const uint64_t behind = address + toy::kSize + (text.size() + toy::kSize - 1) / toy::kSize * toy::kSize;
  a.lead(toy::jump, behind);
  out.code.insert(out.code.end(), text.begin(), text.end());
  out.code.resize(behind - address);
  for (const RemoteCall& call : calls) {
    for (size_t i = 0; i < call.args.size(); i++) {
      const auto number = static_cast<uint8_t>(toy::kArgument + i);
      const bool is_text = (call.args[i] & 0xffffffff00000000u) == kTextTag;
      if (call.args[i] == kLastResult)
        a.put({toy::move, number, toy::kSpare});
      else
        a.put({toy::set, number, 0, toy::kNone,
               static_cast<int32_t>(is_text ? address + toy::kSize + (call.args[i] & 0xffffffffu)
                                            : call.args[i])});
    }
    a.put({toy::set, toy::kResult, 0, toy::kNone, static_cast<int32_t>(call.number)});
    a.put({toy::system_call});
    out.calls.push_back({call.number, a.here()});
    if (call.keep) a.put({toy::move, toy::kSpare, toy::kResult});
  }
  a.lead(toy::jump, pc(registers));
  return out;
}
void drop_call(ThreadRegisters& regs) {
  regs.words[kWordCall] = kNoCall;
}
ThreadRegisters remote_entry(const ThreadRegisters& regs, uint64_t address) {
  ThreadRegisters out = regs;
  set_pc(out, address);
  drop_call(out);
  return out;
}

// A program does not wait: it goes on to its entry.
EntryStub entry_stub(std::string_view, pid_t, uint64_t entry, uint64_t, uint64_t address) {
  EntryStub out;
  toy::Assembler(out.code, address).lead(toy::jump, entry);
  return out;
}
ThreadRegisters leave_entry_stub(const ThreadRegisters& regs, std::span<const std::byte>, uint64_t entry) {
  ThreadRegisters out = regs;
  set_pc(out, entry);
  return out;
}
std::vector<PlannedCall> entry_stub_calls() {
  return {};
}

std::string call_name(long number) {
  return "system call " + std::to_string(number);
}
// No filter for its calls exists: none is asked.
PlannedCall signal_mask_call() {
  return {8, {}, {}};
}
std::vector<PlannedCall> insertion_calls(bool, bool) {
  return {};
}
std::vector<PlannedCall> resident_calls(bool, bool) {
  return {};
}
std::vector<PlannedCall> routine_calls(format::Routine) {
  return {};
}
std::vector<PlannedCall> descriptor_calls() {
  return {};
}

// Its counter is the host's clock, in nanoseconds; it takes one for each cycle.
uint64_t wall_ticks() {
  return monotonic_ns();
}
Result<uint64_t> ticks_per_second(const ClockPair&) {
  return uint64_t{1'000'000'000};
}
double picoseconds_per_cycle() {
  return 1000;
}
HitTime measure_hit_time(uint64_t, double) {
  return {};
}

ArgumentClass class_of_argument(const ValueShape& shape) {
  const bool fits = shape.kind == ValueShape::Kind::integer && shape.size <= 8;
  if (shape.kind == ValueShape::Kind::nothing) return ArgumentClass::none;
  return fits ? ArgumentClass::integer : ArgumentClass::unknown;
}
ArgumentClass class_of_result(const ValueShape& shape) {
  return class_of_argument(shape) == ArgumentClass::unknown ? ArgumentClass::unknown : ArgumentClass::none;
}
image::Registers kept_behind_calls(bool result) {
  return image::register_bit(toy::kStack) | (result ? image::register_bit(toy::kResult) : 0);
}
bool is_behind_call(const image::Memory&, uint64_t) {
  return false;
}

}  // namespace mdl::arch
