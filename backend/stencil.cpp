#include "backend/stencil.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "backend/allocate.h"
#include "backend/peephole.h"
#include "compiler/ir/op_info.h"
#include "compiler/ir/verify.h"

namespace mdl::backend {
namespace {

using ir::Op;

Result<void> check_reachable(const ir::Snippet& snippet, const Target& target) {
  for (const ir::Inst& inst : snippet.insts)
    if (inst.op == Op::arg && inst.index >= target.arguments.size())
      return Error{fmt::format("$arg[{}] is passed on the stack on {}; only $arg[0] to $arg[{}] can be read",
                               inst.index, target.name, target.arguments.size() - 1)};
  return {};
}

// Removes lines that no path reaches, and answers the length of the longest path. Both in
// one walk: every branch goes forward.
uint32_t prune(std::vector<Line>& lines) {
  std::map<uint32_t, uint32_t> arriving;  // by label: instructions before it, at most
  std::optional<uint32_t> length = 0;     // nothing: not reached
  std::vector<Line> kept;
  for (Line& line : lines) {
    if (line.kind == Line::Kind::label) {
      auto there = arriving.find(line.label);
      if (there == arriving.end()) continue;
      length = std::max(length.value_or(0), there->second);
    } else {
      if (!length) continue;
      ++*length;
    }
    if (line.kind == Line::Kind::jump || line.kind == Line::Kind::branch)
      arriving[line.label] = std::max(arriving[line.label], *length);
    if (line.kind == Line::Kind::jump) length.reset();
    kept.push_back(std::move(line));
  }
  lines = std::move(kept);
  return length.value_or(0);
}

std::vector<format::CellUse> cell_uses(const ir::Snippet& snippet) {
  std::vector<format::CellUse> uses;
  for (const format::Cell& cell : snippet.cells) uses.push_back({cell.name, cell.kind});
  for (const ir::Inst& inst : snippet.insts) {
    if (ir::info(inst.op).field != ir::FieldRule::CELL) continue;
    if (inst.op != Op::store) uses[inst.index].reads = true;
    if (inst.op != Op::load) uses[inst.index].writes = true;
    if (inst.op == Op::start_timer) uses[inst.index].starts = true;
  }
  return uses;
}

std::vector<format::Routine> routines(const ir::Snippet& snippet) {
  std::set<format::Routine> called;
  for (const ir::Inst& inst : snippet.insts)
    if (auto one = routine(snippet, inst)) called.insert(*one);
  return {called.begin(), called.end()};
}

// Whether all that the code changes are blocks that are known: no value, no flag, and nothing of the application.
bool only_notes(const ir::Snippet& snippet) {
  const auto notes = [&](const ir::Inst& inst) {
    return inst.op == Op::store && snippet.cells[inst.index].name.ends_with(format::kKeyChangeSuffix) &&
           ir::is_imm(inst.a, static_cast<int64_t>(format::KeyChange::note));
  };
  const auto found = std::ranges::find_if(snippet.insts, notes);
  if (found == snippet.insts.end()) return false;
  std::string_view owner = snippet.cells[found->index].name;
  owner.remove_suffix(format::kKeyChangeSuffix.size());
  return std::ranges::all_of(snippet.insts, [&](const ir::Inst& inst) {
    if (ir::info(inst.op).field != ir::FieldRule::CELL || ir::info(inst.op).defines)
      return inst.op != Op::call;
    return inst.op == Op::store && snippet.cells[inst.index].name.starts_with(owner) &&
           (notes(inst) || !snippet.cells[inst.index].name.ends_with(format::kKeyChangeSuffix));
  });
}

bool writes_flags(const std::vector<Line>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const Line& line) { return line.writes_flags; });
}

// Registers that the stencil writes: those that were chosen to be, and that some line still needs. Fixed
// registers need not be named to be written.
std::vector<std::string> clobbers(const std::vector<Line>& lines, const Counted& code,
                                  const Allocation& allocation, const Target& target) {
  std::vector<bool> fixed(target.registers.size(), false);
  for (size_t at = 0; at < code.snippet.insts.size(); at++)
    for (Register r : target.needs(code, at).destroys) fixed[r] = true;
  std::vector<std::string> out;
  for (Register r = 0; r < target.registers.size(); r++) {
    if (!allocation.written[r]) continue;
    const bool named = std::any_of(lines.begin(), lines.end(),
                                   [&](const Line& line) { return names_register(line, r, target); });
    if (named || fixed[r]) out.emplace_back(target.registers[r]);
  }
  return out;
}

}  // namespace

Result<StencilText> make_stencil(const ir::Snippet& snippet, const Target& target, bool peepholes) {
  if (Result<void> verified = ir::verify(snippet); !verified)
    return Error{fmt::format("internal error: {}", verified.error().text)};
  if (Result<void> reachable = check_reachable(snippet, target); !reachable) return reachable.error();
  Counted code(hoist_inputs(snippet, target));
  Result<Allocation> allocation = allocate(code, target);
  if (!allocation) return allocation.error();

  StencilText result;
  result.lines = target.select(code, *allocation);
  result.info.name = snippet.name;
  result.info.point = snippet.point;
  result.info.position = snippet.position;
  prune(result.lines);
  if (peepholes) {
    std::vector<bool> dead = allocation->written;
    dead[target.scratch] = true;
    result.lines = peephole(std::move(result.lines), target, dead);
  }
  result.info.instructions = prune(result.lines);
  result.info.cells = cell_uses(snippet);
  result.info.constants = snippet.constants;
  result.info.symbols = snippet.symbols;
  result.info.routines = routines(snippet);
  result.info.writes_flags = writes_flags(result.lines);
  result.info.uses_result = std::any_of(snippet.insts.begin(), snippet.insts.end(),
                                        [](const ir::Inst& inst) { return inst.op == ir::Op::result; });
  result.info.only_notes = only_notes(snippet);
  result.info.clobbers = clobbers(result.lines, code, *allocation, target);
  return result;
}

StencilText make_guard(const Target& target) {
  StencilText result;
  result.lines = target.guard();
  result.info.name = format::kGuardStencil;
  result.info.instructions = prune(result.lines);
  result.info.writes_flags = writes_flags(result.lines);
  return result;
}

std::string assembly(const StencilText& stencil, size_t ordinal) {
  std::string text;
  for (const Line& line : stencil.lines) {
    std::string label = fmt::format(".L{}_{}", ordinal, line.label);
    switch (line.kind) {
      case Line::Kind::label:
        text += fmt::format("{}:\n", label);
        break;
      case Line::Kind::jump:
      case Line::Kind::branch:
        text += fmt::format("\t{} {}\n", line.text, label);
        break;
      case Line::Kind::plain:
      case Line::Kind::leave:
        text += fmt::format("\t{}\n", line.text);
        break;
    }
  }
  return text;
}

}  // namespace mdl::backend
