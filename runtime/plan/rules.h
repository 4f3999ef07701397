// The rules of the stencil verifier, each with a name: messages end with it, docs/plan-format.md lists it,
// and tests/unit/runtime/plan/rules_test.cpp has a stencil that breaks it, and fails when a rule has none.
#pragma once

#include <cstdint>
#include <string_view>

namespace mdl::plan {

//          enumerator           name                    what a stencil must not have or do
#define MDL_STENCIL_RULES(X)                                                                           \
  X(decodes, "decodes", "bytes that are no instruction")                                               \
  X(listed, "listed", "an instruction that is not on the list")                                        \
  X(prefix, "prefix", "a prefix, a segment")                                                           \
  X(same_instruction, "same-instruction", "a hole whose value makes another instruction")              \
  X(same_register, "same-register", "a hole whose value makes another register")                       \
  X(whole_field, "whole-field", "a hole that is not one whole immediate or displacement")              \
  X(hole_kind, "hole-kind", "a cell's offset as a number, a number as an address")                     \
  X(clobber, "clobber", "a clobber that is no register, or one that every stencil keeps")              \
  X(block, "block", "memory other than the thread's block")                                            \
  X(index, "index", "an index register")                                                               \
  X(cell, "cell", "a place in the block that is no declared cell")                                     \
  X(word, "word", "a word that the cell does not have")                                                \
  X(reads, "reads", "a load of a cell that is not declared as read")                                   \
  X(writes, "writes", "a store to a cell that is not declared as written")                             \
  X(read_only, "read-only", "a store to the thread's id or to a guard's flag")                         \
  X(address, "address", "the address of a cell that is not declared as read and written")              \
  X(registers, "registers", "a register that is written and not declared")                             \
  X(flags, "flags", "flags that are written and not declared")                                         \
  X(routine, "routine", "a call of anything but a resident routine that is declared")                  \
  X(prepared, "prepared", "a call of a routine without what must stand before it")                     \
  X(function, "function", "a function to call that is not a declared one")                             \
  X(symbol, "symbol", "a symbol of the application outside of the sequences for it")                   \
  X(next, "next", "`mdl_next` that is no branch's target, a branch to another hole")                   \
  X(forward, "forward", "a branch backward")                                                           \
  X(inside, "inside", "a branch out of the stencil")                                                   \
  X(onto_instruction, "onto-instruction", "a branch into the middle of an instruction")                \
  X(reached, "reached", "code that nothing reaches")                                                   \
  X(dividend, "dividend", "a division of anything but a number extended by cqo")                       \
  X(divisor, "divisor", "a division by what may be 0 or -1")                                           \
  X(dear, "dear", "a path of more than 100,000 cycles, or of more than 100 µs in routines")            \
  X(filled_cell, "filled-cell", "filled: a cell outside of the thread's block")                        \
  X(filled_next, "filled-next", "filled: a continuation that is not behind the stencil")               \
  X(filled_routine, "filled-routine", "filled: a routine inside of the stencil")                       \
  X(filled_symbol, "filled-symbol", "filled: a variable that is not aligned, a shift by more than 63") \
  X(filled_same, "filled-same", "filled: anything but the holes has changed")

enum class Rule : uint8_t {
#define X(id, name, what) id,
  MDL_STENCIL_RULES(X)
#undef X
};

struct RuleInfo {
  std::string_view name;
  std::string_view what;
};
const RuleInfo& info(Rule rule);

}  // namespace mdl::plan
