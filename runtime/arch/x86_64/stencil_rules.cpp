// The verifier of x86_64 stencils.
//
// A stencil is decoded twice, with its holes filled by two different patterns. Whatever
// differs between the two decodings depends on a hole; a hole is admitted only when the
// difference is exactly one operand, equal to the pattern both times. That proves that
// the hole is precisely a displacement or immediate field, without a table of encodings.
//
// Instructions are admitted by LLVM's opcode name. LLVM's descriptions say what each one
// writes; the table here says only which may be used and how they may touch memory.
// Prefixes are refused by looking at the bytes, because LLVM folds them silently.
//
// Divisions (Intel SDM vol. 2, IDIV) trap on a zero divisor and on -2^63 / -1. An idiv is
// admitted where rdx is rax's sign (cqo) and comparisons on every path from the stencil's
// start have excluded a divisor of 0 and of -1. Branches go forward only, so one walk in
// address order sees every path.
#include "runtime/arch/x86_64/stencil_rules.h"

#include <fmt/format.h>
#include <llvm/BinaryFormat/ELF.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/arch/x86_64/counter_read.h"
#include "runtime/arch/x86_64/stencil_cost.h"
#include "runtime/arch/x86_64/stencil_decode.h"
#include "runtime/arch/x86_64/stencil_sequences.h"

namespace mdl::plan::x86_64 {
namespace {

constexpr int64_t kCellBytes = 8;  // every access is of one 64-bit cell

std::optional<FieldShape> field_shape(uint32_t relocation_type) {
  switch (relocation_type) {
    case llvm::ELF::R_X86_64_32S:
    case llvm::ELF::R_X86_64_32:
      return FieldShape{4, false};
    case llvm::ELF::R_X86_64_64:
      return FieldShape{8, false};
    case llvm::ELF::R_X86_64_8:
      return FieldShape{1, false};
    case llvm::ELF::R_X86_64_PC32:
    case llvm::ELF::R_X86_64_PLT32:
      return FieldShape{4, true};
    default:
      return std::nullopt;
  }
}

// Facts of the registers at one point that hold on every path that leads there.
struct Facts {
  uint32_t not_zero = 0;       // bit per register
  uint32_t not_minus_one = 0;  // bit per register
  bool sign_in_rdx = false;    // rdx:rax is the sign extension of rax
  Register compared = kNone;   // the flags are those of comparing this register ...
  int64_t compared_with = 0;   // ... with this value

  void forget(Register r) {
    not_zero &= ~bit(r);
    not_minus_one &= ~bit(r);
    if (r == kRax || r == kRdx) sign_in_rdx = false;
    if (compared == r) compared = kNone;
  }
  void exclude(Register r, int64_t value) {
    if (r == kNone) return;
    if (value == 0) not_zero |= bit(r);
    if (value == -1) not_minus_one |= bit(r);
  }
  void meet(const Facts& other) {
    not_zero &= other.not_zero;
    not_minus_one &= other.not_minus_one;
    sign_in_rdx = sign_in_rdx && other.sign_in_rdx;
    if (compared != other.compared || compared_with != other.compared_with) compared = kNone;
  }
};

class Verifier {
 public:
  // `block_size` is set when the holes are filled.
  Verifier(const Stencil& stencil, std::vector<Decoded> code, std::optional<uint64_t> block_size)
      : stencil_(stencil),
        code_(std::move(code)),
        in_sequence_(find_sequences(stencil, code_)),
        block_size_(block_size) {}

  Result<void> run();

 private:
  const Hole* hole(const Decoded& at, int operand) const {
    const auto found = at.holes.find(operand);
    return found == at.holes.end() ? nullptr : &stencil_.holes[found->second];
  }
  static Error at(const Decoded& decoded, Rule rule, const std::string& what) {
    return broken(rule, fmt::format("at +{:#x} ({}): {}", decoded.offset, decoded.name, what));
  }

  Result<void> read_clobbers();
  Result<void> check_memory(const Decoded& at);
  Result<void> check_cell_access(const Decoded& at, const Hole& hole);
  Result<void> check_word(const Decoded& at, const Hole& hole);
  Result<void> check_address(const Decoded& at);
  Result<void> check_call(const Decoded& at);
  Result<void> check_symbol(const Decoded& at, const Hole& hole, int64_t value);
  Result<void> check_writes(const Decoded& at);
  Result<void> check_hole_kinds(const Decoded& at);
  Result<void> check_branch(const Decoded& at);
  Result<void> check_division(const Decoded& at, const Facts& facts);
  Result<void> walk();
  void learn(const Decoded& at, Facts& facts) const;

  const Stencil& stencil_;
  std::vector<Decoded> code_;
  std::set<uint32_t> in_sequence_;  // offsets of instructions
  std::optional<uint64_t> block_size_;
  uint32_t writable_ = bit(kR10);
};

Result<void> Verifier::read_clobbers() {
  for (const std::string& name : stencil_.info.clobbers) {
    const Register r = register_named(name);
    if (r == kNone)
      return broken(Rule::clobber, fmt::format("it declares to write `{}`, which is no register", name));
    if (r == kR11 || r == kRsp)
      return broken(Rule::clobber,
                    fmt::format("it declares to write `{}`, which every stencil must preserve", name));
    writable_ |= bit(r);
  }
  return {};
}

Result<void> Verifier::check_memory(const Decoded& d) {
  if (d.access == Access::none) return {};
  if (d.memory < 0) return at(d, Rule::block, "its memory operand cannot be understood");
  const auto& base = d.operands[d.memory];
  const auto& index = d.operands[d.memory + 2];
  const auto& segment = d.operands[d.memory + 4];
  // The sequence's one load: of an application variable.
  if (base.reg != kR11 && in_sequence_.contains(d.offset)) return {};
  if (base.reg != kR11)
    return at(d, Rule::block, "its memory operand is not based on the thread block (r11)");
  if (!index.no_register) return at(d, Rule::index, "its memory operand has an index register");
  if (!segment.no_register) return at(d, Rule::prefix, "its memory operand has a segment");
  const Hole* displacement = hole(d, d.memory + 3);
  if (!displacement)
    return at(d, Rule::cell, "its memory operand has a fixed displacement: only declared cells may be used");
  if (auto word = check_word(d, *displacement); !word) return word;
  if (block_size_) {
    const int64_t offset = d.operands[d.memory + 3].value;
    if (offset < 0 || offset % kCellBytes != 0 || static_cast<uint64_t>(offset) >= *block_size_ ||
        *block_size_ - static_cast<uint64_t>(offset) < kCellBytes)
      return at(d, Rule::filled_cell,
                fmt::format("offset {} is not a cell of a thread block of {} bytes", offset, *block_size_));
  }
  return check_cell_access(d, *displacement);
}

// The displacement is that of one of the cell's words. Only the first word of a flag is the stencil's.
Result<void> Verifier::check_word(const Decoded& d, const Hole& hole) {
  int64_t size = kCellBytes;
  if (hole.kind == HoleKind::cell && hole.index < stencil_.info.cells.size()) {
    const format::CellKind kind = stencil_.info.cells[hole.index].kind;
    if (kind != format::CellKind::flag) size = format::info(kind).size;
    const bool names_function = kind == format::CellKind::call && hole.addend == kCellBytes;
    if (names_function && d.access != Access::load && !in_sequence_.contains(d.offset))
      return at(d, Rule::function, "it changes which function a call goes to");
  }
  if (hole.addend < 0 || hole.addend >= size || hole.addend % kCellBytes != 0)
    return at(d, Rule::word, "its memory operand adds to the offset of a cell");
  return {};
}

// lea of the block register and a cell: the cell's address, with which others may read and write it.
Result<void> Verifier::check_address(const Decoded& d) {
  if (d.effect != Effect::address) return {};
  const Hole* displacement = hole(d, d.memory + 3);
  if (!displacement) return {};
  const bool plain = d.operands[d.memory].reg == kR11 && d.operands[d.memory + 2].no_register &&
                     displacement->kind == HoleKind::cell && displacement->addend == 0;
  if (!plain || displacement->index >= stencil_.info.cells.size())
    return at(d, Rule::hole_kind, "the offset of a cell is used as a number");
  const format::CellUse& use = stencil_.info.cells[displacement->index];
  if (!use.reads || !use.writes)
    return at(d, Rule::address,
              fmt::format("it takes the address of cell `{}`, which it does not declare to read and write",
                          use.name));
  if (!block_size_) return {};
  const int64_t offset = d.operands[d.memory + 3].value;
  const uint64_t size = format::info(use.kind).size;
  if (offset < 0 || offset % kCellBytes != 0 || size > *block_size_ ||
      static_cast<uint64_t>(offset) > *block_size_ - size)
    return at(d, Rule::filled_cell,
              fmt::format("offset {} is no place of cell `{}` in a thread block of {} bytes", offset,
                          use.name, *block_size_));
  return {};
}

Result<void> Verifier::check_call(const Decoded& d) {
  if (d.effect != Effect::call) return {};
  const Hole* to = hole(d, 0);
  if (!to || to->kind != HoleKind::routine)
    return at(d, Rule::routine, "it calls something that is no resident routine");
  const auto routine = static_cast<format::Routine>(to->index);
  const auto& declared = stencil_.info.routines;
  if (std::find(declared.begin(), declared.end(), routine) == declared.end())
    return at(d, Rule::routine, "it calls a routine that the stencil does not declare");
  using enum format::Routine;
  const bool alone = routine == cpu || routine == now || routine == error || routine == read;
  if (!alone && !in_sequence_.contains(d.offset))
    return at(
        d, Rule::prepared,
        fmt::format("the call of routine `{}` is not prepared as it must be", format::info(routine).name));
  const int64_t target = static_cast<int64_t>(d.offset) + d.size + d.operands[0].value;
  if (block_size_ && target >= 0 && target < static_cast<int64_t>(stencil_.code.size()))
    return at(d, Rule::filled_routine, "the routine lies inside of the stencil");
  return {};
}

Result<void> Verifier::check_symbol(const Decoded& d, const Hole& hole, int64_t value) {
  if (!in_sequence_.contains(d.offset))
    return at(d, Rule::symbol, "an application symbol is not used as it must be");
  if (!block_size_) return {};
  const bool variable = stencil_.info.symbols[hole.index].kind == format::SymbolKind::variable;
  if (hole.kind == HoleKind::symbol && variable && value % kCellBytes != 0)
    return at(d, Rule::filled_symbol, "a variable is not read as aligned bytes");
  if (hole.kind != HoleKind::symbol && (value < 0 || value > 63))
    return at(d, Rule::filled_symbol, "it shifts by more than 63");
  return {};
}

Result<void> Verifier::check_cell_access(const Decoded& d, const Hole& hole) {
  const bool writes = d.access != Access::load;
  switch (hole.kind) {
    case HoleKind::cell: {
      if (hole.index >= stencil_.info.cells.size())
        return at(d, Rule::cell, "it uses a cell that is not declared");
      const format::CellUse& use = stencil_.info.cells[hole.index];
      if (writes && !use.writes)
        return at(d, Rule::writes,
                  fmt::format("it writes cell `{}`, which it does not declare to write", use.name));
      if (!writes && !use.reads)
        return at(d, Rule::reads,
                  fmt::format("it reads cell `{}`, which it does not declare to read", use.name));
      return {};
    }
    case HoleKind::anomalies:
      return {};
    case HoleKind::thread:
      if (writes) return at(d, Rule::read_only, "it writes the thread's id");
      return {};
    case HoleKind::guard:
      if (writes) return at(d, Rule::read_only, "it writes the flag of a guard");
      return {};
    case HoleKind::constant:
    case HoleKind::symbol:
    case HoleKind::symbol_left:
    case HoleKind::symbol_right:
    case HoleKind::routine:
    case HoleKind::next:
      break;
  }
  return at(d, Rule::hole_kind, "its displacement is not that of a cell");
}

Result<void> Verifier::check_writes(const Decoded& d) {
  if (d.writes_other) return at(d, Rule::registers, "it writes a register that no stencil may write");
  if (d.written & ~writable_)
    return at(d, Rule::registers,
              fmt::format("it writes {}, which the stencil does not declare",
                          register_name(lowest(d.written & ~writable_))));
  if (d.writes_flags && !stencil_.info.writes_flags)
    return at(d, Rule::flags, "it changes the flags, which the stencil does not declare");
  return {};
}

// Offsets of cells are displacements, constants are immediates, `next` is a branch.
Result<void> Verifier::check_hole_kinds(const Decoded& d) {
  for (const auto& [operand, index] : d.holes) {
    const HoleKind kind = stencil_.holes[index].kind;
    const bool of_memory = d.access != Access::none || d.effect == Effect::address;
    const bool displacement = of_memory && operand == d.memory + 3;
    const bool branch = d.flow != Flow::next;
    if (kind == HoleKind::next && !branch)
      return at(d, Rule::next, "`mdl_next` is not the target of a branch");
    if (kind != HoleKind::next && branch)
      return at(d, Rule::next, "a branch goes to something that is not `mdl_next`");
    if (kind == HoleKind::constant && d.memory >= 0 && operand <= d.memory + 4)
      return at(d, Rule::hole_kind, "a constant is used as an address");
    if (kind == HoleKind::symbol || kind == HoleKind::symbol_left || kind == HoleKind::symbol_right) {
      if (auto ok = check_symbol(d, stencil_.holes[index], d.operands[operand].value); !ok) return ok;
      continue;
    }
    if ((kind == HoleKind::routine) != (d.effect == Effect::call))
      return at(d, Rule::routine, "a resident routine is not the destination of a call");
    if (kind == HoleKind::routine) continue;
    if (kind != HoleKind::constant && kind != HoleKind::next && !displacement)
      return at(d, Rule::hole_kind, "the offset of a cell is used as a number");
  }
  return {};
}

Result<void> Verifier::check_branch(const Decoded& d) {
  if (d.flow == Flow::next) return {};
  const int64_t distance = d.operands[0].value;
  const int64_t target = static_cast<int64_t>(d.offset) + d.size + distance;
  const auto size = static_cast<int64_t>(stencil_.code.size());
  if (hole(d, 0)) {
    if (block_size_ && target < size)
      return at(d, Rule::filled_next, "the continuation does not lie behind the stencil");
    return {};
  }
  if (distance < 0) return at(d, Rule::forward, "it branches backward");
  if (target > size) return at(d, Rule::inside, "it branches out of the stencil");
  const auto there = std::lower_bound(
      code_.begin(), code_.end(), target,
      [](const Decoded& other, int64_t offset) { return static_cast<int64_t>(other.offset) < offset; });
  if (there != code_.end() && static_cast<int64_t>(there->offset) == target) return {};
  if (target != size) return at(d, Rule::onto_instruction, "it branches into the middle of an instruction");
  return {};
}

Result<void> Verifier::check_division(const Decoded& d, const Facts& facts) {
  if (d.effect != Effect::divide) return {};
  const uint32_t divisor = bit(d.operands[0].reg);
  if (!facts.sign_in_rdx)
    return at(d, Rule::dividend, "the dividend is not rax extended by cqo right before it");
  if (!(facts.not_zero & divisor)) return at(d, Rule::divisor, "the divisor may be 0");
  if (!(facts.not_minus_one & divisor)) return at(d, Rule::divisor, "the divisor may be -1");
  return {};
}

// Updates the facts over one instruction that falls through.
void Verifier::learn(const Decoded& d, Facts& facts) const {
  Facts before = facts;
  if (d.writes_flags) facts.compared = kNone;
  for (int r = 0; r < kRegisters; ++r)
    if (d.written & bit(static_cast<Register>(r))) facts.forget(static_cast<Register>(r));
  switch (d.effect) {
    case Effect::extend_rax:
      facts.sign_in_rdx = true;
      break;
    case Effect::copy: {
      const Register to = d.operands[0].reg, from = d.operands[1].reg;
      if (before.not_zero & bit(from)) facts.not_zero |= bit(to);
      if (before.not_minus_one & bit(from)) facts.not_minus_one |= bit(to);
      break;
    }
    case Effect::set: {
      const auto& value = d.operands[1];
      if (d.holes.contains(1)) break;
      if (value.value != 0) facts.not_zero |= bit(d.operands[0].reg);
      if (value.value != -1) facts.not_minus_one |= bit(d.operands[0].reg);
      break;
    }
    case Effect::test:
      if (d.operands[0].reg != d.operands[1].reg) break;
      facts.compared = d.operands[0].reg;
      facts.compared_with = 0;
      break;
    case Effect::compare:
      if (d.holes.contains(1)) break;
      facts.compared = d.operands[0].reg;
      facts.compared_with = d.operands[1].value;
      break;
    case Effect::plain:
    case Effect::divide:
    case Effect::address:
    case Effect::call:
      break;
  }
}

Result<void> Verifier::walk() {
  std::map<uint64_t, Facts> arriving;  // from branches, by target
  const auto branch_to = [&](uint64_t target, const Facts& facts) {
    const auto [slot, fresh] = arriving.try_emplace(target, facts);
    if (!fresh) slot->second.meet(facts);
  };
  std::optional<Facts> facts = Facts{};  // nothing: not reached by falling through
  for (const Decoded& d : code_) {
    if (const auto jumped = arriving.find(d.offset); jumped != arriving.end()) {
      if (facts) facts->meet(jumped->second);
      if (!facts) facts = jumped->second;
    }
    if (!facts) return at(d, Rule::reached, "it is never reached");
    if (auto safe = check_division(d, *facts); !safe) return safe;
    learn(d, *facts);
    if (d.flow == Flow::next) continue;
    Facts taken = *facts, fallen = *facts;
    if (d.flow == Flow::if_not_equal) taken.exclude(facts->compared, facts->compared_with);
    if (d.flow == Flow::if_equal) fallen.exclude(facts->compared, facts->compared_with);
    if (!hole(d, 0)) branch_to(d.offset + d.size + static_cast<uint64_t>(d.operands[0].value), taken);
    facts = fallen;
    if (d.flow == Flow::jump) facts.reset();
  }
  return {};
}

Result<void> Verifier::run() {
  if (auto read = read_clobbers(); !read) return read;
  for (const Decoded& d : code_) {
    if (auto ok = check_hole_kinds(d); !ok) return ok;
    if (auto ok = check_memory(d); !ok) return ok;
    if (auto ok = check_address(d); !ok) return ok;
    if (auto ok = check_call(d); !ok) return ok;
    if (auto ok = check_writes(d); !ok) return ok;
    if (auto ok = check_branch(d); !ok) return ok;
  }
  return walk();
}

Result<void> verify_stencil(const Stencil& stencil) {
  auto code = decode_stencil(stencil);
  if (!code) return code.error();
  if (auto ok = Verifier(stencil, *code, std::nullopt).run(); !ok) return ok;
  const StencilCost cost = cost_of(stencil, *code);
  if (cost.cycles <= kMostCycles && cost.routine_ns <= kMostRoutineNs) return {};
  return broken(Rule::dear, fmt::format("a path through it takes {} cycles and {} us in routines",
                                        cost.cycles / 100, cost.routine_ns / 1000));
}

Result<void> verify_filled_stencil(const Stencil& stencil, std::span<const std::byte> filled,
                                   uint64_t block_size) {
  auto code = decode_stencil(stencil);
  if (!code) return code.error();
  if (auto values = read_filled(stencil, filled, *code); !values) return values;
  return Verifier(stencil, std::move(*code), block_size).run();
}

namespace {

// Only where nothing jumps into the middle of it, all of it can be replaced.
void note_counter_read(Stencil& stencil, uint32_t offset, std::span<const Decoded> code) {
  const auto same = [](std::byte byte, uint8_t known) { return std::to_integer<uint8_t>(byte) == known; };
  const auto inside = [&](const Decoded& d) {
    if (d.flow == Flow::next || !d.holes.empty()) return false;
    const int64_t target = int64_t{d.offset} + d.size + d.operands[0].value;
    return target > offset && target < int64_t{offset} + static_cast<int64_t>(arch::kCounterRead.size());
  };
  const auto from = std::span(stencil.code).subspan(offset);
  if (from.size() >= arch::kCounterRead.size() &&
      std::ranges::equal(from.first(arch::kCounterRead.size()), arch::kCounterRead, same) &&
      std::ranges::none_of(code, inside))
    stencil.counter_reads.push_back(offset);
  else
    stencil.reads_otherwise = true;
}

}  // namespace

void note_decoded(Stencil& stencil) {
  auto code = decode_stencil(stencil);
  if (!code) return;
  for (const Decoded& decoded : *code) {
    stencil.written |= decoded.written;
    stencil.read |= decoded.read;
    if (decoded.name == "RDTSC") note_counter_read(stencil, decoded.offset, *code);
  }
  stencil.cost = cost_of(stencil, *code);
}

}  // namespace

const TargetRules kStencilRules = {"x86_64",       llvm::ELF::EM_X86_64, field_shape,
                                   verify_stencil, note_decoded,         verify_filled_stencil};

}  // namespace mdl::plan::x86_64
