// Instruction selection for machines that compute in registers only, with three operands: what aarch64 and
// riscv64 have in common. Which instructions an operation takes is decided here, in the words of the virtual
// functions below; how they are spelled is the target's.
//
// The needs of an operation (needs_load_store) and the registers that it takes (LoadStoreSelector::own) stand
// in the same file, so that they fit.
#pragma once

#include <span>

#include "backend/lines.h"
#include "backend/target.h"

namespace mdl::backend {

// Differences in the registers, and in the names of instructions that are alike.
struct LoadStoreMachine {
  Register zero;  // the one that always reads as 0
  std::string_view zero_name;
  std::string_view or_, xor_, left, right;  // the two shifts
  std::span<const Register> routine;        // what a call of a routine destroys,
  std::span<const Register> update;         // and of one that updates a cell
  bool wide_needs_own = false;              // setting a number of 64 bits takes a register besides its own
};

Needs needs_load_store(const Counted& snippet, size_t at, const LoadStoreMachine& machine);

class LoadStoreSelector {
 public:
  LoadStoreSelector(const Counted& code, const Allocation& allocation, const Target& target,
                    const LoadStoreMachine& machine)
      : code_(code),
        snippet_(code.snippet),
        lines_(code.snippet.labels),
        allocation_(allocation),
        target_(target),
        machine_(machine) {}
  virtual ~LoadStoreSelector() = default;
  LoadStoreSelector(const LoadStoreSelector&) = delete;
  LoadStoreSelector& operator=(const LoadStoreSelector&) = delete;

  std::vector<Line> run();

 protected:
  enum class Zero : uint8_t { equal, not_equal, at_most, at_least };  // how a register compares with 0

  // --- what a target spells ---
  virtual void copy_register(Register from, Register to) = 0;  // two different ones
  virtual void set_number(Register to, int64_t value) = 0;
  // The 64 bits that `prefix` + index, or a half of it, stands for. `own` as in
  // LoadStoreMachine::wide_needs_own.
  virtual void set_wide(Register to, const char* prefix, uint32_t index, Register own) = 0;
  // The block register plus the symbol's offset; the word there.
  virtual void set_address(Register to, const std::string& symbol) = 0;
  virtual void load_cell(Register to, const std::string& symbol) = 0;
  virtual void store_cell(Register from, const std::string& symbol, Register own) = 0;
  // At an address; `offset` is 0 or 8.
  virtual void load(Register to, Register address, int offset) = 0;
  virtual void store(Register from, Register address, int offset) = 0;
  virtual void add_to(Register address, Register amount) = 0;  // one instruction
  virtual void exchange(Register with, Register address) = 0;  // in one: `address` has what was there
  virtual void add_number(Register to, Register from, int value) = 0;
  virtual void negate(Register to, Register from) = 0;
  virtual void subtract(Register to, Register what) = 0;                     // to -= what
  virtual void set_if_zero(Register to) = 0;                                 // to = to == 0
  virtual void shift_symbol(Register to, Register own, uint32_t index) = 0;  // left, then right
  virtual void branch_if(Zero how, Register r, uint32_t label) = 0;
  virtual void jump(uint32_t label) = 0;
  virtual void read_counter(Register to) = 0;  // the wall clock
  virtual void call_routine(format::Routine routine) = 0;
  virtual void add(const ir::Inst& inst, int sign) = 0;  // of the second operand
  virtual void divide(const ir::Inst& inst) = 0;
  virtual void extend(const ir::Inst& inst) = 0;
  virtual void shift_number(std::string_view mnemonic, Register to, Register from, int64_t by) = 0;
  virtual void compare(const ir::Inst& inst, bool fused) = 0;  // fused: the jump_zero behind it, too

  // --- operands ---
  static std::string cell(uint32_t index, int word = 0);
  std::string_view name(Register r) const {
    return r == machine_.zero ? machine_.zero_name : target_.registers[r];
  }
  Register dst(const ir::Inst& inst) const { return allocation_.temps[inst.dst]; }
  Register own() { return allocation_.temporaries[at_][used_++]; }
  // The operand's register; a number gets one of the instruction's own.
  Register value(const ir::Operand& operand);
  void copy(Register from, Register to) {
    if (from != to) copy_register(from, to);
  }
  void set(Register to, const ir::Operand& from);
  uint32_t fused_label() const { return snippet_.insts[at_ + 1].index; }
  void three(std::string_view mnemonic, const ir::Inst& inst);  // the result, and two operands in registers

  const Counted& code_;
  const ir::Snippet& snippet_;
  Lines lines_;

 private:
  void select(const ir::Inst& inst);
  void shift(std::string_view mnemonic, const ir::Inst& inst);
  void store_value(const ir::Operand& what, const std::string& symbol);
  void add_cell(const ir::Inst& inst);
  void release(const ir::Inst& inst);
  void count_anomaly(Register address, Register one);
  void symbol(const ir::Inst& inst);
  Register read_clock(const ir::Inst& inst, Register free);
  void start_timer(const ir::Inst& inst);
  void stop_timer(const ir::Inst& inst);
  void sample_event(const ir::Inst& inst);
  void call_with_cell(const ir::Inst& inst);
  void enter_call(const ir::Inst& inst);
  void call(const ir::Inst& inst);
  void jump_zero(const ir::Inst& inst);

  const Allocation& allocation_;
  const Target& target_;
  const LoadStoreMachine& machine_;
  size_t at_ = 0;
  size_t used_ = 0;  // of the instruction's own registers
};

}  // namespace mdl::backend
