#include "backend/load_store.h"

#include "compiler/ir/op_info.h"

namespace mdl::backend {

using format::Routine;
using ir::Inst;
using ir::Op;
using ir::Operand;

namespace {

// Needs a register of the instruction's own.
bool is_number(const Operand& operand) {
  return operand.kind == Operand::Kind::immediate && operand.value != 0;
}

}  // namespace

Needs needs_load_store(const Counted& code, size_t at, const LoadStoreMachine& machine) {
  const Inst& inst = code.snippet.insts[at];
  Needs result;
  if (routine(code.snippet, inst)) result.destroys = takes_cell(inst.op) ? machine.update : machine.routine;
  switch (inst.op) {
    case Op::copy:
    case Op::update:
    case Op::enter:
    case Op::kept:
    case Op::elapsed:
    case Op::stayed:
    case Op::pause:
    case Op::resume:
    case Op::cpu:
    case Op::now:
    case Op::error:
    case Op::read_address:
    case Op::jump_zero:
      break;
    case Op::release:
    case Op::start_timer:
    case Op::stop_timer:
    case Op::sample_event:
      result.temporaries = 2;
      break;
    case Op::constant:
      result.temporaries = machine.wide_needs_own;
      break;
    case Op::call:
      result.temporaries = static_cast<uint8_t>(1 + machine.wide_needs_own);
      break;
    case Op::symbol:
    case Op::enter_call:
    case Op::leave_call:
      result.temporaries = 1;
      break;
    case Op::store:
    case Op::add_cell:
    case Op::call_arg:
      result.temporaries = static_cast<uint8_t>(1 + is_number(inst.a));
      break;
    case Op::extend:
      result.temporaries = is_number(inst.a);
      break;
    default:
      result.temporaries = static_cast<uint8_t>(is_number(inst.a) + is_number(inst.b));
      result.no_result = code.is_fused(at);
  }
  return result;
}

std::string LoadStoreSelector::cell(uint32_t index, int word) {
  return word ? fmt::format("{}{}+{}", format::kCellSymbol, index, 8 * word)
              : fmt::format("{}{}", format::kCellSymbol, index);
}

Register LoadStoreSelector::value(const Operand& operand) {
  if (!is_imm(operand)) return allocation_.temps[operand.value];
  if (operand.value == 0) return machine_.zero;
  const Register r = own();
  set_number(r, operand.value);
  return r;
}

void LoadStoreSelector::set(Register to, const Operand& from) {
  if (is_imm(from))
    set_number(to, from.value);
  else
    copy(allocation_.temps[from.value], to);
}

std::vector<Line> LoadStoreSelector::run() {
  for (at_ = 0; at_ < snippet_.insts.size(); at_++) {
    used_ = 0;
    select(snippet_.insts[at_]);
  }
  return lines_.take();
}

void LoadStoreSelector::select(const Inst& inst) {
  switch (inst.op) {
    case Op::copy:
      return set(dst(inst), inst.a);
    case Op::arg:
      return copy(target_.arguments[inst.index], dst(inst));
    case Op::result:
      return copy(target_.result, dst(inst));
    case Op::constant:
      return set_wide(dst(inst), format::kConstSymbol, inst.index,
                      machine_.wide_needs_own ? own() : kNoRegister);
    case Op::symbol:
      return symbol(inst);
    case Op::thread:
      return load_cell(dst(inst), format::kThreadSymbol);
    case Op::load:
      return load_cell(dst(inst), cell(inst.index));
    case Op::store:
      return store_value(inst.a, cell(inst.index));
    case Op::add_cell:
      return add_cell(inst);
    case Op::release:
      return release(inst);
    case Op::address:
      return set_address(dst(inst), cell(inst.index));
    case Op::start_timer:
      return start_timer(inst);
    case Op::stop_timer:
      return stop_timer(inst);
    case Op::sample_event:
      return sample_event(inst);
    case Op::update:
    case Op::enter:
    case Op::kept:
    case Op::elapsed:
    case Op::stayed:
    case Op::pause:
    case Op::resume:
      return call_with_cell(inst);
    case Op::read_address:
      set(target_.scratch, inst.a);
      [[fallthrough]];
    case Op::cpu:
    case Op::now:
    case Op::error:
      call_routine(*routine(snippet_, inst));
      return copy(target_.scratch, dst(inst));
    case Op::enter_call:
      return enter_call(inst);
    case Op::call_arg:
      return store_value(inst.a, cell(inst.index, 2 + static_cast<int>(inst.b.value)));
    case Op::call:
      return call(inst);
    case Op::leave_call:
      return store_value(Operand::imm(0), cell(inst.index));
    case Op::eq:
    case Op::ne:
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge: {
      const bool fused = code_.is_fused(at_);
      compare(inst, fused);
      at_ += fused;
      return;
    }
    case Op::jump:
      return jump(inst.index);
    case Op::jump_zero:
      return jump_zero(inst);
    case Op::label:
      return lines_.place(inst.index);
    case Op::and_:
      return three("and", inst);
    case Op::or_:
      return three(machine_.or_, inst);
    case Op::xor_:
      return three(machine_.xor_, inst);
    case Op::shl:
      return shift(machine_.left, inst);
    case Op::shr:
      return shift(machine_.right, inst);
    case Op::add:
      return add(inst, 1);
    case Op::sub:
      return add(inst, -1);
    case Op::mul:
      return three("mul", inst);
    case Op::div:
      return divide(inst);
    case Op::extend:
      return extend(inst);
    default:  // neg
      return negate(dst(inst), value(inst.a));
  }
}

void LoadStoreSelector::three(std::string_view mnemonic, const Inst& inst) {
  const Register a = value(inst.a), b = value(inst.b);
  lines_.move("{} {}, {}, {}", mnemonic, name(dst(inst)), name(a), name(b));
}

void LoadStoreSelector::shift(std::string_view mnemonic, const Inst& inst) {
  if (!is_imm(inst.b)) return three(mnemonic, inst);
  shift_number(mnemonic, dst(inst), value(inst.a), inst.b.value & 63);
}

void LoadStoreSelector::store_value(const Operand& what, const std::string& symbol) {
  const Register offset = own(), from = value(what);
  store_cell(from, symbol, offset);
}

void LoadStoreSelector::add_cell(const Inst& inst) {
  const Register address = own(), amount = value(inst.a);
  set_address(address, cell(inst.index));
  add_to(address, amount);
}

void LoadStoreSelector::count_anomaly(Register address, Register one) {
  set_address(address, format::kAnomalySymbol);
  set_number(one, 1);
  add_to(address, one);
}

// if (cell > 0) cell -= a, at least 0; else anomalies += 1.
void LoadStoreSelector::release(const Inst& inst) {
  const uint32_t anomaly = lines_.new_label(), done = lines_.new_label();
  const Register address = own(), left = own();
  set_address(address, cell(inst.index));
  load(left, address, 0);
  branch_if(Zero::at_most, left, anomaly);
  if (is_imm(inst.a))
    set_number(left, static_cast<int64_t>(0 - static_cast<uint64_t>(inst.a.value)));
  else
    negate(left, allocation_.temps[inst.a.value]);
  add_to(address, left);
  if (inst.a != Operand::imm(1)) {
    load(left, address, 0);
    branch_if(Zero::at_least, left, done);
    store(machine_.zero, address, 0);
  }
  jump(done);
  lines_.place(anomaly);
  count_anomaly(address, left);
  lines_.place(done);
}

void LoadStoreSelector::jump_zero(const Inst& inst) {
  if (!is_imm(inst.a)) return branch_if(Zero::equal, value(inst.a), inst.index);
  if (inst.a.value == 0) jump(inst.index);
}

// --- what lies outside of the snippet: format/kinds.h says what, and why in this order ---

void LoadStoreSelector::symbol(const Inst& inst) {
  const Register to = dst(inst), count = own();
  set_wide(to, format::kSymbolSymbol, inst.index, count);
  load(to, to, 0);
  shift_symbol(to, count, inst.index);
}

// Answers where the clock of the cell is: in `free`, or in the scratch register.
Register LoadStoreSelector::read_clock(const Inst& inst, Register free) {
  const auto by = routine(snippet_, inst);
  if (!by) {
    read_counter(free);
    return free;
  }
  if (*by == Routine::event)
    set_number(
        target_.scratch,
        static_cast<int64_t>(format::event(snippet_.cells[inst.index].event).value_or(format::Event())));
  call_routine(*by);
  return target_.scratch;
}

void LoadStoreSelector::start_timer(const Inst& inst) {
  const uint32_t done = lines_.new_label();
  const Register address = own(), depth = own();
  set_address(address, cell(inst.index));
  load(depth, address, 8);
  add_number(depth, depth, 1);
  store(depth, address, 8);
  add_number(depth, depth, -1);
  branch_if(Zero::not_equal, depth, done);
  const Register now = read_clock(inst, depth);
  negate(now, now);
  add_to(address, now);
  lines_.place(done);
}

void LoadStoreSelector::stop_timer(const Inst& inst) {
  const uint32_t anomaly = lines_.new_label(), inner = lines_.new_label(), done = lines_.new_label();
  const Register address = own(), depth = own();
  set_address(address, cell(inst.index));
  load(depth, address, 8);
  branch_if(Zero::at_most, depth, anomaly);
  add_number(depth, depth, -1);
  branch_if(Zero::not_equal, depth, inner);
  const Register now = read_clock(inst, depth);
  store(machine_.zero, address, 8);
  add_to(address, now);
  jump(done);
  lines_.place(inner);
  store(depth, address, 8);
  jump(done);
  lines_.place(anomaly);
  count_anomaly(address, depth);
  lines_.place(done);
}

// The count is exchanged for the last one in one instruction: what a signal handler samples in between
// is then counted once.
void LoadStoreSelector::sample_event(const Inst& inst) {
  const uint32_t done = lines_.new_label();
  const Register address = own(), last = own(), now = target_.scratch;
  set_address(address, cell(inst.index));
  read_clock(inst, now);
  add_number(last, address, 8);
  exchange(now, last);
  branch_if(Zero::equal, last, done);
  subtract(now, last);
  add_to(address, now);
  lines_.place(done);
}

void LoadStoreSelector::call_with_cell(const Inst& inst) {
  if (inst.op == Op::update || inst.op == Op::enter) set(target_.scratch, inst.a);
  set_address(target_.updated, cell(inst.index));
  call_routine(*routine(snippet_, inst));
  if (inst.dst != ir::kNoTemp) copy(target_.scratch, dst(inst));
}

void LoadStoreSelector::enter_call(const Inst& inst) {
  const Register address = own();
  set_address(address, cell(inst.index));
  load(dst(inst), address, 0);
  set_if_zero(dst(inst));
  add_to(address, dst(inst));
}

void LoadStoreSelector::call(const Inst& inst) {
  const Register address = own();
  set_address(address, cell(inst.index));
  set_wide(target_.scratch, format::kSymbolSymbol, static_cast<uint32_t>(inst.a.value),
           machine_.wide_needs_own ? own() : kNoRegister);
  store(target_.scratch, address, 8);
  copy(address, target_.scratch);
  call_routine(Routine::call);
  copy(target_.scratch, dst(inst));
}

}  // namespace mdl::backend
