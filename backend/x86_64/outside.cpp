// Timers, events, variables of the application, calls: what these operations do to their cells is
// said in format/kinds.h, and why in this order, too.
//
// The wall clock is rdtsc (Intel SDM vol. 2): it writes %edx:%eax. The other clocks are resident routines,
// which take and give their value in %r10 and keep all else but the flags.
#include <algorithm>

#include "backend/x86_64/x86_64.h"
#include "compiler/ir/op_info.h"

namespace mdl::backend::x86_64 {
namespace {

using format::CellKind;
using format::Routine;
using ir::Inst;
using ir::Op;

constexpr Register kClock[] = {rax, rdx};
constexpr Register kRoutine[] = {r10};
constexpr Register kUpdate[] = {r10, rax};

// The words of a cell (format/kinds.h).
std::string word(uint32_t cell, int index = 0) {
  if (index == 0) return fmt::format("{}{}(%r11)", format::kCellSymbol, cell);
  return fmt::format("{}{}+{}(%r11)", format::kCellSymbol, cell, 8 * index);
}

class Outside {
 public:
  Outside(const Counted& code, const Allocation& allocation, size_t at, Lines& lines)
      : snippet_(code.snippet),
        inst_(snippet_.insts[at]),
        allocation_(allocation),
        own_(allocation.temporaries[at][0]),
        lines_(lines) {}

  void run() {
    switch (inst_.op) {
      case Op::symbol:
        return symbol();
      case Op::thread:
        return lines_.move("movq {}(%r11), {}", format::kThreadSymbol, dst());
      case Op::address:
        return lines_.move("leaq {}, {}", word(inst_.index), dst());
      case Op::start_timer:
        return start_timer();
      case Op::stop_timer:
        return stop_timer();
      case Op::sample_event:
        return sample_event();
      case Op::update:
      case Op::enter:
      case Op::kept:
      case Op::elapsed:
      case Op::stayed:
      case Op::pause:
      case Op::resume:
        return call_with_cell();
      case Op::cpu:
      case Op::now:
      case Op::error:
        return ask();
      case Op::read_address:
        return read_address();
      case Op::enter_call:
        return enter_call();
      case Op::call_arg:
        return call_arg();
      case Op::call:
        return call();
      default:  // leave_call
        return lines_.move("movq $0, {}", word(inst_.index));
    }
  }

 private:
  static std::string_view name(Register r) { return kNames[r].r64; }
  Register dst_register() const { return allocation_.temps[inst_.dst]; }
  std::string_view dst() const { return name(dst_register()); }

  void copy(Register from, Register to) {
    if (from != to) lines_.move("movq {}, {}", name(from), name(to));
  }
  // Operand a in the register.
  void fetch(Register to) {
    if (inst_.a.kind == ir::Operand::Kind::temp)
      copy(allocation_.temps[inst_.a.value], to);
    else
      lines_.move("movabsq ${}, {}", inst_.a.value, name(to));
  }

  void call_routine(Routine routine) {
    lines_.compute("call {}{}", format::kRoutineSymbol, format::info(routine).name);
  }

  // The eight bytes around the variable, less what lies on both sides of it.
  void symbol() {
    lines_.move("movabsq ${}{}, {}", format::kSymbolSymbol, inst_.index, dst());
    lines_.move("movq ({0}), {0}", dst());
    lines_.compute("shlq ${}{}, {}", format::kSymbolLeft, inst_.index, dst());
    lines_.compute("sarq ${}{}, {}", format::kSymbolRight, inst_.index, dst());
  }

  // Reads the clock of the cell and answers where it is.
  std::string_view read_clock() {
    const format::Cell& cell = snippet_.cells[inst_.index];
    const std::optional<Routine> by = routine(snippet_, inst_);
    if (!by) {
      lines_.move("rdtsc");
      lines_.compute("shlq $32, %rdx");
      lines_.compute("orq %rdx, %rax");
      return "%rax";
    }
    if (*by == Routine::event)
      lines_.move("movl ${}, %r10d", static_cast<int>(format::event(cell.event).value_or(format::Event())));
    call_routine(*by);
    return "%r10";
  }

  void start_timer() {
    const uint32_t done = lines_.new_label();
    lines_.compute("addq $1, {}", word(inst_.index, 1));
    lines_.compute("cmpq $1, {}", word(inst_.index, 1));
    lines_.branch("jne", done);
    lines_.compute("subq {}, {}", read_clock(), word(inst_.index));
    lines_.place(done);
  }

  // Inside of an outer one the clock is not needed, and may be dear.
  void stop_timer() {
    const uint32_t anomaly = lines_.new_label(), inner = lines_.new_label(), done = lines_.new_label();
    lines_.compute("cmpq $1, {}", word(inst_.index, 1));
    lines_.branch("jl", anomaly);
    lines_.branch("jne", inner);
    const std::string_view now = read_clock();
    lines_.compute("subq $1, {}", word(inst_.index, 1));
    lines_.branch("jne", done);
    lines_.compute("addq {}, {}", now, word(inst_.index));
    lines_.jump("jmp", done);
    lines_.place(inner);
    lines_.compute("subq $1, {}", word(inst_.index, 1));
    lines_.jump("jmp", done);
    lines_.place(anomaly);
    lines_.compute("addq $1, {}(%r11)", format::kAnomalySymbol);
    lines_.place(done);
  }

  // The count is exchanged for the last one in one instruction: what a signal handler samples in between
  // is then counted once.
  void sample_event() {
    const uint32_t done = lines_.new_label();
    copy_now_to_own();
    lines_.move("xchgq {}, {}", name(own_), word(inst_.index, 1));
    lines_.compute("testq {0}, {0}", name(own_));
    lines_.branch("je", done);
    lines_.compute("subq {}, %r10", name(own_));
    lines_.compute("addq %r10, {}", word(inst_.index));
    lines_.place(done);
  }
  void copy_now_to_own() {
    read_clock();
    copy(r10, own_);
  }

  void call_with_cell() {
    if (inst_.op == Op::update || inst_.op == Op::enter) fetch(r10);
    lines_.move("leaq {}, %rax", word(inst_.index));
    call_routine(*routine(snippet_, inst_));
    if (inst_.dst != ir::kNoTemp) copy(r10, dst_register());
  }

  void ask() {
    call_routine(*routine(snippet_, inst_));
    copy(r10, dst_register());
  }
  void read_address() {
    fetch(r10);
    ask();
  }

  // Busy or not is settled by one addition: a handler that calls and leaves in between changes nothing.
  void enter_call() {
    lines_.compute("cmpq $0, {}", word(inst_.index));
    lines_.move("sete {}", kNames[dst_register()].r8);
    lines_.move("movzbl {}, {}", kNames[dst_register()].r8, kNames[dst_register()].r32);
    lines_.compute("addq {}, {}", dst(), word(inst_.index));
  }

  void call_arg() {
    const std::string to = word(inst_.index, 2 + static_cast<int>(inst_.b.value));
    if (own_ == kNoRegister) return store_arg(to);
    fetch(own_);
    lines_.move("movq {}, {}", name(own_), to);
  }
  void store_arg(const std::string& to) {
    if (inst_.a.kind == ir::Operand::Kind::temp)
      lines_.move("movq {}, {}", name(allocation_.temps[inst_.a.value]), to);
    else
      lines_.move("movq ${}, {}", inst_.a.value, to);
  }

  // Exactly this sequence is what the verifier admits: nothing else names what is called.
  void call() {
    lines_.move("movabsq ${}{}, %r10", format::kSymbolSymbol, inst_.a.value);
    lines_.move("movq %r10, {}", word(inst_.index, 1));
    lines_.move("leaq {}, %r10", word(inst_.index));
    call_routine(Routine::call);
    copy(r10, dst_register());
  }

  const ir::Snippet& snippet_;
  const Inst& inst_;
  const Allocation& allocation_;
  const Register own_;
  Lines& lines_;
};

}  // namespace

bool is_outside(Op op) {
  constexpr Op kOutside[] = {
      Op::symbol,   Op::thread, Op::address,   Op::start_timer, Op::stop_timer,   Op::sample_event,
      Op::update,   Op::enter,  Op::kept,      Op::elapsed,     Op::stayed,       Op::pause,
      Op::resume,   Op::cpu,    Op::now,       Op::error,       Op::read_address, Op::enter_call,
      Op::call_arg, Op::call,   Op::leave_call};
  return std::find(std::begin(kOutside), std::end(kOutside), op) != std::end(kOutside);
}

Needs needs_outside(const Counted& code, size_t at) {
  const Inst& inst = code.snippet.insts[at];
  Needs result;
  const bool timer = inst.op == Op::start_timer || inst.op == Op::stop_timer;
  if (takes_cell(inst.op))
    result.destroys = kUpdate;
  else if (routine(code.snippet, inst))
    result.destroys = kRoutine;
  else if (timer)
    result.destroys = kClock;
  if (inst.op == Op::sample_event) result.temporaries = 1;
  if (inst.op == Op::call_arg) result.temporaries = is_wide(inst.a);
  return result;
}

void select_outside(const Counted& snippet, const Allocation& allocation, size_t at, Lines& lines) {
  Outside(snippet, allocation, at, lines).run();
}

}  // namespace mdl::backend::x86_64
