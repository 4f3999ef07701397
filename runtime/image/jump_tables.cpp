// Indirect jumps: is it a switch (or computed goto) inside the function, or a tail call?
//
// Compilers load a target from a table of 4-byte offsets relative to the table (position-
// independent switches), or of 8-byte addresses (others, and labels as values). The search
// over-approximates: every address that the function forms is tried as either kind, and
// consecutive entries that are instructions of the function are targets. Among them may be its end: clang
// leads there what cannot happen. A jump is inside when its register comes from such a table, an exit when its frame is taken down (frames.h)
// and nothing speaks for a table; the rest is unresolved.
#include <algorithm>
#include <bit>

#include "runtime/arch/description.h"
#include "runtime/image/function_code.h"

namespace mdl::image {
namespace {

constexpr size_t kMaxEntries = 1 << 16;
constexpr size_t kLookBack = 40;

// The address that an instruction forms: that of a pc-relative operand, an absolute displacement
// beside an index, an immediate. 0 when it forms none.
uint64_t formed_address(const Decoded& one) {
  const Detail& detail = one.detail;
  if (detail.has_memory && !detail.memory.has_segment) {
    if (detail.memory.base == kPcRegister)
      return detail.operation == Operation::address
                 ? one.end() + static_cast<uint64_t>(detail.memory.displacement)
                 : 0;
    if (detail.memory.index != kNoRegister && detail.memory.displacement > 0)
      return static_cast<uint64_t>(detail.memory.displacement);
    if (detail.operation == Operation::address && detail.memory.base == kNoRegister &&
        detail.memory.displacement > 0)
      return static_cast<uint64_t>(detail.memory.displacement);
    return 0;
  }
  if (detail.operation == Operation::constant) return static_cast<uint64_t>(detail.immediate);
  return 0;
}

// How many bytes from `address` on are readable and of this object's file.
uint64_t readable_from(const FunctionCode& code, uint64_t address) {
  const std::vector<Mapping>& mappings = code.image.mappings;
  auto after = std::upper_bound(mappings.begin(), mappings.end(), address,
                                [](uint64_t value, const Mapping& mapping) { return value < mapping.start; });
  if (after == mappings.begin()) return 0;
  const Mapping& mapping = *--after;
  if (address >= mapping.end || !mapping.read || mapping.path != code.object.path) return 0;
  return mapping.end - address;
}

// One entry of a table, read as 8 or 4 bytes.
class TableReader {
 public:
  TableReader(const FunctionCode& code, uint64_t address, bool is_absolute)
      : code_(code), address_(address), is_absolute_(is_absolute), left_(readable_from(code, address)) {}

  std::optional<uint64_t> next() {
    size_t width = is_absolute_ ? 8 : 4;
    if (position_ + width > chunk_.size() && !refill()) return std::nullopt;
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i) value |= static_cast<uint64_t>(chunk_[position_ + i]) << (8 * i);
    const uint64_t at = address_ + done_ - chunk_.size() + position_;
    const uint64_t added = is_absolute_ ? 0 : address_;
    const auto distance = static_cast<int32_t>(static_cast<uint32_t>(value));
    const uint64_t place = is_absolute_ ? value : added + static_cast<uint64_t>(int64_t{distance});
    code_.memory.note_place(at, static_cast<unsigned>(width), added, place);
    position_ += width;
    return place;
  }

 private:
  bool refill() {
    // Most candidates are no tables: the first entries tell.
    uint64_t size = std::min<uint64_t>(left_ - done_, done_ == 0 ? 32 : 1024) & ~uint64_t{7};
    if (done_ > left_ || size == 0) return false;
    chunk_.resize(size);
    if (!code_.memory.unlogged().read(address_ + done_, chunk_)) return false;
    done_ += size;
    position_ = 0;
    return true;
  }

  const FunctionCode& code_;
  uint64_t address_;
  bool is_absolute_;
  uint64_t left_;
  uint64_t done_ = 0;
  std::vector<std::byte> chunk_;
  size_t position_ = 0;
};

// The source from which an indirect jump's target is computed.
struct Source {
  enum class Kind : uint8_t { table, plain, unknown };
  enum class Entry : uint8_t { absolute, offset, any };  // what is read from the table
  Kind kind = Kind::unknown;
  Registers bases = 0;   // that may hold the table's address
  uint64_t address = 0;  // the table's address, where the operand holds it
  size_t at = 0;         // index of the instruction that uses the bases
  Entry entry = Entry::any;
};

// A target that is read is 8 bytes of a table of addresses; one that is added up comes from a table of
// offsets.
Source table_of(const MemoryOperand& memory, size_t at, Source::Entry entry) {
  Source source{Source::Kind::table, 0, 0, at, entry};
  if (memory.base >= 0 && memory.base != kPcRegister) source.bases |= register_bit(memory.base);
  if (memory.displacement > 0) source.address = static_cast<uint64_t>(memory.displacement);
  return source;
}

bool has_index(const MemoryOperand& memory) {
  return memory.index != kNoRegister;
}

// Follows the jump's register backwards, in the order of addresses.
Source trace(const FunctionCode& code, size_t index) {
  const Decoded& jump = code.decoded[index];
  if (jump.detail.has_memory)
    return has_index(jump.detail.memory) ? table_of(jump.detail.memory, index, Source::Entry::absolute)
                                         : Source{Source::Kind::plain};
  int wanted = jump.detail.source;
  if (wanted < 0) return {};
  for (size_t back = 1; back <= kLookBack; ++back) {
    if (back > index) return {Source::Kind::plain};  // an argument
    const Decoded& one = code.decoded[index - back];
    Flow flow = one.instruction.flow;
    if (flow == Flow::call || flow == Flow::call_indirect) {
      if (wanted == arch::kMachine.result) return {Source::Kind::plain};  // what the call returned
      if (!(arch::kMachine.preserved & register_bit(wanted))) return {};
      continue;
    }
    if (flow != Flow::next && flow != Flow::branch) return {};
    if (!(one.instruction.touches >> wanted & 1)) continue;
    const Detail& detail = one.detail;
    switch (detail.operation) {
      case Operation::move:
        if (detail.source < 0) return {};
        wanted = detail.source;
        break;
      case Operation::add: {
        Source source{Source::Kind::table, register_bit(wanted), 0, index - back, Source::Entry::offset};
        if (detail.source >= 0) source.bases |= register_bit(detail.source);
        return source;
      }
      case Operation::load:
        return has_index(detail.memory)
                   ? table_of(detail.memory, index - back,
                              detail.load_size == 8 ? Source::Entry::absolute : Source::Entry::any)
                   : Source{Source::Kind::plain};
      case Operation::address:
        if (detail.memory.base == kPcRegister) return {Source::Kind::plain};
        return has_index(detail.memory) ? table_of(detail.memory, index - back, Source::Entry::offset)
                                        : Source{};
      case Operation::constant:
        return {Source::Kind::plain};
      default:
        return {};
    }
  }
  return {};
}

// Where control may come to other than from the instruction before, as far as direct jumps go.
bool is_joined(const FunctionCode& code, uint64_t address) {
  return std::binary_search(code.direct_targets().begin(), code.direct_targets().end(), address);
}

// The value that a register holds at an instruction, by the instructions before it.
struct Held {
  enum class Kind : uint8_t {
    address,  // that of `address`, formed by an instruction before
    loaded,   // what an instruction before has read from memory
    unknown,  // control may come from elsewhere in between, or it was computed
  };
  Kind kind = Kind::unknown;
  uint64_t address = 0;
};

Held held_before(const FunctionCode& code, size_t index, int base) {
  for (size_t i = index; i-- > 0 && index - i <= kLookBack;) {
    const Decoded& one = code.decoded[i];
    if (one.end() != code.decoded[i + 1].instruction.address ||
        is_joined(code, code.decoded[i + 1].instruction.address))
      return {};
    if (one.instruction.flow != Flow::next && one.instruction.flow != Flow::branch) return {};
    if (!(one.instruction.touches >> base & 1)) continue;
    if (one.detail.destination != base) return {};
    if (one.detail.operation == Operation::load) return {Held::Kind::loaded};
    const bool forms =
        one.detail.operation == Operation::address || one.detail.operation == Operation::constant;
    const uint64_t address = forms ? formed_address(one) : 0;
    return address != 0 ? Held{Held::Kind::address, address} : Held{};
  }
  return {};
}

// Addresses that the registers of a source hold there: the one that is known, or else all that they are
// set to anywhere in the function. A value that was read from memory is no address that the function forms.
std::vector<uint64_t> addresses_in(const FunctionCode& code, const Source& source) {
  Registers bases = source.bases;
  std::vector<uint64_t> addresses;
  if (!code.spend(code.decoded.size() / code.kPerStep)) return addresses;
  for (Registers left = bases; left != 0; left &= left - 1) {
    const int base = std::countr_zero(left);
    const Held held = held_before(code, source.at, base);
    if (held.kind == Held::Kind::address && readable_from(code, held.address) != 0) return {held.address};
    if (held.kind == Held::Kind::loaded) bases &= ~register_bit(base);
  }
  for (const Decoded& one : code.decoded) {
    if (one.detail.destination < 0 || !(bases >> one.detail.destination & 1)) continue;
    if (one.detail.operation != Operation::address && one.detail.operation != Operation::constant) continue;
    uint64_t address = formed_address(one);
    if (address != 0 && readable_from(code, address) != 0) addresses.push_back(address);
  }
  return addresses;
}

// True when the function takes the address of one of its own instructions, not its entry.
bool takes_own_label(const FunctionCode& code) {
  if (!code.spend(code.decoded.size() / code.kPerStep)) return true;
  return std::any_of(code.decoded.begin(), code.decoded.end(), [&](const Decoded& one) {
    uint64_t address = formed_address(one);
    return address != 0 && address != code.function.address && code.at(address) != nullptr;
  });
}

// The number of entries that the range check before a switch allows: n + 1 where an index above n is led to
// the default, n where one above or equal is. 0 when there is none in sight.
size_t checked_entries(const FunctionCode& code, size_t index) {
  for (size_t back = 1; back < kLookBack && back < index; ++back) {
    const Decoded& branch = code.decoded[index - back];
    const Decoded& compare = code.decoded[index - back - 1];
    if (branch.instruction.flow != Flow::branch && branch.instruction.flow != Flow::next) return 0;
    if (branch.instruction.flow != Flow::branch || compare.detail.operation != Operation::compare) continue;
    int64_t last = compare.detail.immediate & 0xffffffff;
    if (last >= static_cast<int64_t>(kMaxEntries)) return 0;
    if (branch.detail.condition == Condition::above) return static_cast<size_t>(last) + 1;
    if (branch.detail.condition == Condition::above_or_equal) return static_cast<size_t>(last);
    return 0;
  }
  return 0;
}

// The entries of a checked length, or the first ones: where any is an instruction of the function past its
// entry, they are labels of a switch, also those that lead elsewhere.
struct Labels {
  bool any_inside = false;
  std::vector<uint64_t> outside;
};

Labels read_labels(const FunctionCode& code, uint64_t address, bool is_absolute, size_t length) {
  constexpr size_t kUnchecked = 8;
  Labels labels;
  if (!code.spend(length)) return labels;
  TableReader reader(code, address, is_absolute);
  for (size_t i = 0; i < (length != 0 ? length : kUnchecked); ++i) {
    std::optional<uint64_t> target = reader.next();
    if (!target) break;
    if (!code.at(*target))
      labels.outside.push_back(*target);
    else if (*target != code.function.address)
      labels.any_inside = true;
  }
  return labels;
}

// Every table of labels that the source may be, whatever it begins with.
std::vector<Labels> labels_behind(const FunctionCode& code, const Source& source, size_t length) {
  std::vector<uint64_t> addresses = addresses_in(code, source);
  if (source.address != 0) addresses.push_back(source.address);
  std::vector<Labels> found;
  for (uint64_t address : addresses)
    for (bool is_absolute : {false, true})
      if (Labels labels = read_labels(code, address, is_absolute, length); labels.any_inside)
        found.push_back(std::move(labels));
  return found;
}

// Code to which a table of labels leads is a part of the function even where it looks like a function of its
// own: code that has no frame, returns from nowhere and jumps to nothing, as a call of abort. Code with a
// name is not.
std::optional<Range> part_at_label(const FunctionCode& code, uint64_t target) {
  Destination destination = classify_destination(code, target);
  if (destination.kind == Destination::Kind::part) return destination.part;
  const Function* around = function_at(code.object, target);
  const bool is_elsewhere =
      destination.kind == Destination::Kind::exit || destination.kind == Destination::Kind::never;
  if (!is_elsewhere || (around && !around->unnamed)) return std::nullopt;
  const Fde* entry = code.object.frame_table->find(target);
  return entry ? std::optional(Range{entry->start, entry->end}) : std::nullopt;
}

// Behind the last instruction of a range. What a switch says cannot happen leads there: to padding, or to
// whatever begins behind it.
bool is_end(const FunctionCode& code, uint64_t address) {
  return !code.at(address) &&
         std::ranges::any_of(code.ranges, [&](const Range& range) { return range.end == address; });
}

// True when the jump at `index` may take its target from the table: what it reads has the size of the table's
// entries, and the frame is as it is at the first label. (Further labels may be those of the next table.) A
// jump changes nothing of the frame: one that is made when it is taken down leads to no label at which it is
// open.
bool may_read(const FunctionCode& code, size_t index, const Source& source, const JumpTable& table) {
  if (source.entry != Source::Entry::any && table.is_absolute != (source.entry == Source::Entry::absolute))
    return false;
  const uint64_t pc = code.decoded[index].instruction.address;
  const uint64_t label =
      *std::ranges::find_if(table.targets, [&](uint64_t target) { return code.at(target) != nullptr; });
  return !(code.frame_is_closed(pc) && code.frame_is_open(label)) &&
         !(code.frame_is_open(pc) && code.frame_is_closed(label));
}

// The tables that the jump may take its target from.
std::vector<const JumpTable*> readable_tables(const FunctionCode& code, const std::vector<JumpTable>& tables,
                                              size_t index, const Source& source) {
  std::vector<const JumpTable*> out;
  for (const JumpTable& table : tables)
    if (may_read(code, index, source, table)) out.push_back(&table);
  return out;
}

// Those of them that it reads from, as far as the function's own code says so.
std::vector<const JumpTable*> tables_of(const FunctionCode& code, const std::vector<JumpTable>& tables,
                                        size_t index, const Source& source) {
  std::vector<uint64_t> addresses = addresses_in(code, source);
  if (source.address != 0) addresses.push_back(source.address);
  std::vector<const JumpTable*> found = readable_tables(code, tables, index, source);
  std::erase_if(found, [&](const JumpTable* table) {
    return std::find(addresses.begin(), addresses.end(), table->address) == addresses.end();
  });
  return found;
}

// True when an absolute table of the function is read by no jump with an index: it may be one of
// labels as values, from which any jump may take its target.
bool has_unread_label_table(const FunctionCode& code, const std::vector<JumpTable>& tables) {
  if (!code.spend((code.decoded.size() + tables.size()) / code.kPerStep)) return true;
  std::vector<const JumpTable*> read;
  for (size_t index = 0; index < code.decoded.size(); ++index) {
    if (code.decoded[index].instruction.flow != Flow::jump_indirect) continue;
    Source source = trace(code, index);
    if (source.kind != Source::Kind::table) continue;
    std::vector<const JumpTable*> own = tables_of(code, tables, index, source);
    read.insert(read.end(), own.begin(), own.end());
  }
  return std::any_of(tables.begin(), tables.end(), [&](const JumpTable& table) {
    return table.is_absolute && std::find(read.begin(), read.end(), &table) == read.end();
  });
}

}  // namespace

std::vector<JumpTable> find_jump_tables(const FunctionCode& code) {
  std::vector<uint64_t> candidates;
  for (const Decoded& one : code.decoded)
    if (uint64_t address = formed_address(one); address != 0 && readable_from(code, address) != 0)
      candidates.push_back(address);
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  std::vector<JumpTable> tables;
  for (uint64_t address : candidates) {
    for (bool is_absolute : {false, true}) {
      JumpTable table{address, is_absolute, {}};
      TableReader reader(code, address, is_absolute);
      size_t length = 0;  // up to the last entry that is an instruction
      while (table.targets.size() < kMaxEntries) {
        std::optional<uint64_t> target = reader.next();
        // The entry is in no switch; it is in arrays of functions.
        if (!target || *target == code.function.address) break;
        const bool is_label = code.at(*target) != nullptr;
        if (!is_label && !is_end(code, *target)) break;
        table.targets.push_back(*target);
        if (is_label) length = table.targets.size();
      }
      if (!code.spend(1 + table.targets.size())) return {};
      table.targets.resize(length);
      if (!table.targets.empty()) tables.push_back(std::move(table));
    }
  }
  return tables;
}

IndirectJump classify_indirect_jump(const FunctionCode& code, const std::vector<JumpTable>& tables,
                                    size_t index) {
  const uint64_t pc = code.decoded[index].instruction.address;
  Source source = trace(code, index);
  const bool any_readable = !readable_tables(code, tables, index, source).empty();
  if (source.kind == Source::Kind::table) {
    std::vector<const JumpTable*> own = tables_of(code, tables, index, source);
    if (!own.empty()) {
      size_t expected = checked_entries(code, index);
      bool is_whole = std::any_of(own.begin(), own.end(),
                                  [&](const JumpTable* table) { return table->targets.size() >= expected; });
      return is_whole ? IndirectJump::inside : IndirectJump::unresolved;
    }
    // The table's address came from elsewhere (a parameter, memory); or it holds functions.
    if (any_readable && addresses_in(code, source).empty() && source.address == 0)
      return code.frame_is_open(pc) ? IndirectJump::inside : IndirectJump::unresolved;
    if (!labels_behind(code, source, checked_entries(code, index)).empty()) return IndirectJump::unresolved;
  }
  if (code.frame_is_open(pc)) return IndirectJump::unresolved;
  if (takes_own_label(code) || has_unread_label_table(code, tables)) return IndirectJump::unresolved;
  if (code.frame_is_closed(pc))
    return source.kind != Source::Kind::plain && any_readable ? IndirectJump::unresolved : IndirectJump::exit;
  return source.kind == Source::Kind::plain && tables.empty() ? IndirectJump::exit : IndirectJump::unresolved;
}

Switch targets_of_switch(const FunctionCode& code, const std::vector<JumpTable>& tables, size_t index) {
  Switch out{code.decoded[index].instruction.address, {}, true};
  size_t length = checked_entries(code, index);
  for (const JumpTable* table : tables_of(code, tables, index, trace(code, index))) {
    size_t entries = std::min(table->targets.size(), length ? length : table->targets.size());
    out.exact &= length != 0 && entries == length;
    out.targets.insert(out.targets.end(), table->targets.begin(),
                       table->targets.begin() + static_cast<std::ptrdiff_t>(entries));
  }
  std::erase_if(out.targets, [&](uint64_t target) { return !code.at(target); });
  std::sort(out.targets.begin(), out.targets.end());
  out.targets.erase(std::unique(out.targets.begin(), out.targets.end()), out.targets.end());
  out.exact &= !out.targets.empty();
  return out;
}

std::vector<Range> parts_behind_tables(const FunctionCode& code) {
  std::vector<Range> parts;
  if (!code.object.frame_table) return parts;
  for (size_t index = 0; index < code.decoded.size(); ++index) {
    if (code.decoded[index].instruction.flow != Flow::jump_indirect) continue;
    Source source = trace(code, index);
    if (source.kind != Source::Kind::table) continue;
    size_t expected = checked_entries(code, index);
    if (expected == 0) continue;
    for (const Labels& labels : labels_behind(code, source, expected))
      for (uint64_t target : labels.outside)
        if (std::optional<Range> part = part_at_label(code, target)) parts.push_back(*part);
  }
  return parts;
}

}  // namespace mdl::image
