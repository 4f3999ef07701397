#include "compiler/passes/unused_tables.h"

#include "compiler/ir/op_info.h"

namespace mdl::passes {
namespace {

using ir::FieldRule;
using ir::Inst;
using ir::Op;

// Keeps the marked rows; answers where each went.
template <typename Row>
std::vector<uint32_t> keep(std::vector<Row>& table, const std::vector<bool>& used) {
  std::vector<uint32_t> moved(table.size(), 0);
  std::vector<Row> kept;
  for (size_t i = 0; i < table.size(); i++) {
    if (!used[i]) continue;
    moved[i] = static_cast<uint32_t>(kept.size());
    kept.push_back(std::move(table[i]));
  }
  table = std::move(kept);
  return moved;
}

}  // namespace

void unused_tables(ir::Snippet& snippet) {
  std::vector<bool> cells(snippet.cells.size()), constants(snippet.constants.size()),
      symbols(snippet.symbols.size());
  for (const Inst& inst : snippet.insts) {
    FieldRule field = ir::info(inst.op).field;
    if (field == FieldRule::CELL) cells[inst.index] = true;
    if (field == FieldRule::CONST) constants[inst.index] = true;
    if (field == FieldRule::SYMBOL) symbols[inst.index] = true;
    if (inst.op == Op::call) symbols[static_cast<size_t>(inst.a.value)] = true;
  }
  std::vector<uint32_t> cell = keep(snippet.cells, cells), constant = keep(snippet.constants, constants),
                        symbol = keep(snippet.symbols, symbols);
  for (Inst& inst : snippet.insts) {
    FieldRule field = ir::info(inst.op).field;
    if (field == FieldRule::CELL) inst.index = cell[inst.index];
    if (field == FieldRule::CONST) inst.index = constant[inst.index];
    if (field == FieldRule::SYMBOL) inst.index = symbol[inst.index];
    if (inst.op == Op::call) inst.a.value = symbol[static_cast<size_t>(inst.a.value)];
  }
}

}  // namespace mdl::passes
