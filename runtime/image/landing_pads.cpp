#include "runtime/image/landing_pads.h"

#include <algorithm>

#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/Support/DataExtractor.h"

namespace mdl::image {
namespace {

constexpr uint64_t kMaxTable = 1 << 20;

std::optional<uint64_t> read_uleb(std::span<const std::byte> bytes, uint64_t& at) {
  return read_encoded_pointer(bytes, 0, at, llvm::dwarf::DW_EH_PE_uleb128, 0);
}

// A number in the call-site table: the format of the encoding, nothing added to it.
std::optional<uint64_t> read_number(std::span<const std::byte> bytes, uint64_t& at, uint8_t encoding) {
  return read_encoded_pointer(bytes, 0, at, encoding & 0x0f, 0);
}

// As much as can be read of [address, address + size), found by halving.
std::vector<std::byte> read_some(const Memory& memory, uint64_t address, uint64_t size) {
  for (; size > 0; size /= 2) {
    std::vector<std::byte> bytes(size);
    if (memory.read(address, bytes)) return bytes;
  }
  return {};
}

}  // namespace

// Itanium C++ ABI, "Exception Handling Tables": [LPStart encoding, LPStart], [type table
// encoding, its offset], call-site encoding, length, then entries of start, length, pad, action.
bool read_landing_pads(const FrameTable& frames, const Fde& entry, const Memory& memory,
                       std::vector<LandingPad>& pads, const Budget& budget) {
  const uint64_t lsda = frames.lsda(entry);
  if (lsda == 0) return true;
  std::vector<std::byte> bytes = read_some(memory, lsda, 64);
  uint64_t at = 0;
  uint64_t base = entry.start;
  auto take_byte = [&]() -> std::optional<uint8_t> {
    if (at >= bytes.size()) return std::nullopt;
    return static_cast<uint8_t>(bytes[at++]);
  };
  std::optional<uint8_t> encoding = take_byte();
  if (!encoding) return false;
  if (*encoding != llvm::dwarf::DW_EH_PE_omit) {
    // pcrel is relative to the field itself; absptr is as the loader relocated it.
    std::optional<uint64_t> start = read_encoded_pointer(bytes, lsda, at, *encoding & 0x7f, 0);
    if (!start) return false;
    base = *start;
  }
  encoding = take_byte();
  if (!encoding || (*encoding != llvm::dwarf::DW_EH_PE_omit && !read_uleb(bytes, at))) return false;
  encoding = take_byte();
  std::optional<uint64_t> length = encoding ? read_uleb(bytes, at) : std::nullopt;
  if (!length || *length > kMaxTable || !budget.spend(*length)) return false;
  std::vector<std::byte> table(*length);
  if (!memory.read(lsda + at, table)) return false;
  for (uint64_t position = 0; position < table.size();) {
    std::optional<uint64_t> start = read_number(table, position, *encoding);
    std::optional<uint64_t> size = read_number(table, position, *encoding);
    std::optional<uint64_t> pad = read_number(table, position, *encoding);
    if (!start || !size || !pad || !read_uleb(table, position)) return false;
    if (*pad == 0) continue;
    uint64_t first = entry.start + *start;
    pads.push_back({{first, first + *size}, base + *pad});
  }
  return true;
}

}  // namespace mdl::image
