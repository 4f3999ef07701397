#include "runtime/image/frames.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/Support/DataExtractor.h"
#include "llvm/Support/LEB128.h"
#include "runtime/arch/description.h"

namespace mdl::image {
namespace {

using llvm::DataExtractor;

DataExtractor extractor(std::span<const std::byte> bytes) {
  return {llvm::StringRef(reinterpret_cast<const char*>(bytes.data()), bytes.size()), true, 8};
}

// A cursor whose error state is only asked, never propagated.
struct Cursor : DataExtractor::Cursor {
  explicit Cursor(uint64_t at) : DataExtractor::Cursor(at) {}
  ~Cursor() { llvm::consumeError(takeError()); }
  bool failed() {
    if (*this) return false;
    llvm::consumeError(takeError());
    return true;
  }
};

// A number at `at`, which moves behind it; nothing when the bytes end. There are tens of thousands of entries with a
// few each.
template <typename T>
std::optional<T> fixed(std::span<const std::byte> bytes, uint64_t& at) {
  T value;
  if (at > bytes.size() || bytes.size() - at < sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  at += sizeof value;
  return value;
}

// The same with a variable length.
template <typename T, typename Decode>
std::optional<T> variable(std::span<const std::byte> bytes, uint64_t& at, Decode decode) {
  if (at > bytes.size()) return std::nullopt;
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data()) + at;
  const char* problem = nullptr;
  unsigned size = 0;
  const T value = decode(from, &size, from + (bytes.size() - at), &problem);
  if (problem) return std::nullopt;
  at += size;
  return value;
}
std::optional<uint64_t> uleb128(std::span<const std::byte> bytes, uint64_t& at) {
  return variable<uint64_t>(bytes, at, llvm::decodeULEB128);
}
std::optional<int64_t> sleb128(std::span<const std::byte> bytes, uint64_t& at) {
  return variable<int64_t>(bytes, at, llvm::decodeSLEB128);
}

template <typename T>
std::optional<uint64_t> extended(std::optional<T> number) {
  return number ? std::optional(static_cast<uint64_t>(int64_t{*number})) : std::nullopt;
}

constexpr size_t kMostCies = 1 << 16;  // linkers merge those that are the same

// How many there may be: a list that grows takes three times their memory.
size_t count_entries(std::span<const std::byte> section) {
  size_t count = 0;
  for (uint64_t at = 0; const auto length = fixed<uint32_t>(section, at); ++count) {
    if (*length < 4 || *length > section.size() - at) break;
    at += *length;
  }
  return count;
}

}  // namespace

std::optional<uint64_t> read_encoded_pointer(std::span<const std::byte> bytes, uint64_t address, uint64_t& at,
                                             uint8_t encoding, uint64_t bias) {
  namespace dwarf = llvm::dwarf;
  if (encoding == dwarf::DW_EH_PE_omit) return std::nullopt;
  const uint64_t position = address + at;
  std::optional<uint64_t> number;
  switch (encoding & 0x0f) {
    case dwarf::DW_EH_PE_absptr:
    case dwarf::DW_EH_PE_udata8:
    case dwarf::DW_EH_PE_sdata8:
      number = fixed<uint64_t>(bytes, at);
      break;
    case dwarf::DW_EH_PE_uleb128:
      number = uleb128(bytes, at);
      break;
    case dwarf::DW_EH_PE_sleb128:
      number = extended(sleb128(bytes, at));
      break;
    case dwarf::DW_EH_PE_udata2:
      number = fixed<uint16_t>(bytes, at);
      break;
    case dwarf::DW_EH_PE_sdata2:
      number = extended(fixed<int16_t>(bytes, at));
      break;
    case dwarf::DW_EH_PE_udata4:
      number = fixed<uint32_t>(bytes, at);
      break;
    case dwarf::DW_EH_PE_sdata4:
      number = extended(fixed<int32_t>(bytes, at));
      break;
    default:
      break;
  }
  if (!number) return std::nullopt;
  const uint64_t value = *number;
  switch (encoding & 0x70) {
    case 0:
      return value == 0 ? 0 : value + bias;
    case dwarf::DW_EH_PE_pcrel:
      return value == 0 ? 0 : value + position;
    default:
      return std::nullopt;
  }
}

FrameTable::FrameTable(std::vector<std::byte> section, uint64_t address, uint64_t bias)
    : section_(std::move(section)), address_(address), bias_(bias) {
  if (section_.size() > std::numeric_limits<uint32_t>::max()) return;
  entries_.reserve(count_entries(section_));
  std::unordered_map<uint64_t, uint32_t> index_of;  // offset of a CIE -> index
  uint64_t at = 0;
  while (const auto length = fixed<uint32_t>(section_, at)) {
    // 0 is the terminator. The 64-bit format (0xffffffff) is for sections over 4 GiB, which are refused above.
    if (*length >= 0xfffffff0 || *length < 4 || *length > section_.size() - at) break;
    const uint64_t id_at = at, end = at + *length;
    const uint32_t id = *fixed<uint32_t>(section_, at);
    if (id != 0 && id <= id_at) {
      const uint64_t cie_at = id_at - id;
      auto known = index_of.find(cie_at);
      if (known == index_of.end()) {
        // CIEs come before their FDEs, but a CIE is looked at when it is first referred to.
        uint64_t body = cie_at;
        const auto cie_length = fixed<uint32_t>(section_, body);
        if (!cie_length || *cie_length < 4 || *cie_length > section_.size() - body ||
            fixed<uint32_t>(section_, body) != 0u)
          break;
        std::optional<Cie> cie = read_cie(body, body - 4 + *cie_length);
        if (!cie || cies_.size() == kMostCies) break;
        known = index_of.emplace(cie_at, static_cast<uint32_t>(cies_.size())).first;
        cies_.push_back(*cie);
      }
      std::optional<Fde> entry = read_fde(at, end, known->second);
      if (!entry) break;
      if (entry->start < entry->end) entries_.push_back(*entry);
    }
    at = end;
  }
  auto is_before = [](const Fde& a, const Fde& b) {
    return a.start != b.start ? a.start < b.start : a.at < b.at;
  };
  if (!std::is_sorted(entries_.begin(), entries_.end(), is_before))
    std::sort(entries_.begin(), entries_.end(), is_before);
}

std::optional<Cie> FrameTable::read_cie(uint64_t at, uint64_t end) const {
  DataExtractor data = extractor(std::span(section_).first(end));
  Cursor cursor(at);
  Cie cie;
  uint8_t version = data.getU8(cursor);
  if (cursor.failed() || (version != 1 && version != 3)) return std::nullopt;
  llvm::StringRef augmentation = data.getCStrRef(cursor);
  cie.code_align = data.getULEB128(cursor);
  cie.data_align = data.getSLEB128(cursor);
  cie.return_register = version == 1 ? data.getU8(cursor) : data.getULEB128(cursor);
  if (cursor.failed()) return std::nullopt;
  if (!augmentation.empty() && augmentation[0] != 'z') return std::nullopt;
  if (!augmentation.empty()) {
    cie.has_augmentation_data = true;
    uint64_t length = data.getULEB128(cursor);
    if (cursor.failed() || length > end - cursor.tell()) return std::nullopt;
    uint64_t body = cursor.tell();
    uint64_t body_end = body + length;
    for (char letter : augmentation.drop_front()) {
      if (letter == 'S') cie.is_signal_frame = true;
      if (letter != 'R' && letter != 'L' && letter != 'P') continue;
      if (body >= body_end) return std::nullopt;
      auto encoding = static_cast<uint8_t>(section_[body++]);
      if (letter == 'R') cie.pointer_encoding = encoding;
      if (letter == 'L') cie.lsda_encoding = encoding;
      if (letter == 'P' &&
          !read_encoded_pointer(std::span(section_).first(body_end), address_, body, encoding & 0x7f, bias_))
        return std::nullopt;
    }
    cie.program = static_cast<uint32_t>(body_end);
  } else {
    cie.program = static_cast<uint32_t>(cursor.tell());
  }
  cie.program_end = static_cast<uint32_t>(end);
  return cie;
}

std::optional<Fde> FrameTable::read_fde(uint64_t at, uint64_t end, uint32_t cie_index) const {
  std::span bytes = std::span(section_).first(end);
  const Cie& cie = cies_[cie_index];
  Fde entry;
  entry.cie = cie_index;
  entry.at = static_cast<uint32_t>(at);
  std::optional<uint64_t> start = read_encoded_pointer(bytes, address_, at, cie.pointer_encoding, bias_);
  // The range has the pointer's format but is a plain number.
  std::optional<uint64_t> size = read_encoded_pointer(bytes, 0, at, cie.pointer_encoding & 0x0f, 0);
  if (!start || !size) return std::nullopt;
  entry.start = *start;
  entry.end = *start + *size;
  return read_body(entry) ? std::optional(entry) : std::nullopt;
}

std::optional<FrameTable::Body> FrameTable::read_body(const Fde& entry) const {
  constexpr uint64_t kHead = 8;  // its length and that of the way to its CIE
  const Cie& cie = cies_[entry.cie];
  uint64_t at = entry.at - kHead;
  const auto length = fixed<uint32_t>(section_, at);
  if (!length) return std::nullopt;
  const uint64_t end = at + *length;
  const std::span bytes = std::span(section_).first(end);
  at = entry.at;
  if (!read_encoded_pointer(bytes, address_, at, cie.pointer_encoding, bias_) ||
      !read_encoded_pointer(bytes, 0, at, cie.pointer_encoding & 0x0f, 0))
    return std::nullopt;
  Body out;
  if (cie.has_augmentation_data) {
    const auto size = uleb128(bytes, at);
    if (!size || *size > end - at) return std::nullopt;
    uint64_t body = at;
    at += *size;
    if (cie.lsda_encoding != llvm::dwarf::DW_EH_PE_omit && *size > 0)
      out.lsda = read_encoded_pointer(bytes, address_, body, cie.lsda_encoding, bias_).value_or(0);
  }
  out.program = static_cast<uint32_t>(at);
  out.program_end = static_cast<uint32_t>(end);
  return out;
}

uint64_t FrameTable::lsda(const Fde& entry) const {
  if (cies_[entry.cie].lsda_encoding == llvm::dwarf::DW_EH_PE_omit) return 0;
  const std::optional<Body> body = read_body(entry);
  return body ? body->lsda : 0;
}

const Fde* FrameTable::find(uint64_t pc) const {
  auto after = std::upper_bound(entries_.begin(), entries_.end(), pc,
                                [](uint64_t value, const Fde& entry) { return value < entry.start; });
  if (after == entries_.begin()) return nullptr;
  const Fde& entry = *--after;
  return pc < entry.end ? &entry : nullptr;
}

namespace {

enum class State : uint8_t { unknown, open, closed };

State state_at(const FrameTable& table, uint64_t pc, const Budget& budget) {
  const Fde* entry = budget.is_spent() ? nullptr : table.find(pc);
  uint64_t steps = 1;
  const std::optional<CfaRule> cfa = entry ? table.cfa_at(*entry, pc, steps) : std::nullopt;
  if (!budget.spend(steps) || !cfa) return State::unknown;
  const auto& frames = arch::kMachine.frames;
  const bool is_closed =
      !cfa->is_expression && cfa->base == frames.stack_pointer && cfa->offset == frames.cfa_at_entry;
  return is_closed ? State::closed : State::open;
}

}  // namespace

bool frame_is_open(const FrameTable& table, uint64_t pc, const Budget& budget) {
  return state_at(table, pc, budget) == State::open;
}

bool frame_is_closed(const FrameTable& table, uint64_t pc, const Budget& budget) {
  return state_at(table, pc, budget) == State::closed;
}

}  // namespace mdl::image
