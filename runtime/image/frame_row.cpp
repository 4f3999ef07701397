// Runs the instructions of a CIE and an FDE up to a pc (DWARF 5, section 6.4.2, and the two
// GNU extensions that compilers emit).
#include <algorithm>
#include <limits>
#include <vector>

#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/Support/DataExtractor.h"
#include "runtime/arch/description.h"
#include "runtime/image/frames.h"

namespace mdl::image {
namespace {

namespace dwarf = llvm::dwarf;
using llvm::DataExtractor;

constexpr size_t kMaxRemembered = 16;  // compilers nest one deep
constexpr uint32_t kMany = 256;        // bytes of instructions; few entries have as many

CfaRule cfa_of(const Row& row) {
  return {row.cfa_is_expression, row.cfa_register, row.cfa_offset};
}

class Interpreter {
 public:
  Interpreter(std::span<const std::byte> section, const Cie& cie, uint64_t address, uint64_t bias)
      : section_(section), cie_(cie), address_(address), bias_(bias) {}

  // False when malformed. Stops before the row that starts behind `pc`.
  bool run(uint32_t from, uint32_t to, uint64_t location, uint64_t pc) {
    return run(from, to, location, pc, [](uint64_t, uint64_t) { return true; });
  }

  // The same, and calls each(start, end) where a row ends, before the next one begins. Ends where that is false.
  template <class Each>
  bool run(uint32_t from, uint32_t to, uint64_t location, uint64_t pc, Each each) {
    DataExtractor data(llvm::StringRef(reinterpret_cast<const char*>(section_.data()), to), true, 8);
    DataExtractor::Cursor cursor(from);
    bool sound = true;
    while (sound && cursor && cursor.tell() < to && location <= pc) {
      const uint64_t start = location;
      sound = step(data, cursor, location);
      if (sound && cursor && location != start) sound = each(start, location);
    }
    if (!cursor) sound = false;
    steps_ += cursor.tell() - from;
    llvm::consumeError(cursor.takeError());
    return sound;
  }

  void keep_as_initial() { initial_ = row_; }
  const Row& row() const { return row_; }
  uint64_t steps() const { return steps_; }

 private:
  bool step(DataExtractor& data, DataExtractor::Cursor& cursor, uint64_t& location);
  bool define_cfa(uint8_t opcode, DataExtractor& data, DataExtractor::Cursor& cursor);
  bool define_register(uint8_t opcode, DataExtractor& data, DataExtractor::Cursor& cursor);

  void advance(uint64_t& location, uint64_t delta) const { location += delta * cie_.code_align; }
  // Registers beyond the general ones (vector registers) are accepted and forgotten.
  void set(uint64_t number, Rule rule) {
    if (number < count_) row_.registers[number] = rule;
  }
  int64_t factored(uint64_t value) const {
    return static_cast<int64_t>(value * static_cast<uint64_t>(cie_.data_align));
  }
  static bool take_block(DataExtractor& data, DataExtractor::Cursor& cursor, uint32_t& from, uint32_t& to) {
    uint64_t length = data.getULEB128(cursor);
    from = static_cast<uint32_t>(cursor.tell());
    data.skip(cursor, length);
    to = static_cast<uint32_t>(cursor.tell());
    return static_cast<bool>(cursor);
  }

  std::span<const std::byte> section_;
  const Cie& cie_;
  uint64_t address_, bias_;
  uint64_t steps_ = 0;
  const size_t count_ = arch::kMachine.frames.registers;
  Row row_, initial_;
  std::vector<Row> remembered_;  // not often any
};

bool Interpreter::define_cfa(uint8_t opcode, DataExtractor& data, DataExtractor::Cursor& cursor) {
  switch (opcode) {
    case dwarf::DW_CFA_def_cfa:
    case dwarf::DW_CFA_def_cfa_sf:
      row_.cfa_register = data.getULEB128(cursor);
      row_.cfa_offset = opcode == dwarf::DW_CFA_def_cfa
                            ? static_cast<int64_t>(data.getULEB128(cursor))
                            : factored(static_cast<uint64_t>(data.getSLEB128(cursor)));
      row_.cfa_is_expression = false;
      return true;
    case dwarf::DW_CFA_def_cfa_register:
      row_.cfa_register = data.getULEB128(cursor);
      return true;
    case dwarf::DW_CFA_def_cfa_offset:
      row_.cfa_offset = static_cast<int64_t>(data.getULEB128(cursor));
      return true;
    case dwarf::DW_CFA_def_cfa_offset_sf:
      row_.cfa_offset = factored(static_cast<uint64_t>(data.getSLEB128(cursor)));
      return true;
    case dwarf::DW_CFA_def_cfa_expression:
      row_.cfa_is_expression = true;
      return take_block(data, cursor, row_.expression, row_.expression_end);
    default:
      return false;
  }
}

bool Interpreter::define_register(uint8_t opcode, DataExtractor& data, DataExtractor::Cursor& cursor) {
  uint64_t number = data.getULEB128(cursor);
  Rule rule;
  switch (opcode) {
    case dwarf::DW_CFA_offset_extended:
      rule = {Rule::Kind::at_cfa, factored(data.getULEB128(cursor))};
      break;
    case dwarf::DW_CFA_offset_extended_sf:
      rule = {Rule::Kind::at_cfa, factored(static_cast<uint64_t>(data.getSLEB128(cursor)))};
      break;
    case dwarf::DW_CFA_val_offset:
      rule = {Rule::Kind::is_cfa, factored(data.getULEB128(cursor))};
      break;
    case dwarf::DW_CFA_val_offset_sf:
      rule = {Rule::Kind::is_cfa, factored(static_cast<uint64_t>(data.getSLEB128(cursor)))};
      break;
    case dwarf::DW_CFA_restore_extended:
      rule = number < count_ ? initial_.registers[number] : rule;
      break;
    case dwarf::DW_CFA_undefined:
      rule.kind = Rule::Kind::undefined;
      break;
    case dwarf::DW_CFA_same_value:
      rule.kind = Rule::Kind::same;
      break;
    case dwarf::DW_CFA_register:
      rule = {Rule::Kind::in_register, static_cast<int64_t>(data.getULEB128(cursor))};
      break;
    case dwarf::DW_CFA_expression:
    case dwarf::DW_CFA_val_expression:
      rule.kind = opcode == dwarf::DW_CFA_expression ? Rule::Kind::at_expression : Rule::Kind::is_expression;
      if (!take_block(data, cursor, rule.expression, rule.expression_end)) return false;
      break;
    default:
      return false;
  }
  set(number, rule);
  return true;
}

bool Interpreter::step(DataExtractor& data, DataExtractor::Cursor& cursor, uint64_t& location) {
  uint8_t opcode = data.getU8(cursor);
  uint8_t low = opcode & 0x3f;
  switch (opcode & 0xc0) {
    case dwarf::DW_CFA_advance_loc:
      advance(location, low);
      return true;
    case dwarf::DW_CFA_offset:
      set(low, {Rule::Kind::at_cfa, factored(data.getULEB128(cursor))});
      return true;
    case dwarf::DW_CFA_restore:
      if (low < count_) row_.registers[low] = initial_.registers[low];
      return true;
    default:
      break;
  }
  switch (opcode) {
    case dwarf::DW_CFA_nop:
      return true;
    case dwarf::DW_CFA_set_loc: {
      uint64_t at = cursor.tell();
      std::optional<uint64_t> value =
          read_encoded_pointer(section_, address_, at, cie_.pointer_encoding, bias_);
      if (!value || at > data.size()) return false;
      cursor.seek(at);
      location = *value;
      return true;
    }
    case dwarf::DW_CFA_advance_loc1:
      advance(location, data.getU8(cursor));
      return true;
    case dwarf::DW_CFA_advance_loc2:
      advance(location, data.getU16(cursor));
      return true;
    case dwarf::DW_CFA_advance_loc4:
      advance(location, data.getU32(cursor));
      return true;
    case dwarf::DW_CFA_remember_state:
      if (remembered_.size() == kMaxRemembered) return false;
      remembered_.push_back(row_);
      return true;
    case dwarf::DW_CFA_restore_state:
      if (remembered_.empty()) return false;
      row_ = remembered_.back();
      remembered_.pop_back();
      return true;
    case dwarf::DW_CFA_GNU_args_size:
      data.getULEB128(cursor);
      return true;
    case dwarf::DW_CFA_def_cfa:
    case dwarf::DW_CFA_def_cfa_sf:
    case dwarf::DW_CFA_def_cfa_register:
    case dwarf::DW_CFA_def_cfa_offset:
    case dwarf::DW_CFA_def_cfa_offset_sf:
    case dwarf::DW_CFA_def_cfa_expression:
      return define_cfa(opcode, data, cursor);
    default:
      return define_register(opcode, data, cursor);
  }
}

}  // namespace

std::optional<Row> FrameTable::row_at(const Fde& entry, uint64_t pc, uint64_t* steps) const {
  const Cie& cie = cies_[entry.cie];
  const std::optional<Body> body = read_body(entry);
  if (!body) return std::nullopt;
  Interpreter interpreter(section_, cie, address_, bias_);
  if (!interpreter.run(cie.program, cie.program_end, 0, 0)) return std::nullopt;
  interpreter.keep_as_initial();
  const bool is_sound = interpreter.run(body->program, body->program_end, entry.start, pc);
  if (steps) *steps += interpreter.steps();
  if (!is_sound) return std::nullopt;
  return interpreter.row();
}

// What does not fit is as unknown as what is malformed.
FrameTable::CfaFrom FrameTable::cfa_from(const Fde& entry, uint64_t start,
                                         const std::optional<CfaRule>& rule) {
  CfaFrom out{.start = static_cast<uint32_t>(start - entry.start)};
  if (!rule || rule->base > std::numeric_limits<uint16_t>::max() ||
      rule->offset != static_cast<int32_t>(rule->offset))
    return out;
  out.offset = static_cast<int32_t>(rule->offset);
  out.base = static_cast<uint16_t>(rule->base);
  out.is_known = true;
  out.is_expression = rule->is_expression;
  return out;
}

// Rows that do not follow upon each other (DW_CFA_set_loc) end the list in doubt.
FrameTable::CfaList FrameTable::list_cfa(const Fde& entry, const Body& body, uint64_t& steps) const {
  const Cie& cie = cies_[entry.cie];
  CfaList out;
  uint64_t behind = entry.start;
  std::optional<CfaRule> last;
  const auto add = [&](uint64_t start, const std::optional<CfaRule>& rule) {
    if (!out.empty() && rule == last) return;
    out.push_back(cfa_from(entry, start, rule));
    last = rule;
  };
  Interpreter interpreter(section_, cie, address_, bias_);
  bool is_sound = interpreter.run(cie.program, cie.program_end, 0, 0);
  interpreter.keep_as_initial();
  is_sound = is_sound && interpreter.run(body.program, body.program_end, entry.start, entry.end - 1,
                                         [&](uint64_t start, uint64_t end) {
                                           add(start, cfa_of(interpreter.row()));
                                           behind = std::max(start, end);
                                           return end > start;
                                         });
  if (behind < entry.end) add(behind, is_sound ? std::optional(cfa_of(interpreter.row())) : std::nullopt);
  steps += interpreter.steps();
  return out;
}

std::optional<CfaRule> FrameTable::cfa_at(const Fde& entry, uint64_t pc, uint64_t& steps) const {
  const std::optional<Body> body = read_body(entry);
  if (!body) return std::nullopt;
  const bool is_listed = body->program_end - body->program >= kMany && entry.start <= pc && pc < entry.end &&
                         entry.end - entry.start <= std::numeric_limits<uint32_t>::max();
  if (!is_listed) {
    const std::optional<Row> row = row_at(entry, pc, &steps);
    return row ? std::optional(cfa_of(*row)) : std::nullopt;
  }
  const std::scoped_lock lock(lists_mutex_);
  const auto [list, is_new] = lists_.try_emplace(entry.at);
  if (is_new) list->second = list_cfa(entry, *body, steps);
  steps++;
  const auto after = std::ranges::upper_bound(list->second, pc - entry.start, {}, &CfaFrom::start);
  if (after == list->second.begin()) return std::nullopt;
  const CfaFrom& at = *std::prev(after);
  if (!at.is_known) return std::nullopt;
  return CfaRule{at.is_expression, at.base, at.offset};
}

}  // namespace mdl::image
