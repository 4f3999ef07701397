#include "runtime/arch/x86_64/stencil_sequences.h"

#include <algorithm>

namespace mdl::plan::x86_64 {
namespace {

constexpr format::Routine kOfEntries[] = {format::Routine::enter,   format::Routine::kept,
                                          format::Routine::elapsed, format::Routine::stayed,
                                          format::Routine::pause,   format::Routine::resume};
constexpr int64_t kFunctionWord = 8;  // of a call cell: its offset (format/kinds.h)

class Sequences {
 public:
  Sequences(const Stencil& stencil, std::span<const Decoded> code) : stencil_(stencil), code_(code) {
    for (const Decoded& d : code)
      if (d.flow != Flow::next && d.holes.empty())
        targets_.insert(d.offset + d.size + static_cast<uint64_t>(d.operands[0].value));
  }

  std::set<uint32_t> find() {
    for (size_t at = 0; at < code_.size(); ++at) {
      const std::span<const Decoded> rest = code_.subspan(at);
      if (is_variable(rest)) add(rest.first(4));
      if (is_call(rest)) add(rest.first(4));
      if (is_event(rest) || is_update(rest)) add(rest.first(2));
    }
    return std::move(found_);
  }

 private:
  void add(std::span<const Decoded> sequence) {
    for (const Decoded& d : sequence.subspan(1))
      if (targets_.contains(d.offset)) return;
    for (const Decoded& d : sequence) found_.insert(d.offset);
  }

  const Hole* hole(const Decoded& d, int operand, HoleKind kind) const {
    const auto found = d.holes.find(operand);
    if (found == d.holes.end() || stencil_.holes[found->second].kind != kind) return nullptr;
    return &stencil_.holes[found->second];
  }
  bool is_symbol(uint32_t index, format::SymbolKind kind) const {
    return index < stencil_.info.symbols.size() && stencil_.info.symbols[index].kind == kind;
  }
  static bool is_at(const Decoded& d, Register base) {  // [base + displacement]
    return d.memory >= 0 && d.operands[d.memory].reg == base && d.operands[d.memory + 2].no_register &&
           d.operands[d.memory + 4].no_register;
  }
  // The hole of [block + cell + addend], where the cell is one of a call.
  const Hole* call_cell(const Decoded& d, int64_t addend) const {
    if (!is_at(d, kR11)) return nullptr;
    const Hole* cell = hole(d, d.memory + 3, HoleKind::cell);
    if (!cell || cell->addend != addend || cell->index >= stencil_.info.cells.size()) return nullptr;
    return stencil_.info.cells[cell->index].kind == format::CellKind::call ? cell : nullptr;
  }
  bool calls(const Decoded& d, format::Routine routine) const {
    const Hole* to = d.effect == Effect::call ? hole(d, 0, HoleKind::routine) : nullptr;
    return to && to->index == static_cast<uint32_t>(routine);
  }
  // shl or sar of r by what the hole says.
  bool shifts(const Decoded& d, std::string_view name, Register r, HoleKind kind, uint32_t symbol) const {
    const Hole* by = d.name == name && d.operands[0].reg == r ? hole(d, 2, kind) : nullptr;
    return by && by->index == symbol;
  }

  bool is_variable(std::span<const Decoded> c) const {
    if (c.size() < 4 || c[0].name != "MOV64ri" || c[1].name != "MOV64rm") return false;
    const Hole* symbol = hole(c[0], 1, HoleKind::symbol);
    if (!symbol || !is_symbol(symbol->index, format::SymbolKind::variable)) return false;
    const Register r = c[0].operands[0].reg;
    const bool loads = c[1].operands[0].reg == r && is_at(c[1], r) && c[1].holes.empty() &&
                       c[1].operands[c[1].memory + 3].value == 0;
    return loads && shifts(c[2], "SHL64ri", r, HoleKind::symbol_left, symbol->index) &&
           shifts(c[3], "SAR64ri", r, HoleKind::symbol_right, symbol->index);
  }

  bool is_call(std::span<const Decoded> c) const {
    if (c.size() < 4 || c[0].name != "MOV64ri" || c[1].name != "MOV64mr" || c[2].name != "LEA64r")
      return false;
    const Hole* symbol = hole(c[0], 1, HoleKind::symbol);
    if (!symbol || !is_symbol(symbol->index, format::SymbolKind::function)) return false;
    const Hole* stored = call_cell(c[1], kFunctionWord);
    const Hole* passed = call_cell(c[2], 0);
    return stored && passed && stored->index == passed->index &&
           c[1].operands[c[1].memory + 5].reg == c[0].operands[0].reg && c[2].operands[0].reg == kR10 &&
           calls(c[3], format::Routine::call);
  }

  bool is_event(std::span<const Decoded> c) const {
    return c.size() >= 2 && c[0].name == "MOV32ri" && c[0].holes.empty() && c[0].operands[0].reg == kR10 &&
           c[0].operands[1].value >= 0 && c[0].operands[1].value < format::kEventCount &&
           calls(c[1], format::Routine::event);
  }

  // A routine of the cell's kind gets the address of that cell.
  bool is_update(std::span<const Decoded> c) const {
    if (c.size() < 2 || c[0].name != "LEA64r" || c[0].operands[0].reg != kRax || !is_at(c[0], kR11))
      return false;
    const Hole* cell = hole(c[0], c[0].memory + 3, HoleKind::cell);
    if (!cell || cell->addend != 0 || cell->index >= stencil_.info.cells.size()) return false;
    const format::CellKind kind = stencil_.info.cells[cell->index].kind;
    if (kind == format::CellKind::entries)
      return std::ranges::any_of(kOfEntries, [&](format::Routine routine) { return calls(c[1], routine); });
    const std::optional<format::Routine> by = format::info(kind).update;
    return by && calls(c[1], *by);
  }

  const Stencil& stencil_;
  std::span<const Decoded> code_;
  std::set<uint64_t> targets_;  // of branches inside the stencil
  std::set<uint32_t> found_;
};

}  // namespace

std::set<uint32_t> find_sequences(const Stencil& stencil, std::span<const Decoded> code) {
  return Sequences(stencil, code).find();
}

}  // namespace mdl::plan::x86_64
