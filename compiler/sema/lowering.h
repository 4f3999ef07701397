// Code to IR, one snippet at a time. Private to the files lower*.cpp, which hold its parts: statements and
// conditions (lower.cpp), values (lower_value.cpp), changes (lower_change.cpp), calls (lower_call.cpp).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/sema/bind.h"
#include "compiler/sema/calls.h"

namespace mdl::sema {

inline constexpr size_t kMaxArguments = 6;  // of $arg and of calls: what every target passes in registers

class Lowering {
 public:
  using Op = ir::Op;
  using Operand = ir::Operand;

  Lowering(Owner& owner, format::PointKind point, Binder& binder, Diagnostics& diagnostics)
      : owner_(owner), binder_(binder), diagnostics_(diagnostics) {
    snippet_.point = point;
  }

  void code(const ast::CodeStatement& c);
  ir::Snippet finish();

  // What code at a return asks of the entry of its call. There is an entry for each, of one cell each; how long the call
  // ran is in the first.
  struct Asked {
    uint32_t cell = 0;                // of the owner
    const ast::Expr* kept = nullptr;  // the value that is kept; null: none is
    Span span;                        // where it is asked first
    bool is_converted = false;        // its register is converted by the source
    bool of_cpu = false;              // the thread's CPU time is kept
    bool is_read = false;             // `elapsed`, as the duration of the whole call
    bool of_self = false;             // `elapsed` is without the time of what the call's function calls
    ir::Temp value = ir::kNoTemp, elapsed = ir::kNoTemp, spent = ir::kNoTemp;
  };
  const std::vector<Asked>& asked() const { return asked_; }
  void note(const Asked& asked);                // in code at the entry
  void stand(const Asked& asked, bool begins);  // in code before a call of the function, or behind it

 private:
  enum class Use : uint8_t { value, effect };

  // --- Values ---
  Operand value(const ast::Expr& e) { return expr(e, Use::value); }
  Operand expr(const ast::Expr& e, Use use);
  Operand name(Span span, const std::string& name);
  Operand index(const ast::Expr& e, const ast::Index& index);
  Operand selected(Span span, uint32_t n);
  Operand constant(format::Expr expr);
  Operand unary(const ast::Expr& e, const ast::Unary& u);
  Operand address(const ast::Expr& e, const ast::Expr& of);
  Operand binary(const ast::Expr& e, const ast::Binary& b);
  Operand remainder(Operand a, Operand b);
  Operand short_circuit(const ast::Binary& b);
  Operand not_a_value(Span span, std::string_view what);
  Operand unknown_value(Span span, const std::string& name, bool is_read = true);
  Operand named_argument(Span span, const std::string& name);
  Operand parameter(format::ExprKind kind, const std::string& name, format::ParameterFact fact);
  Operand extended(Operand raw, format::ExprKind kind, const std::string& name);
  Operand read_register(Op op, uint32_t number, const std::string& name);
  void warn_of_sign(const ast::Binary& b);
  Operand some_argument(Operand place);
  Operand binding_value(const ast::Expr& e);
  bool runs(const ast::Expr& e) const;
  bool is_no_integer(const ast::Expr& e, bool with_texts) const;

  // --- Changes ---
  Operand assign(const ast::Expr& target, ast::AssignOp op, const ast::Expr& e, Span at, Use use);
  Operand step(const ast::Step& s, Use use);
  std::optional<uint32_t> named_cell(const ast::Expr& e, DiagnosticCode otherwise);
  std::optional<uint32_t> counter(const ast::Expr& e);
  bool is_by_key(uint32_t cell) const { return owner_.keys != nullptr && used_[cell] == 0; }
  Operand refuse_by_key(Span span);
  void leave_key(uint32_t cell);
  Operand key(const ast::Expr& e);
  Operand address_of(const ast::Expr& e, Kind wanted, std::string_view key);
  void add_to(uint32_t cell, Operand amount);
  void subtract_from(uint32_t cell, Operand amount);
  bool is_flag(uint32_t cell) const { return snippet_.cells[cell].kind == format::CellKind::flag; }
  CellHistory& history(uint32_t cell) { return owner_.histories[used_[cell]]; }
  Operand timer_call(const ast::Call& c, const CallForm& form);
  Operand update(const ast::Call& c, const CallForm& form);
  Operand note_block(const ast::Call& c, const CallForm& form);

  // --- Calls ---
  Operand call(const ast::Expr& e, const ast::Call& c, Use use);
  Operand conversion(const ast::Call& c, const CallForm& form);
  Operand converted(const ast::Expr& e, int64_t width);
  Operand built_in(const ast::Expr& e, const ast::Call& c, const CallForm& form, Use use);
  Operand application_call(const std::string& function, std::span<const ast::Expr> args);
  uint32_t call_cell();
  bool knows_duration(Span span, std::string_view name);
  Operand elapsed(Span span);
  Operand cpu_elapsed(Span span);
  Operand self_elapsed(Span span);
  Asked& ask();
  bool asks_nowhere(DiagnosticCode code, Span span);
  Operand kept(const ast::Expr& e);
  bool is_kept(const ast::Expr& e) const;
  void begin_with_asked();
  void check_asked();
  Operand read_symbol(const ast::Expr& e, const ast::Call& c, const CallForm& form);
  uint32_t symbol(const std::string& name, format::SymbolKind kind);

  // --- Conditions ---
  void jump_if_false(const ast::Expr& e, uint32_t label);

  // --- Instructions ---
  Operand emit(Op op, Operand a = Operand::none(), Operand b = Operand::none(), uint32_t index = 0);
  void effect(Op op, Operand a, uint32_t index) { snippet_.insts.push_back({op, ir::kNoTemp, a, {}, index}); }
  uint32_t new_label() { return snippet_.labels++; }
  void place(uint32_t label) { effect(Op::label, Operand::none(), label); }
  uint32_t cell(uint32_t of_owner);
  Operand failed() const { return Operand::imm(1); }  // any value: the program has an error

  Owner& owner_;
  Binder& binder_;
  Diagnostics& diagnostics_;
  ir::Snippet snippet_;
  std::vector<uint32_t> used_;   // Snippet::cells as indices into Owner::cells
  std::optional<uint32_t> end_;  // the label behind all code, where calls are not entered
  std::vector<Asked> asked_;
  bool observes_ = false;                   // a value that is kept by key
  std::optional<std::string> first_named_;  // of the arguments known by name
  bool is_converted_ = false;               // the register that is read next, by the source
};

// "$return" or "$arg[2]", as the manifest spells it, when that is all the expression is; else "".
std::string register_name(const ast::Expr& e);

}  // namespace mdl::sema
